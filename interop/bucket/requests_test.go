package bucket

import (
	"encoding/json"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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
		if err := objectstore.WriteAll(s.Sub("sub"), name, []byte("x")); err != nil {
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
	if _, err := s.Read("sub/a/1"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Exists("sub/a/3"); err != nil {
		t.Fatal(err)
	}
	if l, err := s.List("sub", true); err != nil || len(l) != 2 {
		t.Fatalf("got %v, %v, want two objects", l, err)
	}
	if err := s.Remove("sub/a/2"); err != nil {
		t.Fatal(err)
	}
	w, err := s.Create("large") // in two parts: one request begins the upload, and one ends it
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

// The bench counts the requests of a server to its bucket, prints what they cost, and leaves nothing there.
func TestBenchCountsRequests(t *testing.T) {
	g := startGateway(t)
	file := filepath.Join(t.TempDir(), "figures.json")
	cmd := exec.CommandContext(t.Context(), buildOnce(t, sluice), "bench", "--lake", "s3://"+bucket+"/measure", "--s3-endpoint", g.url, "--s3-region", s3.Region, "--s3-path-style",
		"--batch", "10", "--senders", "1", "--rate", "100", "--for", "4s", "--commit-every", "500ms", "--partitions", "2", "--json", file)
	cmd.Env = append(os.Environ(), credentials...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), "bucket dollars a day") {
		t.Errorf("got %s, want dollars a day", out)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var report struct {
		Figures []struct {
			Events int                `json:"events"`
			Stored int                `json:"stored_events"`
			Bucket map[string]float64 `json:"bucket_requests"`
		} `json:"figures"`
	}
	if err := json.Unmarshal(b, &report); err != nil {
		t.Fatal(err)
	}
	f := report.Figures[0]
	if f.Bucket["seconds"] < 4 || f.Bucket["put"] < 4 {
		t.Errorf("got %v, want at least four seconds and the writes of a commit", f.Bucket)
	}
	if f.Events == 0 || f.Stored < f.Events {
		t.Errorf("got %d events of %d in the bucket", f.Stored, f.Events)
	}
	err = filepath.WalkDir(filepath.Join(g.dir, "measure"), func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			t.Errorf("got %s, want an empty prefix", path)
		}
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Error(err)
	}
}
