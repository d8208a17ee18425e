package bucket

import (
	"net/http"
	"os"
	"sync"
	"testing"

	"sluice/internal/objectstore"
	s3 "sluice/interop/gateway"
	"sluice/interop/service"
)

// sluice is the program, built once.
var sluice = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "bucket")
	if err != nil {
		return "", err
	}
	return service.Build("../..", dir)
})

// credentials are those of the S3 server, as the program finds them.
var credentials = []string{"AWS_ACCESS_KEY_ID=" + s3.AccessKey, "AWS_SECRET_ACCESS_KEY=" + s3.SecretKey}

// A bucket counts its requests by kind, as the store sees them: repeated ones, too.
func TestRequestsAreCounted(t *testing.T) {
	p := newSpoiler(t, startGateway(t))
	s := open(t, p.URL)
	for _, name := range []string{"a/1", "a/2"} {
		if err := objectstore.WriteAll(t.Context(), s.Sub("sub"), name, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	spoiled := false
	p.Set(func(r *http.Request) string {
		if r.Method == http.MethodGet && !spoiled {
			spoiled = true
			return "503"
		}
		return ""
	})
	if _, err := s.Read(t.Context(), "sub/a/1"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Exists(t.Context(), "sub/a/3"); err != nil {
		t.Fatal(err)
	}
	if l, err := s.List(t.Context(), "sub", true); err != nil || len(l) != 2 {
		t.Fatalf("got %v, %v, want two objects", l, err)
	}
	if err := s.Remove(t.Context(), "sub/a/2"); err != nil {
		t.Fatal(err)
	}
	w, err := s.Create(t.Context(), "large") // in two parts: one request begins the upload, and one ends it
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 20<<20)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	// The probe is two writes, a read and a deletion.
	want := objectstore.Requests{Put: 2 + 2 + 4, Get: 1 + 2, Head: 1, List: 1, Delete: 1 + 1}
	if got := s.Stats(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	sent := 0
	p.Mu.Lock()
	for _, n := range p.Count {
		sent += n
	}
	p.Mu.Unlock()
	if got := int(want.Put + want.Get + want.Head + want.List + want.Delete); sent != got {
		t.Errorf("the store saw %d requests, want %d", sent, got)
	}
}
