package stream

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/enginetest"
)

// A disk that needs a sixth of the time a caller has for each write, and many callers: as many as can be served are
// served, the others are rejected at once, and nobody takes the engine for broken. With an external engine, each record
// with a key is a write of its own.
func TestSlowDisk(t *testing.T) {
	const limit, each = 600 * time.Millisecond, 100 * time.Millisecond
	const first, last = 2500 * time.Millisecond, 3 * time.Second // at first nobody knows how slow it is
	var disk sync.Mutex                                          // one write after the other
	s := runStream(t, openExternal(t, enginetest.Start(t, "")), Options{AckTimeout: limit, Step: func(name string) error {
		if strings.HasSuffix(name, ".publish") {
			disk.Lock()
			defer disk.Unlock()
			<-time.After(each)
		}
		return nil
	}})
	var promised ledger
	var rejected, late, down atomic.Int64
	var wg sync.WaitGroup
	end := time.Now().Add(first + last)
	for c := range 32 {
		wg.Go(func() {
			for i := 0; time.Now().Before(end); i++ {
				rec := fmt.Sprintf("%d/%d", c, i)
				var at Position
				var err error
				if c%2 == 0 {
					at, err = s.AppendKeyed(t.Context(), rec, []byte(rec))
				} else {
					at, err = s.Append(t.Context(), []byte(rec))
				}
				switch {
				case err == nil:
					promised.add(t, at, rec)
				case errors.Is(err, ErrOverloaded):
					rejected.Add(1)
					<-time.After(20 * time.Millisecond)
				case errors.Is(err, ErrUnavailable):
					down.Add(1)
					<-time.After(20 * time.Millisecond)
				case errors.Is(err, ErrTimeout):
					late.Add(1)
				default:
					t.Errorf("append to a slow disk: %v", err)
				}
			}
		})
	}
	<-time.After(first)
	before := s.Stats()
	wg.Wait()
	st := s.Stats()
	t.Logf("%d promised in %d frames, %d rejected, %d late, %d while down", promised.len(), st.Frames, rejected.Load(), late.Load(), down.Load())
	if n := st.Revived - before.Revived; n > 2 { // a machine that is busy itself may add a pause; without pacing it is one a second and more
		t.Errorf("the stream was down %d times", n)
	}
	if n, most := st.Frames-before.Frames, uint64(last/each); n < most*3/10 {
		t.Errorf("%d frames in %v, want most of the %d that the disk can take", n, last, most)
	}
	if rejected.Load() == 0 {
		t.Error("nobody was rejected: the test shows nothing")
	}
	stored := map[string]bool{}
	for _, rec := range contents(t, s, 0) {
		stored[rec] = true
	}
	for _, rec := range promised.acked {
		if !stored[rec] {
			t.Errorf("%s was promised and is not there", rec)
		}
	}
}

func TestAckTime(t *testing.T) {
	begun := time.Now()
	p := ackTime{begun: begun}
	if p.crowded(time.Second) || p.alive(begun, time.Second) {
		t.Error("a writer that has sent nothing: got crowded or alive")
	}
	for range 60 {
		p.answered(p.enter(), begun.Add(time.Second), 200*time.Millisecond)
	}
	if p.crowded(time.Second) {
		t.Error("nothing on its way, crowded")
	}
	p.enter()
	if p.crowded(time.Second) {
		t.Error("the second of 200 ms each in 500 ms: got crowded")
	}
	n := p.enter()
	if !p.crowded(time.Second) {
		t.Error("the third of 200 ms each in 500 ms: not crowded")
	}
	p.late(n, time.Second)
	if p.alive(begun.Add(5*time.Second), time.Second) || !p.alive(begun.Add(1400*time.Millisecond), time.Second) {
		t.Error("only an answer is a sign of life, for half the time")
	}
}
