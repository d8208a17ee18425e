package alarm

import (
	"log/slog"
	"strings"
	"testing"
	"time"
)

// An alarm is logged when it begins and when it ends, and remembered.
func TestHistory(t *testing.T) {
	var words strings.Builder
	log := slog.New(slog.NewTextHandler(&words, nil))
	var h history
	look := func(at time.Time, on []Raised) {
		h.look(at, on, func(*Episode) bool { return true }, func(*Raised) string { return "" }, log)
	}
	on := []Raised{{Name: "SluiceDiskLow", Level: Warning, Say: "10 GiB free."}}
	look(noon, on)
	look(noon.Add(time.Second), on)
	look(noon.Add(time.Minute), nil)
	look(noon.Add(2*time.Minute), on)
	if n := strings.Count(words.String(), "SluiceDiskLow"); n != 3 {
		t.Errorf("got %d lines, want 3:\n%s", n, words.String())
	}
	got := h.episodes()
	if len(got) != 2 || got[0].Until != noon.Add(time.Minute) || !got[1].Until.IsZero() {
		t.Errorf("got %+v", got)
	}
	look(noon.Add(-time.Hour), nil)
	if !strings.Contains(words.String(), "lasted=0s") {
		t.Errorf("want that an alarm by a clock that was set back did not last:\n%s", words.String())
	}
	for i := range 3 * historyMax {
		look(noon.Add(time.Duration(i)*time.Hour), []Raised{{Name: "SluiceDiskLow"}}[:i%2])
	}
	if n := len(h.episodes()); n != historyMax {
		t.Errorf("got %d episodes, want %d", n, historyMax)
	}
}
