package loader

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/lake"
)

// busy is a stream that grows all the time, and a lake that commits one partition after the other.
type busy struct {
	partitions int
	asked      atomic.Int64
	begun      time.Time
	flushed    int
	commit     time.Duration // of each partition, one after the other; 0 means that nothing is loaded
}

func (b *busy) Partitions() int { return b.partitions }

func (b *busy) Last(context.Context, uint8) (uint64, error) {
	b.asked.Add(1)
	return 1000 + uint64(time.Since(b.begun)/time.Millisecond), nil
}

func (b *busy) Watermarks(_ context.Context, p uint8) (lake.Watermarks, error) {
	if b.commit == 0 {
		return lake.Watermarks{}, nil
	}
	// A commit holds what was there when it began.
	round := b.commit * time.Duration(b.partitions)
	begun := time.Since(b.begun) - b.commit*time.Duration(p+1)
	if begun < 0 {
		return lake.Watermarks{}, nil
	}
	at := 1000 + uint64(begun/round*round/time.Millisecond)
	return lake.Watermarks{Events: at, Rejections: at, Hours: at}, nil
}

func (b *busy) flush(context.Context) { b.flushed++ }

// seldom is a busy lake that commits only when it is asked, and then what it had read half a second before.
type seldom struct {
	*busy
	at uint64
}

func (s *seldom) Watermarks(context.Context, uint8) (lake.Watermarks, error) {
	return lake.Watermarks{Events: s.at, Rejections: s.at, Hours: s.at}, nil
}

func (s *seldom) flush(ctx context.Context) {
	s.busy.flush(ctx)
	s.at, _ = s.Last(ctx, 0)
	s.at -= 500
}

// A server that commits every minute only is asked to commit now: at once, and then every second, as each commit costs.
func TestAwaitAsksForACommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &seldom{busy: &busy{partitions: 1, begun: time.Now()}}
		if err := Await(t.Context(), s, s, nil, s.flush, true); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(s.begun); took > 2*time.Second || s.flushed != 2 {
			t.Errorf("it took %v and %d commits, want one at once and one a second later", took, s.flushed)
		}
	})
}

// What comes after a command began does not keep it waiting: eight partitions under load that commit one by one are
// settled after one round.
func TestAwaitUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &busy{partitions: 8, begun: time.Now(), commit: 5 * time.Second}
		if err := Await(t.Context(), b, b, nil, b.flush, true); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(b.begun); took > 41*time.Second {
			t.Errorf("got %v, want one round of 40 s", took)
		}
		if got := b.asked.Load(); got != 8 {
			t.Errorf("the ends were asked for %d times, want 8", got)
		}
	})
}

func TestAwaitGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &busy{partitions: 2, begun: time.Now()}
		if err := Await(t.Context(), b, b, nil, b.flush, true); !errors.Is(err, ErrNotLoaded) {
			t.Errorf("got %v, want ErrNotLoaded", err)
		}
		if took := time.Since(b.begun); took < awaitWithin || took > 2*awaitWithin {
			t.Errorf("gave up after %v, want %v", took, awaitWithin)
		}
	})
}
