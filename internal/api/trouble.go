package api

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"time"
)

// errBacklog says that events arrive faster than they can be stored.
var errBacklog = errors.New("the oldest event waits too long to be stored")

// trouble says once that the queue began to refuse, and once that it is over: a flood of requests must not
// become a flood of lines, also when some of them are taken.
type trouble struct {
	on   atomic.Bool
	last atomic.Int64 // refusal, in Unix nanoseconds
}

// quiet is for how long nothing may have been refused before the trouble is over (arbitrary).
const quiet = 5 * time.Second

func (t *trouble) note(log *slog.Logger, now time.Time, what string, err error) {
	t.last.Store(now.UnixNano())
	if t.on.CompareAndSwap(false, true) {
		log.Error("the queue refuses", "at", what, "error", err)
	}
}

// over is called when something was taken.
func (t *trouble) over(log *slog.Logger, now func() time.Time) {
	if !t.on.Load() {
		return
	}
	since := now().UnixNano() - t.last.Load()
	if since < 0 { // the clock was set back
		t.last.Add(since)
	}
	if since >= int64(quiet) && t.on.CompareAndSwap(true, false) {
		log.Info("the queue takes events again")
	}
}
