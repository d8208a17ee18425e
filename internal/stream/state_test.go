package stream

import (
	"errors"
	"testing"
	"time"
)

// Every move there is, and none that there is not. A status that is no longer the newest moves nothing.
func TestMoves(t *testing.T) {
	cause := errors.New("cause")
	wants := map[Phase]error{Starting: ErrUnavailable, Probing: ErrUnavailable, Writing: nil, NoSpace: ErrNoSpace, Closed: ErrClosed}
	e := openEngine(t, t.TempDir())
	for from := range wants {
		for to, want := range wants {
			s := openStream(t, e, Options{})
			if from != Starting {
				s.move(nil, from, cause)
				if from == NoSpace || from == Closed || from == Probing || from == Writing {
					if got := s.Status().Phase; got != from {
						t.Fatalf("got %v, want %v", got, from)
					}
				}
			}
			possible := to != Starting && from != Closed && !(from == NoSpace && (to == Writing || to == NoSpace)) && !(from == Writing && to == Writing)
			if moved := s.move(nil, to, cause); moved != possible {
				t.Errorf("%v to %v: got %v, want %v", from, to, moved, possible)
			}
			if !possible {
				to, want = from, wants[from]
			}
			st := s.Status()
			if st.Phase != to || !errors.Is(st.Err, want) || (st.Err == nil) != (to == Writing) {
				t.Errorf("%v: got %v, %v", to, st.Phase, st.Err)
			}
		}
	}
}

func TestFaultDuringAProbeStands(t *testing.T) {
	s := openStream(t, openEngine(t, t.TempDir()), Options{})
	s.move(nil, Probing, errors.New("first"))
	since := s.status.Load()
	second := errors.New("second")
	s.move(nil, Probing, second)
	if s.move(since, Writing, nil) {
		t.Error("a probe that began before the fault led to Writing")
	}
	if err := s.Ready(); !errors.Is(err, second) {
		t.Errorf("got %v, want the second fault", err)
	}
	if !s.move(s.status.Load(), Writing, nil) {
		t.Error("the newest status does not lead to Writing")
	}
}

// A connection that is lost is noticed without a write, and the stream comes back by itself.
func TestLostConnectionIsNoticed(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, b backend) {
		s := runStream(t, b.engine, Options{AckTimeout: 900 * time.Millisecond})
		eventually(t, "writing", func() bool { return s.Status().Phase == Writing })
		b.bounce(t)
		eventually(t, "writing again", func() bool { return s.Stats().Revived > 0 && s.Status().Phase == Writing })
		if _, err := s.Append(t.Context(), []byte("x")); err != nil {
			t.Error(err)
		}
	})
}

// A group whose time is up is gone from wherever it waited, with its memory; one that is on its way keeps it until the
// write has ended.
func TestGroupsThatExpire(t *testing.T) {
	release := make(chan struct{})
	s := runStream(t, openEngine(t, t.TempDir()), Options{
		AckTimeout: 300 * time.Millisecond, InFlight: 1, MaxFrame: 100,
		Step: func(name string) error {
			if name == "append.publish" {
				<-release
			}
			return nil
		},
	})
	eventually(t, "writing", func() bool { return s.Ready() == nil })
	errs := make(chan error, 3)
	w := s.writers[0]
	lens := func() (flying, full int, open bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.flying), len(w.full), w.open != nil
	}
	for i, want := range []func() bool{
		func() bool { flying, _, _ := lens(); return flying == 1 },
		func() bool { _, _, open := lens(); return open },
		func() bool { _, full, open := lens(); return full == 1 && open },
	} {
		go func() { _, err := s.Append(t.Context(), make([]byte, 60)); errs <- err }()
		eventually(t, []string{"sending", "gathering", "queued"}[i], want)
	}
	for range 3 {
		if err := <-errs; !errors.Is(err, ErrTimeout) {
			t.Errorf("got %v, want ErrTimeout", err)
		}
	}
	if flying, full, open := lens(); flying != 1 || full != 0 || open || s.queued.Load() != 60 {
		t.Errorf("%d sending, %d queued, gathering %v, %d bytes; want only the one that is sent", flying, full, open, s.queued.Load())
	}
	close(release)
	eventually(t, "the end of the write", func() bool { return s.queued.Load() == 0 })
}
