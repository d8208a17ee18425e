package limit

import (
	"sync"
	"time"
)

// Window counts what a dataset has used lately, such as idempotency keys as long as they are known. The zero value is
// empty.
type Window struct {
	mu    sync.Mutex
	hours map[int64]int64 // how many came in each
	total int64
}

// Add counts one more.
func (k *Window) Add(now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.hours == nil {
		k.hours = make(map[int64]int64)
	}
	k.hours[now.Unix()/3600]++
	k.total++
}

// Count is how many there are that are not older than age. It forgets the others.
func (k *Window) Count(now time.Time, age time.Duration) int64 {
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
