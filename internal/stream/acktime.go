package stream

import (
	"sync/atomic"
	"time"
)

// ackTime is how long the engine needs to acknowledge messages of one partition. It takes what has arrived together,
// writes one after the other, and then acknowledges them all. On a disk that needs 200 ms for a sync only a handful can
// be written before the first of their callers gives up: more on their way would all be written too late, each after a
// wait in vain.
type ackTime struct {
	inFlight atomic.Int64
	each     atomic.Int64 // nanoseconds for one message, smoothed
	last     atomic.Int64 // when the engine last answered, in nanoseconds since begun
	begun    time.Time    // of the writer; differences to it are monotonic
}

// enter counts a message that is being sent, and says how many there are now.
func (a *ackTime) enter() int64 { return a.inFlight.Add(1) }

// leave ends a message whose end says nothing about the engine.
func (a *ackTime) leave() { a.inFlight.Add(-1) }

// answered ends a message that was one of n on their way.
func (a *ackTime) answered(n int64, now time.Time, took time.Duration) {
	a.leave()
	a.last.Store(int64(now.Sub(a.begun)))
	a.learn(int64(took)/n, n)
}

// late ends a message, one of n, whose answer did not come in time. It would have taken longer; twice is a guess.
func (a *ackTime) late(n int64, took time.Duration) {
	a.leave()
	a.learn(2*int64(took)/n, 8)
}

// learn takes in what one of n messages took. A message that was nearly alone says little about many: most of its time
// may be the way to the engine and back, which many would share.
func (a *ackTime) learn(one, n int64) {
	old, weight := a.each.Load(), int64(8)
	if one > old {
		weight = max(2, 16/n) // callers who come in the meantime wait in vain
	}
	a.each.Store(max(0, old+(one-old)/weight)) // another's figure may be lost here: one is as good as the other
}

// crowded says whether one more message would probably not be written in half of the time there is for it.
func (a *ackTime) crowded(limit time.Duration) bool {
	n := a.inFlight.Load()
	return n > 0 && (n+1)*a.each.Load() > int64(limit/2)
}

// alive says whether the engine has answered somebody a short while ago: then it is slow, not broken.
func (a *ackTime) alive(now time.Time, limit time.Duration) bool {
	last := a.last.Load()
	return last > 0 && int64(now.Sub(a.begun))-last < int64(limit/2)
}
