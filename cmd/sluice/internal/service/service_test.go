package service

import (
	"bytes"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/cmd/sluice/internal/tables"
	"sluice/internal/dataset"
	"sluice/internal/engine"
)

// A server knows of a deletion that was killed before its tombstone was written, before it loads anything: else the loader would
// bring rows in behind the pass.
func TestServerKnowsDeletionsFirst(t *testing.T) {
	dir := t.TempDir()
	e, err := engine.Open(t.Context(), engine.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	reg, err := dataset.Open(t.Context(), e, dataset.Options{Now: time.Now})
	if err == nil {
		_, _, _, err = reg.Create(t.Context(), dataset.Spec{ID: "gone-set"})
	}
	if err == nil {
		_, err = reg.Delete(t.Context(), "gone-set", nil)
	}
	if err := errors.Join(err, e.Close()); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), Config{ // it starts nothing
		Engine: engine.Options{Dir: dir}, Listen: "127.0.0.1:0", Tables: tables.Location{Dir: filepath.Join(dir, "lake")},
		Loading: true, CommitEvery: time.Second, Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if set, err := s.erasures.Current(t.Context()); err != nil || !set.Deleted("gone-set", time.Now().Unix()) {
		t.Errorf("got %v, and the loader would load rows of the deleted dataset", err)
	}
}

// Who uses a path that readers cannot read is told when the server starts.
func TestPathThatReadersCannotRead(t *testing.T) {
	for name, told := range map[string]bool{"two words 50%": false, "a#b": true, "why?": true} {
		dir := filepath.Join(t.TempDir(), name)
		var log bytes.Buffer
		s, err := Open(t.Context(), Config{
			Engine: engine.Options{Dir: dir}, Listen: "127.0.0.1:0", Loading: true, CommitEvery: time.Second, Now: time.Now,
			Log: slog.New(slog.NewTextHandler(&log, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		if got := strings.Contains(log.String(), "readers take that for a part of a URL"); got != told {
			t.Errorf("%s: told %t, want %t:\n%s", name, got, told, log.String())
		}
	}
}
