package limit

import (
	"sync"
	"sync/atomic"
	"time"
)

// Pacing slows huge bodies down while small requests of other datasets are slow beside them. Huge is a mebibyte and
// more: no batch of ordinary events is that large, so a busy server does not slow ordinary senders down. A huge body
// costs more than its time with a place to be decoded: its record goes through the stream and the loader, and all of it
// is memory that the garbage collector looks for. So while they make more than three small requests in a thousand slow,
// a dataset has one huge body at a time on its way into the stream, and its next one begins after a rest: a multiple of
// the time that the one before took. A dataset that sends little rests little. The multiple grows fourfold while small
// requests stay slow, and falls little by little when they are not: from the most to nothing in a minute.
//
// A disk or a machine that is slow by itself is no reason to slow huge bodies down: as many requests are slow while no
// huge body has a place.
type Pacing struct {
	mu     sync.Mutex
	begun  time.Time // of the interval
	sender *Turn     // whose huge body began last
	places int       // of huge bodies, in use now
	worked bool      // a huge body had a place in this interval
	n      int       // small requests of this interval
	slow   int       // those of them that took longer than the target
	share  float64   // of small requests that are slow, smoothed
	alone  float64   // the same of intervals without a huge body

	factor atomic.Int64 // a dataset rests so many times as long as its huge body took; 0 is off
	Rested atomic.Int64 // nanoseconds that datasets rested, since the start
}

// HugeSize is from how many bytes on a body is huge: a thousand events of the usual size are half of it.
const HugeSize = 1 << 20

// The goal: of a thousand small requests, huge bodies make three slow at most. That is a third of what a p99 may hide,
// and leaves the rest to the disk.
const (
	paceTarget = 15 * time.Millisecond // what takes longer is slow: alone, a small request takes one to ten
	paceShare  = 3.0 / 1000
	paceNoise  = 1.5 // the share of slow requests without huge bodies varies by a half from minute to minute
)

// A share of three in a thousand shows only among hundreds of requests: 100 a second are 640 in 32 intervals.
const (
	paceInterval = 200 * time.Millisecond
	paceMemory   = 32 // intervals over which shares are smoothed
)

// What it costs the sender of huge bodies, whose SDK tries again for two minutes, and for 30 s at a time.
const (
	maxRest     = 30 * time.Second                // three tries and more
	maxFactor   = int64(2 * maxRest / paceTarget) // then the shortest huge body, of 7 ms, rests for maxRest
	maxRestWait = 2 * time.Second                 // a request waits so long for the end of a rest: far less than a try
	maxWaiting  = 4                               // requests of a dataset that wait for it: 20 MiB of bodies
)

// Small notes that a small request of a dataset took so long. Those of the dataset that sends huge bodies say nothing
// about others.
func (p *Pacing) Small(of *Turn, now time.Time, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next(now)
	if of == p.sender {
		return
	}
	if p.n++; took > paceTarget {
		p.slow++
	}
}

// Begin notes that a huge body of a dataset has a place.
func (p *Pacing) Begin(of *Turn, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next(now)
	p.places++
	p.worked, p.sender = true, of
}

// End notes that the place is no longer used, and returns how long its dataset rests.
func (p *Pacing) End(now time.Time, used time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next(now)
	p.places--
	return min(time.Duration(p.factor.Load())*max(0, used), maxRest)
}

// next decides what follows from an interval that is over. The lock is held.
func (p *Pacing) next(now time.Time) {
	past := now.Sub(p.begun)
	if past >= 0 && past < paceInterval {
		return
	}
	p.factor.Store(p.decide(p.factor.Load()))
	p.begun, p.worked, p.n, p.slow = now, p.places > 0, 0, 0
}

// decide returns the factor after an interval. It grows fast, because others are slow meanwhile, and falls slowly,
// because the next huge body shows whether that was too early: from the most to nothing in some 300 intervals, a
// minute.
func (p *Pacing) decide(factor int64) int64 {
	if p.n == 0 { // nobody is there to be slowed down
		return factor / 2
	}
	share := float64(p.slow) / float64(p.n)
	p.share += (share - p.share) / paceMemory
	if !p.worked {
		p.alone += (share - p.alone) / paceMemory
	}
	caused := p.share - paceNoise*p.alone // by huge bodies, for certain
	switch {
	case caused > paceShare && p.worked && share > 10*paceShare: // and now, not only some seconds ago
		return min(maxFactor, max(1, 4*factor))
	case caused < paceShare/2:
		return max(0, factor-1-factor/64)
	}
	return factor
}

// On says whether huge bodies are slowed down now.
func (p *Pacing) On() bool { return p.factor.Load() > 0 }

// Turn is a dataset's right to have a huge body on its way while huge bodies are slowed down.
type Turn struct {
	one   Fair
	wait  Waiters
	until atomic.Int64 // end of the rest, in Unix nanoseconds
}

// Take waits for the right, or says how long the dataset rests if that is too long to wait.
func (t *Turn) Take(now time.Time) time.Duration {
	left := time.Duration(t.until.Load() - now.UnixNano())
	if left > maxRestWait && left <= maxRest || t.one.Waiting(&t.wait) >= maxWaiting {
		return max(left, time.Second)
	}
	t.one.Acquire(&t.wait, 1, 1)
	return 0
}

// Give gives the right to the next one after a rest.
func (t *Turn) Give(now time.Time, rest time.Duration) {
	if rest <= 0 {
		t.one.Release(1, 1)
		return
	}
	t.until.Store(now.Add(rest).UnixNano())
	time.AfterFunc(rest, func() { t.one.Release(1, 1) })
}
