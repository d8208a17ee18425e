package send

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	toxiclient "github.com/Shopify/toxiproxy/v2/client"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// faultyProxy is before the service and answers in its place: 500, 503 or 429 before a request reaches it, or a 500 after the
// service has taken it, which is the one that makes duplicates.
type faultyProxy struct {
	next     http.Handler
	before   atomic.Int64
	after    atomic.Int64
	requests atomic.Int64
}

func (i *faultyProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		i.next.ServeHTTP(w, r)
		return
	}
	i.requests.Add(1)
	switch dice := rand.IntN(100); {
	case dice < 8:
		i.before.Add(1)
		reject(w, []int{500, 503, 429}[rand.IntN(3)])
	case dice < 16:
		i.after.Add(1)
		i.next.ServeHTTP(httptest.NewRecorder(), r)
		reject(w, 500)
	default:
		i.next.ServeHTTP(w, r)
	}
}

func reject(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Retry-After", "0")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"status":"error","error_code":"UNAVAILABLE","message":"Not now.","retryable":true}`)
}

// newFaultyProxy serves on loopback, before the service at base.
func newFaultyProxy(t *testing.T, base string) (*faultyProxy, string) {
	t.Helper()
	target, err := url.Parse(base)
	must(t, err)
	proxy := &httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { reject(w, 503) },
	}
	i := &faultyProxy{next: proxy}
	s := httptest.NewServer(i)
	t.Cleanup(s.Close)
	return i, s.Listener.Addr().String()
}

// newNetwork puts a toxiproxy before upstream and gives its address and its controls.
func newNetwork(t *testing.T, upstream string) (string, *toxiclient.Proxy) {
	t.Helper()
	zerolog.SetGlobalLevel(zerolog.Disabled) // its toxics log through a logger of their own
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.New(io.Discard))
	api := httptest.NewServer(server.Routes())
	t.Cleanup(api.Close)
	proxy, err := toxiclient.NewClient(api.Listener.Addr().String()).CreateProxy("network", "127.0.0.1:0", upstream)
	must(t, err)
	t.Cleanup(func() { _ = proxy.Delete() })
	return proxy.Listen, proxy
}

// networkFaults come one after the other.
var networkFaults = []struct {
	name   string
	toxic  string
	stream string
	share  float32
	attrs  toxiclient.Attributes
}{
	{"slow answers", "latency", "downstream", 1, toxiclient.Attributes{"latency": 20, "jitter": 20}},
	{"resets", "reset_peer", "upstream", 0.5, toxiclient.Attributes{"timeout": 20}},
	{"lost answers", "limit_data", "downstream", 0.5, toxiclient.Attributes{"bytes": 100}},
	{"cut requests", "limit_data", "upstream", 0.5, toxiclient.Attributes{"bytes": 20_000}},
	{"stalls", "timeout", "downstream", 0.5, toxiclient.Attributes{"timeout": 0}},
	{"a thin line", "bandwidth", "upstream", 1, toxiclient.Attributes{"rate": 500}},
}

// spoilNetwork makes one network fault after the other until it is stopped, and returns how many. Now and then nobody listens.
func spoilNetwork(t *testing.T, proxy *toxiclient.Proxy, stop <-chan struct{}) (changes int) {
	tick := time.NewTicker(150 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		w := networkFaults[i%len(networkFaults)]
		if _, err := proxy.AddToxic("fault", w.toxic, w.stream, w.share, w.attrs); err != nil {
			t.Errorf("%s: %v", w.name, err)
		}
		changes++
		if !wait(tick, stop) {
			_ = proxy.RemoveToxic("fault") // the proxy goes with the test
			return changes
		}
		if err := proxy.RemoveToxic("fault"); err != nil {
			t.Errorf("end of %s: %v", w.name, err)
		}
		if i%len(networkFaults) == 0 {
			if err := proxy.Disable(); err != nil {
				t.Errorf("disable: %v", err)
			}
			up := wait(tick, stop)
			if err := proxy.Enable(); err != nil {
				t.Errorf("enable: %v", err)
			}
			if !up {
				return changes
			}
		}
		if !wait(tick, stop) {
			return changes
		}
	}
}

func wait(tick *time.Ticker, stop <-chan struct{}) bool {
	select {
	case <-tick.C:
		return true
	case <-stop:
		return false
	}
}

// Through resets, stalls, cut and slow connections and a gateway that answers 500, 503 and 429, before and after the
// service has taken a batch, every row is stored once.
func TestUploadThroughFaults(t *testing.T) {
	const rows = 20_000
	s := startService(t)
	faulty, addr := newFaultyProxy(t, s.URL)
	listen, proxy := newNetwork(t, addr)

	stop, stopped := make(chan struct{}), make(chan int)
	go func() { stopped <- spoilNetwork(t, proxy, stop) }()
	path := writeOrders(t, rows)
	out, err := s.send(t, "http://"+listen, "upload", path, "--dataset", "spring", "--hash", "email=email_sha256", "--json",
		"--batch", "50", "--timeout", "1s", "--give-up-after", "3m", "--compress", "gzip")
	close(stop)
	changes := <-stopped
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !bytes.Contains(out, fmt.Appendf(nil, `"rows":%d,"accepted":%d,"rejected":0`, rows, rows)) {
		t.Fatalf("got %s", out)
	}
	t.Logf("%d requests for %d batches, %d rejected before and %d after the service took them, %d network faults",
		faulty.requests.Load(), rows/50, faulty.before.Load(), faulty.after.Load(), changes)
	if faulty.before.Load() == 0 || faulty.after.Load() == 0 || changes < len(networkFaults) {
		t.Error("too little went wrong: the test shows nothing")
	}
	s.checkStored(t, rows)
}
