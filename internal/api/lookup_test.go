package api

import (
	"context"
	"crypto/sha256"
	"strings"
	"testing"
	"time"

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

// A made-up id is 404 without a look at the stream or the table. Ids of earlier versions are looked for, a few a second.
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
	old := submission.FormatID(submission.Single, submission.NewID(submission.NewBase(noon.Add(-time.Hour)), 0, 1<<30, 0))
	limited := 0
	for range 3 * oldIDsPerSecond {
		if r := s.send("GET", "/v1/submissions/"+old, ""); r.StatusCode == 429 {
			checkAnswer(t, r, "RATE_LIMITED")
			limited++
		} else if r.StatusCode != 404 {
			t.Errorf("an id of an earlier version: got %d", r.StatusCode)
		}
	}
	if c.scans != oldIDsPerSecond || limited != 2*oldIDsPerSecond {
		t.Errorf("%d scans and %d limited, want %d and %d", c.scans, limited, oldIDsPerSecond, 2*oldIDsPerSecond)
	}
}

// An id in the form of an earlier version, from a time at which no earlier version ran any more, is made up: 404 without a
// read, a scan or a limit. Older ones are looked for.
func TestForgedOldIDs(t *testing.T) {
	c := &counting{}
	s := openServiceIn(t, t.TempDir(), func(s *Server) {
		c.Stream = s.Stream
		s.Stream, s.Lookup, s.OldIDs = c, c, noon.Add(-time.Hour)
	})
	s.key = s.dataset(specShop)
	id := func(at time.Time) string {
		return "/v1/submissions/" + submission.FormatID(submission.Single, submission.NewID(submission.NewBase(at), 0, 1<<30, 0))
	}
	for range 3 * oldIDsPerSecond {
		checkAnswer(t, s.send("GET", id(noon.Add(-time.Minute)), ""), "NOT_FOUND")
	}
	if c.reads != 0 || c.scans != 0 {
		t.Errorf("%d reads and %d scans for made-up ids, want none", c.reads, c.scans)
	}
	checkAnswer(t, s.send("GET", id(noon.Add(-2*time.Hour)), ""), "NOT_FOUND")
	if c.reads != 1 || c.scans != 1 {
		t.Errorf("%d reads and %d scans for an id that may be real, want one each", c.reads, c.scans)
	}
}

// What earlier versions wrote is replayed: records with the plain hash of the body, and ids that show the place.
func TestReplayOfAnEarlierVersion(t *testing.T) {
	s := openShop(t)
	before, digest := s.IDs, s.BodyDigest
	s.IDs, s.BodyDigest = nil, func(body string) [32]byte { return sha256.Sum256([]byte(body)) }
	first := s.post("/v1/events", goodEvent(""), "Idempotency-Key: k")
	s.IDs, s.BodyDigest = before, digest
	if r := s.post("/v1/events", goodEvent(""), "Idempotency-Key: k"); r.StatusCode != 200 || r.text != first.text {
		t.Errorf("got %d %s, want %s", r.StatusCode, r.text, first.text)
	}
	checkAnswer(t, s.post("/v1/events", goodEvent(`,"source":"app"`), "Idempotency-Key: k"), "IDEMPOTENCY_KEY_REUSED")
	id, _ := first.object(t)["submission_id"].(string)
	if r := s.send("GET", "/v1/submissions/"+id, ""); r.StatusCode != 200 {
		t.Errorf("its id: got %d %s", r.StatusCode, r.text)
	}
}

// Nothing stored of a keyed request can be compared with a guess: not the hash of the body, whole or of a part.
func TestBodyIsKeptKeyed(t *testing.T) {
	s := openShop(t)
	body := goodEvent(`,"privacy":{"us_privacy_string":"1YYN"}`)
	s.post("/v1/events", body, "Idempotency-Key: k")
	plain := sha256.Sum256([]byte(body))
	for _, r := range s.records(t) {
		if r.BodyDigest == plain {
			t.Error("the record holds the plain hash of the body")
		}
		if !r.Keyed || r.BodyDigest == [32]byte{} {
			t.Errorf("got %+v, want a digest", r)
		}
	}
}
