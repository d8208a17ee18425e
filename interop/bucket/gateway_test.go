package bucket

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/objectstore"
	s3 "sluice/interop/gateway"
)

const bucket = s3.Bucket

// program is the S3 server, built once.
var program = sync.OnceValues(func() (string, error) { return s3.Build("../../tools/s3") })

// built has the directories to remove at the end.
var built []string

// buildOnce builds a program, and has its directory removed at the end.
func buildOnce(t *testing.T, program func() (string, error)) string {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	built = append(built, filepath.Dir(path))
	return path
}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, dir := range built {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// gateway is a real S3 server in its own process, over a directory.
type gateway struct {
	url string
	dir string // of the bucket: objects are files
}

func startGateway(t *testing.T) *gateway {
	t.Helper()
	g, err := s3.Start(buildOnce(t, program), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Stop)
	return &gateway{url: g.URL, dir: g.Dir}
}

func options(url string) objectstore.S3Options {
	return objectstore.S3Options{
		Bucket: bucket, Prefix: "lake", Endpoint: url, Region: s3.Region, PathStyle: true, AccessKey: s3.AccessKey, SecretKey: s3.SecretKey,
		Timeout: 3 * time.Second,
	}
}

func open(t *testing.T, url string) *objectstore.S3 {
	t.Helper()
	s, err := objectstore.OpenS3(context.Background(), options(url))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// spoiler is a proxy in front of the S3 server. It forwards each request, but for those that its rule spoils.
type spoiler struct {
	*httptest.Server
	target string
	dir    string // of the bucket
	client *http.Client

	mu    sync.Mutex
	rule  func(r *http.Request) string // what to do to a request; "" forwards it
	count map[string]int               // requests by method and kind of object
}

func newSpoiler(t *testing.T, g *gateway) *spoiler {
	t.Helper()
	p := &spoiler{target: g.url, dir: g.dir, count: map[string]int{}, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

func (p *spoiler) set(rule func(r *http.Request) string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rule = rule
}

// kindOf says which step of a commit a request is.
func kindOf(r *http.Request) string {
	switch name := r.URL.Path; {
	case strings.HasSuffix(name, ".parquet"):
		return "data file"
	case strings.HasSuffix(name, "-m0.avro"):
		return "manifest"
	case strings.HasSuffix(name, ".avro"):
		return "list"
	case strings.HasSuffix(name, ".metadata.json"):
		return "version"
	case strings.HasSuffix(name, "version-hint.text"):
		return "hint"
	}
	return "other"
}

func (p *spoiler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	p.mu.Lock()
	what := ""
	if p.rule != nil {
		what = p.rule(r)
	}
	p.count[r.Method+" "+kindOf(r)]++
	p.mu.Unlock()
	switch what {
	case "409":
		reject(w, http.StatusConflict, "ConditionalRequestConflict")
		return
	case "500":
		reject(w, http.StatusInternalServerError, "InternalError")
		return
	case "503":
		reject(w, http.StatusServiceUnavailable, "SlowDown")
		return
	case "reset":
		hangUp(w)
		return
	case "delay":
		time.Sleep(300 * time.Millisecond)
	case "late": // the sender has given up when the answer comes
		time.Sleep(4 * time.Second)
	case "twice":
		if answer, err := p.forward(r, body); err == nil {
			_ = answer.Body.Close()
		}
	case "unconditional": // as a store does it that overwrites whatever the condition says; the header itself is signed
		_ = os.Remove(filepath.Join(filepath.Dir(p.dir), filepath.FromSlash(r.URL.Path)))
	}
	answer, err := p.forward(r, body)
	if err != nil {
		hangUp(w)
		return
	}
	defer answer.Body.Close()
	switch what {
	case "answer lost":
		hangUp(w)
		return
	case "500 after":
		reject(w, http.StatusInternalServerError, "InternalError")
		return
	}
	for name, values := range answer.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.StatusCode)
	_, _ = io.Copy(w, answer.Body)
}

func (p *spoiler) forward(r *http.Request, body []byte) (*http.Response, error) {
	out, err := http.NewRequest(r.Method, p.target+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	out.Header = r.Header.Clone()
	out.Host = r.Host // it is signed
	out.ContentLength = int64(len(body))
	return p.client.Do(out)
}

func reject(w http.ResponseWriter, code int, name string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(code)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>spoiled</Message></Error>", name)
}

func hangUp(w http.ResponseWriter) {
	c, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		_ = c.Close()
	}
}
