package api

import (
	"strings"
	"testing"
	"time"

	"sluice/internal/dataset"
)

// A dataset has a bounded number of idempotency keys. Over it new keys are rejected, old ones are still replayed, events
// without a key are taken, and other datasets are not concerned. A key that is no longer known makes a place.
func TestKeysAreBounded(t *testing.T) {
	s := openServiceIn(t, t.TempDir(), func(s *Server) { s.Limits.IdempotencyKeys = 3 })
	s.key = s.dataset(specShop)
	for _, key := range []string{"a", "b", "b", "c"} { // a retry takes no place
		if r := s.post("/v1/events", goodEvent(""), "Idempotency-Key: "+key); r.StatusCode != 200 {
			t.Fatalf("%s: got %d %s", key, r.StatusCode, r.text)
		}
	}
	r := s.post("/v1/events", goodEvent(""), "Idempotency-Key: d")
	checkAnswer(t, r, "RATE_LIMITED")
	if r.StatusCode != 429 || !strings.Contains(r.text, "idempotency_keys of this dataset is reached: 3 keys in 72 hours") || r.Header.Get("Retry-After") == "" {
		t.Errorf("a fourth key: got %d %s", r.StatusCode, r.text)
	}
	if r := s.post("/v1/events", goodEvent(""), "Idempotency-Key: a"); r.StatusCode != 200 || r.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("the first key again: got %d %s", r.StatusCode, r.text)
	}
	if r := s.post("/v1/events", goodEvent("")); r.StatusCode != 200 {
		t.Errorf("without a key: got %d", r.StatusCode)
	}
	other := s.dataset(dataset.Spec{ID: "other"})
	if r := s.post("/v1/events", strings.Replace(goodEvent(""), "shop", "other", 1), "Idempotency-Key: d", "Authorization:", "Authorization: "+other); r.StatusCode != 200 {
		t.Errorf("another dataset: got %d", r.StatusCode)
	}
	if st := s.Stats(); st.KeysLimit != 3 || st.KeysLimited != 1 || st.Datasets[1].Keys != 3 || st.Datasets[0].Keys != 1 {
		t.Errorf("got limit %d, %d limited, %+v", st.KeysLimit, st.KeysLimited, st.Datasets)
	}
	s.clock.Advance(74 * time.Hour)
	if n := s.Stats().Datasets[1].Keys; n != 0 {
		t.Errorf("%d keys three days later, want 0", n)
	}
}
