package lake

import (
	"runtime"
	"time"
)

// Pace spreads work out, so that senders find a free processor beside it: after every bit of work it rests for Rests
// times as long. A nil Pace, and one whose time is over, only gives way and goes on.
type Pace struct {
	Rests int
	Until time.Time // zero: for ever

	since time.Time // the beginning of the work since the last rest
}

// bit is how much work is done at a time. A sender hardly notices so much, and a rest costs a hundredth of it.
const bit = 2 * time.Millisecond

// Rest is called between pieces of work that are shorter than a bit.
func (p *Pace) Rest() {
	if p == nil {
		runtime.Gosched()
		return
	}
	now := time.Now()
	if p.since.IsZero() {
		p.since = now
	}
	worked := now.Sub(p.since)
	switch {
	case worked < bit:
		return
	case p.Until.IsZero() || now.Before(p.Until):
		time.Sleep(time.Duration(p.Rests) * worked)
	default:
		runtime.Gosched()
	}
	p.since = time.Now()
}
