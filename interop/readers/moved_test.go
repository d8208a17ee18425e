package readers

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A lake that was moved reads as Iceberg from its new place once the service has opened it there.
func TestMovedLake(t *testing.T) {
	h := begin(t, 5)
	h.compact()
	h.commit()
	to := filepath.Join(t.TempDir(), "a lake, moved, ä")
	if err := os.Rename(h.dir, to); err != nil {
		t.Fatal(err)
	}
	h.dir = to
	h.open()
	h.check("moved")
	h.now = h.now.Add(time.Hour)
	h.commit()
	h.compact()
	h.check("moved and committed to")
}

// A table without a row can be opened: the version hint is there from the first version on.
func TestEmptyLake(t *testing.T) {
	h := newHistory(t, 1)
	h.check("empty")
}
