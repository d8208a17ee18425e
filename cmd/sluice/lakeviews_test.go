package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Settings of the views that an operator saves while a server runs are in its catalog within seconds, and in the audit log; without
// any the catalog has the defaults.
func TestSavedViews(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	view := func() string {
		status, text := s.page("/iceberg/v1/lake/namespaces/sluice/views/attributions")
		if status != 200 || !strings.Contains(text, `"default-catalog":"lake"`) {
			t.Fatalf("got %d %s", status, text)
		}
		return text
	}
	if text := view(); !strings.Contains(text, "2592000000000") {
		t.Errorf("got %s, want a window of 30 days", text)
	}
	sluice(t, "lake", "views", "--data", dir, "--save", "--window", "7d")
	eventually(t, 30*time.Second, "the saved window", func() error {
		if text := view(); !strings.Contains(text, "604800000000") {
			return fmt.Errorf("got %s", text)
		}
		return nil
	})
	if got := sluice(t, "audit", "list", "--data", dir); !strings.Contains(got, "lake.views") {
		t.Errorf("got %s, want the change in the audit log", got)
	}
}
