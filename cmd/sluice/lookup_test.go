package main

import (
	"bytes"
	"net/http"
	"testing"
	"time"

	"sluice/internal/submission"
)

// A made-up id costs nothing, so no limit is needed, however many are asked for. The server's own ids are found.
func TestMadeUpIDs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	key, _ := provisioned(t, dir, "shop")
	a, err := s.post(key, "/v1/events", marked("shop", "mark"))
	real := receiptOf(t, a, err)
	ids, err := submission.NewIDs(bytes.Repeat([]byte{1}, 32)) // of another secret
	if err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		made := submission.Submission{Kind: submission.Single, Base: submission.NewBase(time.Now())}
		ids.Place(&made, 0, uint64(i+1), 0)
		id := submission.FormatID(made.Kind, made.ID)
		if a, err := s.call(http.MethodGet, key, "/v1/submissions/"+id, ""); err != nil || a.status != http.StatusNotFound {
			t.Fatalf("made-up id %d: got %d %s, %v, want 404", i, a.status, a.body, err)
		}
	}
	if a, err := s.call(http.MethodGet, key, "/v1/submissions/"+real, ""); err != nil || a.status != http.StatusOK {
		t.Errorf("the server's own id: got %d %s, %v, want 200", a.status, a.body, err)
	}
}
