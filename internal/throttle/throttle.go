// Package throttle slows background work down, so that requests find a free processor beside it.
package throttle

import (
	"context"
	"runtime"
	"time"
)

// Throttle makes background work sleep; nil lets it work without a pause.
type Throttle struct{}

// How many times as long as they work jobs sleep. Loading gets a sixth of a processor: with a third, the p99 of single
// events beside it was 9 to 12 ms in place of 6 to 8, and a commit took half a second less.
const (
	Loading = 5
	Upkeep  = 1
)

// Job is one piece of background work. Nobody but the goroutine that does the work uses it. A nil Job never sleeps.
type Job struct {
	idle    int       // how many times as long as it works it sleeps
	until   time.Time // from then on it no longer sleeps; zero: never
	resumed time.Time // since when it works
}

// Begin starts a job that sleeps idle times as long as it works, until a time; zero is for ever. A nil Throttle gives a
// job that never sleeps.
func (t *Throttle) Begin(idle int, until time.Time) *Job {
	if t == nil {
		return nil
	}
	return &Job{idle: idle, until: until}
}

// slice is how long a job works at a time. A request hardly notices so much, and waking up costs a hundredth of it.
const slice = 2 * time.Millisecond

// Pause is called between pieces of work that are shorter than a slice. It sleeps when it is time to, and returns the
// error of a context that has ended.
func (j *Job) Pause(ctx context.Context) error {
	if j == nil {
		runtime.Gosched()
		return ctx.Err()
	}
	now := time.Now()
	if j.resumed.IsZero() {
		j.resumed = now
	}
	worked := now.Sub(j.resumed)
	if worked < slice {
		return ctx.Err()
	}
	err := ctx.Err()
	if j.until.IsZero() || now.Before(j.until) {
		err = sleep(ctx, time.Duration(j.idle)*worked)
	} else {
		runtime.Gosched()
	}
	j.resumed = time.Now()
	return err
}

// Sleeps says whether Pause may sleep now. A job that does not is in a hurry: it may use more than one processor.
func (j *Job) Sleeps() bool { return j != nil && (j.until.IsZero() || time.Now().Before(j.until)) }

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
