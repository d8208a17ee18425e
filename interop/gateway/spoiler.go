package gateway

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Spoiler is a proxy in front of the S3 server. It forwards each request, but for those that its rule spoils.
type Spoiler struct {
	*httptest.Server
	Late time.Duration // how long "late" holds a request back: longer than who asks waits

	target string
	dir    string // of the bucket
	client *http.Client

	Mu    sync.Mutex
	rule  func(r *http.Request) string // what to do to a request; "" forwards it
	Count map[string]int               // requests by method and kind of object
}

// NewSpoiler makes the proxy of a server; its listener is made with httptest.NewServer, or NewTLSServer.
func NewSpoiler(g *Gateway, listen func(http.Handler) *httptest.Server) *Spoiler {
	p := &Spoiler{
		Late: 4 * time.Second, target: g.URL, dir: g.Dir, Count: map[string]int{},
		client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	}
	p.Server = listen(p)
	return p
}

// Set makes a rule: it says what to do to a request, and "" forwards it. Without a rule all are forwarded.
func (p *Spoiler) Set(rule func(r *http.Request) string) {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	p.rule = rule
}

// KindOf says which step of a commit a request is.
func KindOf(r *http.Request) string {
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

// ServeHTTP spoils or forwards a request.
func (p *Spoiler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	p.Mu.Lock()
	what := ""
	if p.rule != nil {
		what = p.rule(r)
	}
	p.Count[r.Method+" "+KindOf(r)]++
	p.Mu.Unlock()
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
	case "slow":
		time.Sleep(200 * time.Millisecond)
	case "very slow":
		time.Sleep(2 * time.Second)
	case "late": // the sender has given up when the answer comes
		time.Sleep(p.Late)
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

func (p *Spoiler) forward(r *http.Request, body []byte) (*http.Response, error) {
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
