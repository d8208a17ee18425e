package console

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/alarm"
	"sluice/internal/api"
	"sluice/internal/dataset"
	"sluice/internal/hours"
)

// failEvery sends requests that fail, until the pages know it.
func (s *service) failEvery(id string) {
	s.t.Helper()
	for range api.FailingLeast + 2 {
		if status, text := s.post(id, "/v1/events", `{"data_set_id":"`+id+`",}`); status != 400 {
			s.t.Fatalf("got %d %s", status, text)
		}
	}
	until(s.t, "requests that are counted", func() bool {
		view := s.console.s.Hours.View()
		defer view.Close()
		return view.Dataset(id).Requests(hours.NewWindow(time.Hour, 24, time.Now())).Rejected == api.FailingLeast+2
	})
	s.console.alarms.Search(&s.console.look().State) // as Run does every ten seconds
}

// A sender whose every request fails is seen on every page, in the metrics and as an alarm, and no more after the first
// request that is accepted.
func TestEveryRequestFails(t *testing.T) {
	s := openService(t)
	s.dataset(dataset.Spec{ID: "shop"})
	s.dataset(dataset.Spec{ID: "other"})
	s.post("other", "/v1/events", plainEvent("other"))
	s.failEvery("shop")
	until(t, "the other's request", func() bool {
		view := s.console.s.Hours.View()
		defer view.Close()
		return view.All().Requests(hours.NewWindow(time.Hour, 24, time.Now())).Accepted == 1
	})
	for path, want := range map[string][]string{
		"/":                 {"Dataset shop: every request fails, the last one", "with MALFORMED_JSON", "In the last 24 hours 12 requests were rejected", "Diagnosis", "12 rejected whole, in the last 24 hours"},
		"/dataset?id=shop":  {"every request fails", `data-figure="requests">12<`, "of 12 requests", "MALFORMED_JSON: 12.", "requests per hour"},
		"/dataset?id=other": {`data-figure="requests">0<`, "flowing"},
		"/datasets":         {"every request fails"},
		"/diagnosis":        {"MALFORMED_JSON", "data-requests>12<", "12 requests were rejected in the last 24 hours with MALFORMED_JSON. That is 100 % of the requests received", "Remove the comma", "Copy for the sender"},
		"/metrics":          {`sluice_alarm{alarm="SluiceRequestsFailing",dataset="shop"} 1`, `sluice_http_rejections_total{code="MALFORMED_JSON",dataset="shop"} 12`},
	} {
		_, page := s.read(path)
		for _, w := range want {
			if !strings.Contains(page, w) {
				t.Errorf("%s: no %q", path, w)
			}
		}
	}
	s.post("shop", "/v1/events", plainEvent("shop"))
	s.console.alarms.Search(&s.console.look().State)
	if _, page := s.read("/metrics"); strings.Contains(page, "SluiceRequestsFailing") {
		t.Error("after an accepted request the alarm lasts")
	}
}

// notice is the body of the webhook, as docs/operate.md has it.
type notice struct {
	ID, Alarm, Severity, Dataset, State string
	Since                               time.Time
	Until                               *time.Time
	Summary, Do, URL                    string
}

// requestsFailing is the alarm about datasets whose every request fails.
const requestsFailing = "SluiceRequestsFailing"

// receiver is a real HTTP server that takes notices. It fails the first times.
type receiver struct {
	url string
	mu  sync.Mutex
	all []notice
}

func openReceiver(t *testing.T, failures int) *receiver {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{url: "http://" + l.Addr().String() + "/hook/secret-token"}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		var n notice
		b, _ := io.ReadAll(q.Body)
		var members map[string]any
		if json.Unmarshal(b, &n) != nil || json.Unmarshal(b, &members) != nil || len(members) != 10 || q.Method != http.MethodPost || q.Header.Get("Content-Type") != "application/json" {
			t.Errorf("got %s %v %s", q.Method, q.Header, b)
		}
		r.all = append(r.all, n)
		if len(r.all) <= failures {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})}
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close() })
	return r
}

func (r *receiver) about(alarm string) (out []notice) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.all {
		if n.Alarm == alarm {
			out = append(out, n)
		}
	}
	return out
}

// An alarm lasts over a restart with the time at which it began, from the first scrape on. The webhook is told of its
// beginning until it takes that, and of its end; a repeated notice has the same id.
func TestAlarmsOverRestart(t *testing.T) {
	dir := t.TempDir()
	hook := openReceiver(t, 1)
	s := openServiceIn(t, dir, func(o *Options) { o.Webhook, o.URL = hook.url, "https://console.example" })
	s.dataset(dataset.Spec{ID: "shop"})
	s.failEvery("shop")
	until(t, "a notice that is taken", func() bool { return len(hook.about(requestsFailing)) >= 2 })
	first, again := hook.about(requestsFailing)[0], hook.about(requestsFailing)[1]
	if first.ID != again.ID || !first.Since.Equal(again.Since) || again.State != first.State || first.ID == "" || first.State != "firing" || first.Dataset != "shop" || first.Until != nil || first.Severity != alarm.Warning ||
		!strings.Contains(first.Summary, "every request fails") || first.Do == "" || first.URL != "https://console.example/diagnosis?dataset=shop" || time.Since(first.Since) > time.Minute {
		t.Errorf("got %+v, then %+v", first, again)
	}
	keys := s.keys
	s.stop() // which writes down that it was told

	s = openServiceIn(t, dir, func(o *Options) { o.Webhook, o.URL = hook.url, "https://console.example" })
	s.keys = keys
	if _, page := s.read("/metrics"); !strings.Contains(page, `sluice_alarm{alarm="SluiceRequestsFailing",dataset="shop"} 1`) {
		t.Error("the first scrape after a restart does not have the alarm")
	}
	until(t, "numbers that are read", func() bool { return s.console.s.Hours.Complete() })
	s.console.alarms.Search(&s.console.look().State)
	if open := s.console.alarms.Recent(); len(open) != 1 || !open[0].Until.IsZero() || !open[0].Since.Equal(first.Since) {
		t.Errorf("got %+v, want the alarm since %v", open, first.Since)
	}
	if status, text := s.post("shop", "/v1/events", plainEvent("shop")); status != 200 {
		t.Fatalf("got %d %s", status, text)
	}
	s.console.alarms.Search(&s.console.look().State)
	until(t, "the end", func() bool { return len(hook.about(requestsFailing)) >= 3 })
	end := hook.about(requestsFailing)[2]
	if end.State != "resolved" || end.Until == nil || !end.Since.Equal(first.Since) || end.ID == first.ID {
		t.Errorf("got %+v", end)
	}
	_, page := s.read("/system")
	if !strings.Contains(page, requestsFailing) || strings.Contains(page, "secret-token") {
		t.Error("System does not list the alarm, or shows the address of the webhook")
	}
}
