package main

import (
	"net/http"
	"testing"
	"time"

	"sluice/internal/submission"
)

// On a server that never ran an earlier version, an id in the form of earlier versions is made up: it costs nothing, so no
// limit is needed, however many are asked for. The server's own ids are found.
func TestMadeUpIDs(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir)
	key, _ := provisioned(t, dir, "shop")
	a, err := s.post(key, "/v1/events", marked("shop", "mark"))
	real := receiptOf(t, a, err)
	for i := range 30 {
		id := submission.FormatID(submission.Single, submission.NewID(submission.NewBase(time.Now().Add(48*time.Hour)), 0, uint64(i+1), 0))
		if a, err := s.call(http.MethodGet, key, "/v1/submissions/"+id, ""); err != nil || a.status != http.StatusNotFound {
			t.Fatalf("made-up id %d: got %d %s, %v, want 404", i, a.status, a.body, err)
		}
	}
	if a, err := s.call(http.MethodGet, key, "/v1/submissions/"+real, ""); err != nil || a.status != http.StatusOK {
		t.Errorf("the server's own id: got %d %s, %v, want 200", a.status, a.body, err)
	}
}
