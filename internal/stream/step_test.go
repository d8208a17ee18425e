package stream

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
)

// A step that fails leaves the outcome open: never a position, and before the publish nothing is stored.
func TestSteps(t *testing.T) {
	for _, c := range []struct {
		step   string
		once   bool
		stored int
	}{
		{"append.publish", false, 0},
		{"append.stored", false, 1},
		{"keyed.publish", true, 0},
		{"keyed.stored", true, 1},
	} {
		t.Run(c.step, func(t *testing.T) {
			stop := errors.New("stop")
			var came atomic.Int64
			s := runStream(t, openEngine(t, t.TempDir()), Options{Step: func(name string) error {
				if name != c.step {
					return nil
				}
				came.Add(1)
				return stop
			}})
			appendOne := func(ctx context.Context) (Position, error) {
				if c.once {
					return s.AppendKeyed(ctx, "key", []byte("record"))
				}
				return s.Append(ctx, []byte("record"))
			}
			if at, err := appendOne(t.Context()); !errors.Is(err, ErrTimeout) || !errors.Is(err, stop) || at != (Position{}) {
				t.Errorf("got %v, %v, want no position and ErrTimeout", at, err)
			}
			if came.Load() != 1 {
				t.Errorf("came to the step %d times, want once", came.Load())
			}
			if got := len(contents(t, s, 0)); got != c.stored {
				t.Errorf("got %d records, want %d", got, c.stored)
			}
		})
	}
}
