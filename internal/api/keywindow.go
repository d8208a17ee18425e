package api

import (
	"strconv"
	"time"

	"sluice/event"
)

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
	r.hint = "Put more events into each request with a key, send without Idempotency-Key, or ask the operator for a " +
		"higher limit."
	return r
}
