package api

import (
	"errors"
	"log/slog"
	"sync/atomic"
)

// errBacklog says that events arrive faster than they can be stored.
var errBacklog = errors.New("the oldest event waits too long to be stored")

// trouble says once that the queue began to refuse, and once that it is over: a flood of requests must not
// become a flood of lines.
type trouble struct{ on atomic.Bool }

func (t *trouble) note(log *slog.Logger, what string, err error) {
	if t.on.CompareAndSwap(false, true) {
		log.Error("the queue refuses", "at", what, "error", err)
	}
}

func (t *trouble) over(log *slog.Logger) {
	if t.on.Load() && t.on.CompareAndSwap(true, false) {
		log.Info("the queue takes events again")
	}
}
