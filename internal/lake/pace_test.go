package lake

import (
	"testing"
	"time"
)

// TestPace holds that work with time to spare rests in between, and work in a hurry does not.
func TestPace(t *testing.T) {
	const pieces = 5
	work := func(p *Pace) (took time.Duration) {
		begun := time.Now()
		p.Rest()
		for range pieces {
			for from := time.Now(); time.Since(from) < bit; { // no sleep: that is what is measured
			}
			p.Rest()
		}
		return time.Since(begun)
	}
	if took := work(&Pace{Rests: 3}); took < 4*pieces*bit {
		t.Errorf("%v for %v of work, three times as much rest was asked for", took, pieces*bit)
	}
	if took := work(&Pace{Rests: 3, Until: time.Now().Add(time.Hour)}); took < 4*pieces*bit {
		t.Errorf("%v for %v of work with an hour to spare", took, pieces*bit)
	}
	for name, p := range map[string]*Pace{"none": nil, "no time": {Rests: 10_000, Until: time.Now()}} {
		if took := work(p); took > time.Minute {
			t.Errorf("%s: it rested, %v", name, took)
		}
	}
}
