package throttle

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// work does pieces of work of one slice each, and says how long it slept.
func work(t *testing.T, j *Job, pieces int) (slept time.Duration) {
	t.Helper()
	begun := time.Now()
	for range pieces {
		if err := j.Pause(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(slice) // the work
	}
	if err := j.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	return time.Since(begun) - time.Duration(pieces)*slice
}

func TestPause(t *testing.T) {
	for name, c := range map[string]struct {
		idle  int
		until time.Duration // from the start; 0 is for ever
		want  time.Duration
	}{
		"for ever":         {3, 0, 5 * 3 * slice},
		"with time":        {2, time.Hour, 5 * 2 * slice},
		"in a hurry":       {3, -time.Second, 0},
		"hurry comes late": {1, 4 * slice, 2 * slice},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var until time.Time
				if c.until != 0 {
					until = time.Now().Add(c.until)
				}
				if got := work(t, new(Throttle).Begin(c.idle, until), 5); got != c.want {
					t.Errorf("got %v of sleep, want %v", got, c.want)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		if got := work(t, (*Throttle)(nil).Begin(9, time.Time{}), 5); got != 0 {
			t.Errorf("got %v of sleep without a throttle, want none", got)
		}
	})
}

func TestSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := new(Throttle).Begin(2, time.Now().Add(time.Second))
		if !j.Sleeps() {
			t.Error("got a job in a hurry, want one with time left")
		}
		time.Sleep(time.Second)
		if j.Sleeps() {
			t.Error("got a job with time left, want one in a hurry")
		}
		if !new(Throttle).Begin(1, time.Time{}).Sleeps() {
			t.Error("got a job in a hurry, want one that sleeps for ever")
		}
		if (*Job)(nil).Sleeps() {
			t.Error("got sleep without a throttle, want none")
		}
	})
}

func TestPauseEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		j := new(Throttle).Begin(1, time.Time{})
		_ = j.Pause(ctx)
		time.Sleep(time.Hour)
		if err := j.Pause(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the end of the context", err)
		}
	})
}
