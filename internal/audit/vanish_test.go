package audit

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"sluice/internal/engine"
	"sluice/internal/enginetest"
)

// A client that may change the settings of the stream can make the engine drop entries. Verify notices it, also when the settings
// are as they were, and after more entries.
func TestVanishedEntries(t *testing.T) {
	for name, change := range map[string]func(*jetstream.StreamConfig){
		"number of entries":  func(c *jetstream.StreamConfig) { c.MaxMsgs = 1 },
		"number per subject": func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 2 },
		"bytes":              func(c *jetstream.StreamConfig) { c.MaxBytes = 700 },
		"age":                func(c *jetstream.StreamConfig) { c.MaxAge, c.Duplicates = 100*time.Millisecond, 100*time.Millisecond },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l := open(t, dir)
			fill(t, l, 5)
			js := enginetest.Attach(t, dir)
			s, err := js.Stream(t.Context(), "SLUICE_AUDIT")
			if err != nil {
				t.Fatal(err)
			}
			before := s.CachedInfo().Config
			changed := before
			change(&changed)
			update(t, js, changed)
			await(t, s, func(st jetstream.StreamState) bool { return st.FirstSeq > 1 })
			update(t, js, before)
			if s, err := l.Verify(t.Context()); !errors.Is(err, ErrTampered) {
				t.Errorf("got %+v, %v, want %v", s, err, ErrTampered)
			}
			if name == "age" { // no entry is left, and nothing can be appended to that
				return
			}
			fill(t, l, 3)
			if s, err := l.Verify(t.Context()); !errors.Is(err, ErrTampered) {
				t.Errorf("after more entries: got %+v, %v, want %v", s, err, ErrTampered)
			}
		})
	}
}

func update(t *testing.T, js jetstream.JetStream, cfg jetstream.StreamConfig) {
	t.Helper()
	if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
}

func await(t *testing.T, s jetstream.Stream, ok func(jetstream.StreamState) bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		info, err := s.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if ok(info.State) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("got %+v after 20 s", info.State)
		}
	}
}

// Opening the log gives the stream its settings back.
func TestChangedSettingsArePutRight(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	fill(t, l, 1)
	js := enginetest.Attach(t, dir)
	s, err := js.Stream(t.Context(), "SLUICE_AUDIT")
	if err != nil {
		t.Fatal(err)
	}
	before := s.CachedInfo().Config
	changed := before
	changed.MaxMsgs, changed.MaxBytes, changed.MaxAge, changed.MaxMsgsPerSubject, changed.Discard = 10, 1<<20, time.Hour, 10, jetstream.DiscardNew
	update(t, js, changed)
	beside, err := engine.Open(t.Context(), engine.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer beside.Close()
	if _, err := Open(t.Context(), beside); err != nil {
		t.Fatal(err)
	}
	info, err := s.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := info.Config
	if got.MaxMsgs != before.MaxMsgs || got.MaxBytes != before.MaxBytes || got.MaxAge != before.MaxAge ||
		got.MaxMsgsPerSubject != before.MaxMsgsPerSubject || got.Discard != before.Discard {
		t.Errorf("got %+v, want %+v", got, before)
	}
}

// The limit of the log explains that its oldest entries are gone, and nothing else does.
func TestLimitExplainsWhatIsGone(t *testing.T) {
	const limit = 10
	for _, c := range []struct {
		dropped, last uint64
		explained     bool
	}{
		{0, 0, true},
		{0, 10, true},
		{1, 11, true},
		{1, 12, true}, // another one was added while the log was read
		{5, 15, true},
		{1, 10, false},
		{6, 15, false},
		{15, 15, false},
		{1, 1, false},
	} {
		ch := chain{Summary: Summary{Dropped: c.dropped, Entries: c.last}}
		if err := ch.explain(c.last, limit); (err == nil) != c.explained || err != nil && !errors.Is(err, ErrTampered) {
			t.Errorf("%d of %d are gone: got %v, want explained=%v", c.dropped, c.last, err, c.explained)
		}
	}
}
