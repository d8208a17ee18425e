package api

import (
	"strconv"
	"sync"
	"time"

	"sluice/event"
)

// keyWindow counts the idempotency keys that a dataset has used on this node since it started, as long as they are
// known. The engine holds each in memory, so their number is bounded.
type keyWindow struct {
	mu    sync.Mutex
	hours map[int64]int64 // keys by hour of their first use
	total int64
}

// add counts a key that is used for the first time.
func (k *keyWindow) add(now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.hours == nil {
		k.hours = make(map[int64]int64)
	}
	k.hours[now.Unix()/3600]++
	k.total++
}

// count returns how many keys are known now, and forgets those that are older than age.
func (k *keyWindow) count(now time.Time, age time.Duration) int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	oldest := now.Add(-age).Unix() / 3600
	for hour, n := range k.hours {
		if hour < oldest {
			k.total -= n
			delete(k.hours, hour)
		}
	}
	return k.total
}

// allKeys says that all datasets together have used as many idempotency keys as there may be: this one is new, or can
// no longer be told from a new one.
func allKeys() *rejection {
	r := reject(event.RateLimited, "The limit idempotency_keys_total of this service is reached.")
	r.wait = time.Minute
	r.hint = "Put more events into each request with a key, or send without Idempotency-Key."
	return r
}

// tooManyKeys says that the dataset has used as many idempotency keys as it may.
func tooManyKeys(limit int64, age time.Duration) *rejection {
	r := reject(event.RateLimited, "The limit idempotency_keys of this dataset is reached: "+
		strconv.FormatInt(limit, 10)+" keys in "+strconv.Itoa(int(age.Hours()))+" hours.")
	r.wait = time.Minute
	r.hint = "Put more events into each request with a key, send without Idempotency-Key, or ask the operator for a higher limit."
	return r
}
