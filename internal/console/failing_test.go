package console

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/event"
	"sluice/internal/api"
	"sluice/internal/cluster"
	"sluice/internal/dataset"
	"sluice/internal/hours"
	"sluice/internal/lake"
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
	s.console.findDatasets(s.console.look()) // as Run does every ten seconds
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
	s.console.findDatasets(s.console.look())
	if _, page := s.read("/metrics"); strings.Contains(page, "SluiceRequestsFailing") {
		t.Error("after an accepted request the alarm lasts")
	}
}

// The rule of the alarm about requests that fail.
func TestFailingRequests(t *testing.T) {
	ten := api.Failing{Requests: 10, First: noon.Add(-time.Hour), Last: noon.Add(-time.Minute), Code: event.UnsupportedMediaType}
	two, old := ten, ten
	two.Requests, old.First = 2, noon.Add(-25*time.Hour)
	nodes := &cluster.View{Nodes: []cluster.Node{{Host: "a"}, {Host: "b"}}}
	one := func(n int64) []lake.Hour {
		return []lake.Hour{hourRow(0, "shop", hours.KindSubmissions, "single", "", n, 0)}
	}
	for name, c := range map[string]struct {
		st            api.Failing
		before, after []lake.Hour
		nodes         *cluster.View
		lasted        bool
		want          bool
	}{
		"ten":                                 {ten, nil, nil, nil, false, true},
		"two":                                 {two, nil, nil, nil, false, false},
		"none":                                {api.Failing{}, nil, nil, nil, false, false},
		"ten in more than a day":              {old, nil, nil, nil, false, false},
		"lasted, with one a day":              {old, nil, nil, nil, true, true},
		"another node accepted one since":     {ten, one(4), one(5), nodes, false, false},
		"another node accepted some before":   {ten, one(4), one(4), nodes, false, true},
		"this machine alone, tables that lag": {ten, one(4), one(5), nil, false, true},
		"lasted when the node was restarted":  {api.Failing{}, nil, nil, nil, true, true},
		"restarted, accepted in a later hour": {api.Failing{}, nil, one(1), nil, true, false},
	} {
		s := wellState()
		s.datasets, s.cluster = []*dataset.Dataset{{ID: "shop"}}, c.nodes
		s.api.Datasets = []api.DatasetStats{{DatasetID: "shop", Failing: c.st}}
		if c.lasted {
			s.found.failingSince = map[string]time.Time{"shop": noon.Add(-3 * time.Hour)}
		}
		for i, rows := range [][]lake.Hour{c.before, c.after} {
			if i == 0 && c.nodes == nil {
				continue
			}
			view := indexed(rows...).View()
			s.found = *findDatasets(view, s)
			view.Close()
		}
		if got := len(s.found.failing) == 1; got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

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
	if fmt.Sprint(first) != fmt.Sprint(again) || first.ID == "" || first.State != "firing" || first.Dataset != "shop" || first.Until != nil || first.Severity != warning ||
		!strings.Contains(first.Summary, "every request fails") || first.Do == "" || first.URL != "https://console.example/diagnosis?dataset=shop" || time.Since(first.Since) > time.Minute {
		t.Errorf("got %+v, then %+v", first, again)
	}
	until(t, "that it is noted", func() bool {
		open := s.console.history.lasting()
		return len(open) == 1 && open[0].Told == stateFiring
	})
	until(t, "that it is written", func() bool {
		entries, _, err := s.console.history.bucket.All(t.Context())
		return err == nil && len(entries) == 1 && strings.Contains(string(entries[0].Value), stateFiring)
	})
	keys := s.keys
	s.stop()

	s = openServiceIn(t, dir, func(o *Options) { o.Webhook, o.URL = hook.url, "https://console.example" })
	s.keys = keys
	if _, page := s.read("/metrics"); !strings.Contains(page, `sluice_alarm{alarm="SluiceRequestsFailing",dataset="shop"} 1`) {
		t.Error("the first scrape after a restart does not have the alarm")
	}
	until(t, "numbers that are read", func() bool { return s.console.s.Hours.Complete() })
	s.console.findDatasets(s.console.look())
	if open := s.console.history.lasting(); len(open) != 1 || !open[0].Since.Equal(first.Since) {
		t.Errorf("got %+v, want the alarm since %v", open, first.Since)
	}
	if status, text := s.post("shop", "/v1/events", plainEvent("shop")); status != 200 {
		t.Fatalf("got %d %s", status, text)
	}
	s.console.findDatasets(s.console.look())
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

// Silence is judged by the pauses that a dataset usually makes, and a drop by the same hours of last week.
func TestSilenceAndDrop(t *testing.T) {
	at := func(ago time.Duration, n int64) lake.Hour {
		return hourRow(ago, "shop", hours.KindEvents, "purchase", hours.FieldAccepted, n, 0)
	}
	hourly := func(from, to, every int, n int64) (rows []lake.Hour) {
		for h := from; h < to; h += every {
			rows = append(rows, at(time.Duration(h)*time.Hour, n))
		}
		return rows
	}
	for name, c := range map[string]struct {
		rows []lake.Hour
		want string
	}{
		"every hour, and now for three":         {hourly(4, 120, 1, 5), "SluiceDatasetSilent"},
		"every hour, the last one a moment ago": {hourly(0, 120, 1, 5), ""},
		"every sixth hour, and now for five":    {hourly(5, 168, 6, 5), ""},
		"every sixth hour, and now for twelve":  {hourly(12, 168, 6, 5), "SluiceDatasetSilent"},
		"few hours known, silent for ten":       {[]lake.Hour{at(10*time.Hour, 5)}, ""},
		"as many as last week":                  {append(hourly(0, 12, 1, 50), hourly(168, 180, 1, 50)...), ""},
		"a tenth of last week":                  {append(hourly(0, 12, 1, 5), hourly(168, 180, 1, 50)...), "SluiceDatasetDropped"},
		"a tenth of a week with few events":     {append(hourly(0, 12, 1, 1), hourly(168, 180, 1, 10)...), ""},
	} {
		s := wellState()
		s.datasets = []*dataset.Dataset{{ID: "shop"}}
		view := indexed(c.rows...).View()
		s.found = *findDatasets(view, s)
		view.Close()
		got := ""
		for _, a := range s.alarms() {
			got += a.Name
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// At most a thousand alarms are told apart; the others are counted together.
func TestManyAlarms(t *testing.T) {
	s := wellState()
	s.found.known = true
	for i := range 2 * alarmMost {
		s.found.silent = append(s.found.silent, finding{dataset: fmt.Sprint("d", i), say: "x", path: "/", weight: 1})
	}
	got := s.alarms()
	if len(got) != alarmMost+1 || got[alarmMost].Subject != otherAlarms || got[0].Subject != "d0" {
		t.Errorf("got %d alarms, the last one %+v", len(got), got[len(got)-1])
	}
	if page := sound(s); len(page) != namedMost+1 || page[namedMost].Say != "And 996 other datasets." {
		t.Errorf("got %d on the page, the last one %+v", len(page), page[len(page)-1])
	}
}
