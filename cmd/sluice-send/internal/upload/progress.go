package upload

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"sluice/cmd/sluice-send/internal/input"
)

// startProgress draws a line on a terminal until stop is called; elsewhere it is silent.
func startProgress(o *Options, s *input.Source, c *counts, before entry) (stop func()) {
	if o.Progress == nil {
		return func() {}
	}
	ended, wait := make(chan struct{}), sync.WaitGroup{}
	begin, skipped := o.Now(), s.Read.Load()
	wait.Go(func() {
		tick := time.NewTicker(200 * time.Millisecond) // arbitrary: smooth, and not a load
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				v := view{
					read: s.Read.Load(), skipped: skipped, size: s.Size,
					accepted: int64(before.Accepted) + c.accepted.Load(), rejected: int64(before.Rejected) + c.rejected.Load(),
					fresh: c.accepted.Load() + c.rejected.Load(), elapsed: o.Now().Sub(begin),
				}
				fmt.Fprint(o.Progress, "\r\x1b[K"+v.String())
			case <-ended:
				fmt.Fprint(o.Progress, "\r\x1b[K")
				return
			}
		}
	})
	return func() {
		close(ended)
		wait.Wait()
	}
}

// view is one state of the bar.
type view struct {
	read, skipped, size int64 // bytes of the file
	accepted, rejected  int64 // rows of all runs
	fresh               int64 // rows of this run
	elapsed             time.Duration
}

// String is the bar: how far, how fast, what became of the rows, how long still.
func (v view) String() string {
	const width = 24
	var b strings.Builder
	if v.size > 0 {
		done := min(float64(v.read)/float64(v.size), 1)
		full := int(done * width)
		fmt.Fprintf(&b, "[%s%s] %3.0f%%  ", strings.Repeat("#", full), strings.Repeat(".", width-full), 100*done)
	}
	rate := 0.0
	if s := v.elapsed.Seconds(); s > 0 {
		rate = float64(v.fresh) / s
	}
	fmt.Fprintf(&b, "%.0f rows/s  %d accepted  %d rejected", rate, v.accepted, v.rejected)
	if moved := v.read - v.skipped; v.size > 0 && moved > 0 && v.elapsed > time.Second {
		left := time.Duration(float64(v.elapsed) * float64(max(v.size-v.read, 0)) / float64(moved))
		fmt.Fprintf(&b, "  %s left", left.Round(time.Second))
	}
	return b.String()
}
