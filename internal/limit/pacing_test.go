package limit

import (
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// load plays small requests of one dataset, a hundred a second, beside large bodies of another. One of them takes small
// if no large body is on its way, and else beside.
type load struct {
	p             Pacing
	shop, bulk    Turn
	small, beside time.Duration
	noise         int           // one request of so many is slow for another reason; 0 for none
	took          time.Duration // what a large body takes
	began         []time.Time   // the large bodies
	busy          bool          // one is on its way
	free          time.Time     // from then on the next one may begin
	slow, all     int           // small requests
}

func (l *load) run(last time.Duration, large bool) {
	for end := time.Now().Add(last); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		now, is := time.Now(), l.small
		switch {
		case l.busy && now.Sub(l.began[len(l.began)-1]) >= l.took:
			l.busy, l.free = false, now.Add(l.p.End(now, l.took))
		case !l.busy && large && !now.Before(l.free):
			l.p.Begin(&l.bulk, now)
			l.began, l.busy = append(l.began, now), true
		}
		if l.busy {
			is = l.beside
		}
		if l.noise > 0 && rand.IntN(l.noise) == 0 {
			is = 5 * paceTarget
		}
		l.p.Small(&l.shop, now, is)
		if l.all++; is > paceTarget {
			l.slow++
		}
	}
}

// Large bodies that make one small request in three slow are slowed down until hardly any is, and are not stopped.
func TestLargeBodiesAreSlowedDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &load{small: 2 * time.Millisecond, beside: 90 * time.Millisecond, took: 80 * time.Millisecond}
		l.run(10*time.Second, false)
		if l.p.On() {
			t.Fatal("large bodies are slowed down though there is none")
		}
		l.run(20*time.Second, true) // until it knows
		l.slow, l.all, l.began = 0, 0, nil
		l.run(2*time.Minute, true)
		if share := float64(l.slow) / float64(l.all); share > 0.01 {
			t.Errorf("%.1f %% of small requests are slow, want one at most", 100*share)
		}
		if n := len(l.began); n < 3 {
			t.Errorf("%d large bodies in two minutes, want one each %v at the least", n, maxRest)
		}
		const forgets = 100 * time.Second
		l.run(forgets, false)
		if l.p.On() {
			t.Errorf("%v later a rest is still %d times as long as a large body takes", forgets, l.p.factor.Load())
		}
	})
}

// Large bodies are not slowed down for a reason that is not theirs, or that concerns nobody.
func TestLargeBodiesAreLeftAlone(t *testing.T) {
	for name, l := range map[string]*load{
		"small requests stay fast":            {small: 2 * time.Millisecond, beside: 12 * time.Millisecond, took: 80 * time.Millisecond},
		"the machine is slow by itself":       {small: 2 * time.Millisecond, beside: 2 * time.Millisecond, took: 80 * time.Millisecond, noise: 5},
		"the disk is slow by itself":          {small: 200 * time.Millisecond, beside: 300 * time.Millisecond, took: 80 * time.Millisecond},
		"one request in a thousand was slow":  {small: 2 * time.Millisecond, beside: 90 * time.Millisecond, took: 0},
		"the slow requests are its own alone": {small: 2 * time.Millisecond, beside: 90 * time.Millisecond, took: 80 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			l.run(20*time.Second, false)
			if strings.Contains(name, "thousand") {
				l.run(10*time.Millisecond, true)
				l.run(10*time.Second, false)
			} else if strings.Contains(name, "own") {
				for range 1000 {
					l.p.Begin(&l.bulk, time.Now())
					l.p.Small(&l.bulk, time.Now(), l.beside)
					time.Sleep(10 * time.Millisecond)
					l.p.End(time.Now(), 10*time.Millisecond)
				}
			} else {
				l.run(20*time.Second, true)
			}
			if l.p.On() {
				t.Errorf("%s: a rest is %d times as long as a large body takes, want none", name, l.p.factor.Load())
			}
		})
	}
}

// The right of a dataset to send a large body is given on after the rest, and only so many wait for it.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns Turn
		if wait := turns.Take(time.Now()); wait != 0 {
			t.Fatalf("the first: got %v, want the turn", wait)
		}
		got := make(chan time.Duration, maxWaiting)
		for range maxWaiting {
			go func() { got <- turns.Take(time.Now()) }()
		}
		synctest.Wait()
		if wait := turns.Take(time.Now()); wait < time.Second {
			t.Errorf("one too many: got %v, want to wait", wait)
		}
		begun := time.Now()
		turns.Give(begun, time.Second)
		if wait := <-got; wait != 0 || time.Since(begun) != time.Second {
			t.Errorf("the next: got %v after %v, want the turn after 1s", wait, time.Since(begun))
		}
		for range maxWaiting - 1 {
			turns.Give(time.Now(), 0)
			if wait := <-got; wait != 0 {
				t.Errorf("a later one: got %v, want the turn", wait)
			}
		}
		begun = time.Now()
		turns.Give(begun, maxRest)
		if wait := turns.Take(begun); wait != maxRest {
			t.Errorf("in a long rest: got %v, want %v", wait, maxRest)
		}
		if wait := turns.Take(begun.Add(-time.Hour)); wait != 0 || time.Since(begun) != maxRest {
			t.Errorf("after the clock was set back: got %v after %v, want the turn after the rest", wait, time.Since(begun))
		}
	})
}
