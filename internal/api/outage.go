package api

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"time"
)

// errBacklog says that events arrive faster than they can be stored.
var errBacklog = errors.New("the oldest event waits too long to be stored")

// outage logs once that the stream began to reject, and once that it is over: many requests must not become many log
// lines, also when some of them are accepted.
type outage struct {
	on   atomic.Bool
	last atomic.Int64 // rejection, in Unix nanoseconds
}

// quiet is for how long nothing may have been rejected before an outage is over (arbitrary).
const quiet = 5 * time.Second

// rejected is called when the stream did not take something.
func (o *outage) rejected(log *slog.Logger, now time.Time, what string, err error) {
	o.last.Store(now.UnixNano())
	if o.on.CompareAndSwap(false, true) {
		log.Error("the stream rejects records", "at", what, "error", err)
	}
}

// accepted is called when the stream took something.
func (o *outage) accepted(log *slog.Logger, now func() time.Time) {
	if !o.on.Load() {
		return
	}
	since := now().UnixNano() - o.last.Load()
	if since < 0 { // the clock was set back
		o.last.Add(since)
	}
	if since >= int64(quiet) && o.on.CompareAndSwap(true, false) {
		log.Info("the stream accepts records again")
	}
}
