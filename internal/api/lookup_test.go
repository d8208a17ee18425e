package api

import (
	"context"
	"crypto/sha256"
	"strings"
	"testing"

	"sluice/internal/stream"
	"sluice/internal/submission"
)

// counting counts what a look-up costs.
type counting struct {
	Stream
	reads, scans int
}

func (c *counting) Read(ctx context.Context, at stream.Position) ([]byte, error) {
	c.reads++
	return c.Stream.Read(ctx, at)
}

func (c *counting) FindSubmission(context.Context, string, string) (*submission.Submission, error) {
	c.scans++
	return nil, nil
}

// A made-up id is 404 without a look at the stream or the table.
func TestForgedIDs(t *testing.T) {
	c := &counting{}
	s := openServiceIn(t, t.TempDir(), func(s *Server) {
		c.Stream = s.Stream
		s.Stream, s.Lookup = c, c
	})
	s.key = s.dataset(specShop)
	id, _ := s.post("/v1/events", goodEvent("")).object(t)["submission_id"].(string)
	if r := s.send("GET", "/v1/submissions/"+id, ""); r.StatusCode != 200 || c.reads != 1 {
		t.Errorf("the real one: got %d after %d reads", r.StatusCode, c.reads)
	}
	for i := len(id) - 10; i < len(id); i++ {
		forged := id[:i] + string("0123456789abcdef0"[1+strings.IndexByte("0123456789abcdef", id[i])]) + id[i+1:]
		r := s.send("GET", "/v1/submissions/"+forged, "")
		checkAnswer(t, r, "NOT_FOUND")
	}
	if c.reads != 1 || c.scans != 0 {
		t.Errorf("%d reads and %d scans for made-up ids, want none", c.reads-1, c.scans)
	}
}

// Who has everything that is on the disk, the secret included, but not the Idempotency-Key cannot compare a guess of the body
// with what is stored. The same body under two keys leaves nothing that is equal.
func TestBodyCannotBeGuessed(t *testing.T) {
	dir := t.TempDir()
	s := openServiceIn(t, dir, nil)
	s.key = s.dataset(specShop)
	body := goodEvent(`,"privacy":{"us_privacy_string":"1YYN"}`)
	const raw = "4f9d2c7be8a1-4f9d2c7be8a1"
	for _, key := range []string{raw, "another-key-of-64-bits"} {
		if r := s.post("/v1/events", body, "Idempotency-Key: "+key); r.StatusCode != 200 {
			t.Fatalf("got %d %s", r.StatusCode, r.text)
		}
	}
	records := s.records(t)
	if len(records) != 2 || records[0].BodyDigest == records[1].BodyDigest {
		t.Fatal("the same body under two keys leaves the same digest")
	}
	digest := s.BodyDigest // it knows the secret
	s.stop()
	// What the digest is made from, in each form that could be stored: the key, and the digest from which its name is made.
	key := requestKey("shop", "/v1/events", raw)
	if digest(key, body) != records[0].BodyDigest {
		t.Fatal("the digest is made from something else")
	}
	for name, wanted := range map[string]string{"the key": raw, "its digest": string(key[:]), "its digest in hex": key.name()} {
		if found := findOnDisk(t, dir, wanted); found != "" {
			t.Errorf("%s is in %s", name, found)
		}
	}
	// What is stored of the key opens nothing.
	stored := sha256.Sum256([]byte(key.name()))
	if findOnDisk(t, dir, string(stored[:24])) == "" {
		t.Error("the name of the key is in no file: this test looks for the wrong bytes")
	}
	for name, guess := range map[string]idempotencyKey{"nothing": {}, "the name": stored, "the name as it is stored": [32]byte(append(stored[:24:24], make([]byte, 8)...))} {
		if digest(guess, body) == records[0].BodyDigest {
			t.Errorf("the digest can be made from %s", name)
		}
	}
	if records[0].BodyDigest == sha256.Sum256([]byte(body)) {
		t.Error("the record holds the plain hash of the body")
	}
}
