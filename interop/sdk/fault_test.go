package sdk

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"sluice/interop/service"
)

// quiet takes what a proxy has to say about connections that were broken on purpose.
var quiet = log.New(io.Discard, "", 0)

// faulty stands before the service. Of every three requests that send events, one meets a fault, in turn.
type faulty struct {
	proxy    *httputil.ReverseProxy
	posts    atomic.Int64
	met      [9]atomic.Int64 // by index of faults
	onAnswer func(n int64)   // called after the service answered its nth POST with 200
	answered atomic.Int64
}

var faults = [len(faulty{}.met)]struct {
	name string
	do   func(f *faulty, w http.ResponseWriter, r *http.Request)
}{
	{"429 with Retry-After", func(_ *faulty, w http.ResponseWriter, r *http.Request) { reject(w, r, 429, "RATE_LIMITED", "1") }},
	{"500 before the service has it", func(_ *faulty, w http.ResponseWriter, r *http.Request) { reject(w, r, 500, "INTERNAL_ERROR", "0") }},
	{"500 after the service took it", func(f *faulty, w http.ResponseWriter, r *http.Request) {
		f.proxy.ServeHTTP(httptest.NewRecorder(), r)
		reject(w, r, 500, "INTERNAL_ERROR", "0")
	}},
	{"503 of a gateway", func(_ *faulty, w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		http.Error(w, "<html>no upstream</html>", http.StatusServiceUnavailable)
	}},
	{"reset before the service has it", func(_ *faulty, w http.ResponseWriter, _ *http.Request) { reset(w) }},
	{"reset after the service took it", func(f *faulty, w http.ResponseWriter, r *http.Request) {
		f.proxy.ServeHTTP(httptest.NewRecorder(), r)
		reset(w)
	}},
	{"stall", func(f *faulty, _ http.ResponseWriter, r *http.Request) {
		f.proxy.ServeHTTP(httptest.NewRecorder(), r)
		<-r.Context().Done() // the sender gives up
	}},
	{"half an answer", func(f *faulty, w http.ResponseWriter, r *http.Request) {
		answer := httptest.NewRecorder()
		f.proxy.ServeHTTP(answer, r)
		w.Header().Set("Content-Length", fmt.Sprint(answer.Body.Len()))
		_, _ = w.Write(answer.Body.Bytes()[:answer.Body.Len()/2])
		panic(http.ErrAbortHandler)
	}},
	{"a page instead of a receipt", func(_ *faulty, w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, "<html>Please log in</html>")
	}},
}

func (f *faulty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		f.proxy.ServeHTTP(w, r)
		return
	}
	if n := f.posts.Add(1); n%3 == 0 {
		i := int(n/3) % len(faults)
		f.met[i].Add(1)
		faults[i].do(f, w, r)
		return
	}
	f.proxy.ServeHTTP(w, r)
}

func reject(w http.ResponseWriter, r *http.Request, status int, code, after string) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Retry-After", after)
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"status":"error","error_code":%q,"message":"Not now.","request_id":"r","errors":[],"retryable":true}`, code)
}

// reset closes the connection with a TCP reset.
func reset(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.Close()
}

func newFaulty(t *testing.T, s *service.Service, onAnswer func(n int64)) (*faulty, string) {
	t.Helper()
	target, err := url.Parse(s.URL)
	must(t, err)
	f := &faulty{onAnswer: onAnswer}
	f.proxy = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: func(r *http.Response) error {
			if r.StatusCode == http.StatusOK && r.Request.Method == http.MethodPost {
				f.onAnswer(f.answered.Add(1))
			}
			return nil
		},
		// The service is down: the sender sees a connection that breaks, as it would without us.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:     quiet,
	}
	server := httptest.NewUnstartedServer(f)
	server.Config.ErrorLog = quiet
	server.Start()
	t.Cleanup(server.Close)
	return f, server.URL
}

// result is what a load program prints: how many events it had accepted.
type result struct {
	Accepted int
	Replayed int
}

// Both SDKs send at once through every fault, while the service is killed twice. Every event they had accepted is stored
// once, and no other.
func TestThroughFaults(t *testing.T) {
	s := service.Start(t, program, "shop")
	kills := make(chan struct{}, 8)
	type outcome struct {
		name string
		out  []byte
		err  error
	}
	outcomes := make(chan outcome)
	var proxies []*faulty
	for _, l := range languages() {
		f, url := newFaulty(t, s, func(n int64) {
			if n == 30 {
				kills <- struct{}{}
			}
		})
		proxies = append(proxies, f)
		cmd := l.start(t, l.load, url, s.Key)
		go func() {
			out, err := cmd.CombinedOutput()
			outcomes <- outcome{l.name, out, err}
		}()
	}
	accepted := map[string]result{}
	for killed := 0; len(accepted) < len(proxies); {
		select {
		case <-kills:
			killed++
			s.Kill()
			s.Serve()
		case o := <-outcomes:
			var r result
			if o.err != nil || json.Unmarshal(o.out, &r) != nil {
				t.Fatalf("%s: %v\n%s", o.name, o.err, o.out)
			}
			accepted[o.name] = r
			if killed == 0 {
				t.Errorf("%s ended before the service was killed: the test shows nothing", o.name)
			}
		case <-time.After(time.Minute):
			t.Fatal("the programs did not end within a minute")
		}
	}
	total := 0
	for _, r := range accepted {
		total += r.Accepted
	}
	seen := s.Stored(total)
	for name, r := range accepted {
		t.Logf("%s: %d events accepted, %d receipts of an earlier try", name, r.Accepted, r.Replayed)
		if r.Replayed == 0 {
			t.Errorf("%s: no answer was lost: the test shows nothing", name)
		}
		for i := range r.Accepted {
			if order := fmt.Sprint(name, "-", i); seen[order] != 1 {
				t.Errorf("event %s is stored %d times", order, seen[order])
			}
		}
	}
	if len(seen) != total {
		t.Errorf("%d orders are stored, want %d", len(seen), total)
	}
	for _, f := range proxies {
		for i := range faults {
			if f.met[i].Load() == 0 {
				t.Errorf("nobody met the fault: %s", faults[i].name)
			}
		}
	}
}
