package arrival

import (
	"testing"
	"time"
)

// What was promised holds: for requests under way, and when the clock is set back.
func TestOldest(t *testing.T) {
	var d Desk
	clock := time.Unix(1000, 5)
	now := func() time.Time { return clock }
	for _, step := range []struct {
		clock, want int64
		leave       bool
	}{{1000, 1000, false}, {1003, 1000, false}, {1005, 1005, true}, {900, 1005, false}, {1010, 1010, true}} {
		clock = time.Unix(step.clock, 7)
		if step.clock == 1000 {
			d.Enter(now)
		}
		if step.leave {
			d.Leave(time.Unix(1000, 0))
		}
		if got := d.Oldest(now); got != step.want {
			t.Errorf("at %d: got %d, want %d", step.clock, got, step.want)
		}
	}
	clock = time.Unix(950, 0)
	if at := d.Enter(now); at.Unix() != 1010 {
		t.Errorf("got a request at %d, want 1010", at.Unix())
	}
	clock = time.Unix(1020, 0)
	if got := d.Oldest(now); got != 1010 {
		t.Errorf("got %d, want that of the request under way", got)
	}
}
