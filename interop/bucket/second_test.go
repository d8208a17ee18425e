package bucket

import (
	"fmt"
	"net/http/httptest"
	"sync"
	"testing"

	"sluice/internal/objectstore"
	"sluice/internal/objectstoretest"
	s3 "sluice/interop/gateway"
)

// secondProgram is another S3 server, built once.
var secondProgram = sync.OnceValues(func() (string, error) { return s3.BuildSecond("../../tools/s3") })

// A second S3 server, which shares no code with the first: what holds on one must not be a habit of that one.
func TestSecondServer(t *testing.T) {
	start := func(t *testing.T) *gateway {
		t.Helper()
		g, err := s3.StartSecond(buildOnce(t, secondProgram))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := g.Fate(); err != nil {
				t.Error(err)
			}
			g.Stop()
		})
		return &gateway{url: g.URL}
	}
	// Over TLS, as stores are reached in earnest: without it the client signs bodies in chunks, and this server stores
	// the signatures of a part as content.
	t.Run("objects", func(t *testing.T) {
		p := s3.NewSpoiler(&s3.Gateway{URL: start(t).url}, httptest.NewTLSServer)
		t.Cleanup(p.Close)
		o := options(p.URL)
		o.Transport = p.Client().Transport
		s, err := objectstore.OpenS3(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		objectstoretest.Run(t, func(t *testing.T) objectstore.Store {
			n++
			return s.Sub(fmt.Sprint("store-", n))
		})
	})
	t.Run("empty object", func(t *testing.T) { // this server rejects a request that has no length, as Amazon's does
		s := open(t, start(t).url)
		if err := objectstore.WriteAll(t.Context(), s, "empty", nil); err != nil {
			t.Fatal(err)
		}
		if b, err := s.Read(t.Context(), "empty"); err != nil || len(b) != 0 {
			t.Errorf("got %d bytes, %v, want none", len(b), err)
		}
	})
	t.Run("every answer to the commit", func(t *testing.T) { everyAnswer(t, start(t), "version") })
	t.Run("two committers", func(t *testing.T) { twoCommitters(t, start(t)) })
}
