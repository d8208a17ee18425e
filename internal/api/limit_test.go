package api

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/event"
	"sluice/internal/dataset"
	"sluice/internal/submission"
)

func TestRates(t *testing.T) {
	s := openServiceIn(t, t.TempDir(), nil)
	s.key = s.dataset(dataset.Spec{ID: "shop", RequestsPerSecond: 2, EventsPerSecond: 3})
	three := "[" + strings.TrimSuffix(strings.Repeat(goodEvent("")+",", 3), ",") + "]"
	if r := s.post("/v1/events/batch", three); r.StatusCode != 200 {
		t.Fatalf("got %d %s", r.StatusCode, r.text)
	}
	r := s.post("/v1/events", goodEvent(""))
	checkAnswer(t, r, "RATE_LIMITED")
	if r.StatusCode != 429 || r.Header.Get("Retry-After") != "1" || !strings.Contains(r.text, "events_per_second") || !strings.Contains(r.text, `"retryable":true`) ||
		strings.Contains(r.text, "batch") { // larger batches would not help
		t.Errorf("events: got %d %v %s", r.StatusCode, r.Header, r.text)
	}
	r = s.send("GET", "/v1/schema/events", "")
	checkAnswer(t, r, "RATE_LIMITED")
	if r.StatusCode != 429 || !strings.Contains(r.text, "requests_per_second") || !strings.Contains(r.text, "more events into each batch") {
		t.Errorf("requests: got %d %s", r.StatusCode, r.text)
	}
	if r := s.send("GET", "/docs", ""); r.StatusCode != 200 {
		t.Errorf("docs are not limited: got %d", r.StatusCode)
	}
	s.clock.Advance(time.Second)
	if r := s.post("/v1/events/batch", three); r.StatusCode != 200 {
		t.Errorf("a second later: got %d %s", r.StatusCode, r.text)
	}
	if got := s.Stats().Datasets[0]; got.Limited != 2 || got.Accepted != 6 {
		t.Errorf("got %+v, want 2 limited, 6 accepted", got)
	}
}

// One dataset may hold its share of the memory and no more; all together may hold all of it.
func TestShedding(t *testing.T) {
	s := openServiceIn(t, t.TempDir(), func(s *Server) { s.Limits.BytesInFlight = 8 * overhead })
	s.key = s.dataset(specShop)
	others := []string{s.dataset(dataset.Spec{ID: "b"}), s.dataset(dataset.Spec{ID: "c"})}
	hold := func(key string) {
		t.Helper()
		conn := s.dial(t)
		before := s.Stats().BytesInFlight
		fmt.Fprintf(conn, "POST /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: %s\r\nContent-Length: 10000\r\n\r\n{", key)
		waitFor(t, "the request", func() bool { return s.Stats().BytesInFlight > before })
	}
	hold(s.key)
	hold(s.key)
	r := s.post("/v1/events", padded(10000))
	checkAnswer(t, r, "UNAVAILABLE")
	if r.StatusCode != 503 || r.Header.Get("Retry-After") != "1" {
		t.Errorf("over its share: got %d %s", r.StatusCode, r.text)
	}
	body := func(id string) string { return strings.Replace(goodEvent(""), "shop", id, 1) }
	if r := s.post("/v1/events", body("b"), "Authorization:", "Authorization: "+others[0]); r.StatusCode != 200 {
		t.Errorf("another dataset: got %d %s", r.StatusCode, r.text)
	}
	hold(others[0])
	hold(others[0])
	if r := s.post("/v1/events", body("c")+strings.Repeat(" ", 10000), "Authorization:", "Authorization: "+others[1]); r.StatusCode != 503 {
		t.Errorf("no memory left: got %d %s", r.StatusCode, r.text)
	}
	if st := s.Stats(); st.ShedShare != 1 || st.ShedMemory != 1 {
		t.Errorf("got %d and %d shed, want 1 and 1", st.ShedShare, st.ShedMemory)
	}
	if r := s.send("GET", "/v1/schema/events", ""); r.StatusCode != 200 {
		t.Errorf("reading is not shed: got %d", r.StatusCode)
	}
}

func TestBacklog(t *testing.T) {
	age := time.Minute
	s := openServiceIn(t, t.TempDir(), func(s *Server) {
		s.BacklogAge = func() time.Duration { return age }
		s.Limits.BacklogAge = time.Hour
	})
	s.key = s.dataset(specShop)
	if r := s.post("/v1/events", goodEvent("")); r.StatusCode != 200 {
		t.Errorf("got %d %s", r.StatusCode, r.text)
	}
	age = 2 * time.Hour
	if r := s.post("/v1/events", goodEvent("")); r.StatusCode != 503 {
		t.Errorf("backlog: got %d %s", r.StatusCode, r.text)
	}
	if err := s.Ready(); err == nil {
		t.Error("ready with a backlog")
	}
}

// Why requests were rejected whole goes into the stream: dataset, code, field and count.
func TestRejectionsAreCounted(t *testing.T) {
	s := openShop(t)
	for range 3 {
		s.post("/v1/events", badEvent())
	}
	s.post("/v1/events/batch", "["+badEvent()+",1,"+goodEvent("")+"]", "Prefer: handling=strict")
	s.post("/v1/events", "nonsense")
	s.post("/v1/events", badEvent(), "Authorization:")
	s.post("/v1/events/validate", badEvent())
	s.flush(t.Context())
	type at struct {
		code  event.Code
		field string
	}
	got := map[at]event.Rejection{} // Run may have flushed meanwhile: there can be several records
	for _, r := range s.records(t) {
		if r.Kind != submission.Rejected || r.DatasetID != "shop" || r.ReceivedAt != noon.Unix() {
			t.Errorf("got %+v", r)
		}
		for _, n := range r.Rejections {
			sum := got[at{n.Code, n.Field}]
			sum.Count += n.Count
			sum.Events += n.Events
			got[at{n.Code, n.Field}] = sum
		}
	}
	want := map[at]event.Rejection{
		{event.InvalidEventType, "/event_type"}: {Count: 4, Events: 4},
		{event.InvalidType, ""}:                 {Count: 1, Events: 1},
		{event.MalformedJSON, ""}:               {Count: 1},
	}
	if !maps.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	st := s.Stats()
	if len(s.tally.take()) != 0 || st.Datasets[0].Rejected != 5 || st.Datasets[0].RejectedRequests != 5 {
		t.Errorf("got %+v", st.Datasets[0])
	}
}

// Requests are counted for the dataset of their key, by the code of the answer. A replay is an accepted request; 409 and 429
// are neither. The last ones are remembered while all of them fail.
func TestRequestsAreCounted(t *testing.T) {
	s := openShop(t)
	for range 2 {
		if a := s.post("/v1/events", goodEvent(""), "Idempotency-Key: k1"); a.StatusCode != 200 {
			t.Fatalf("got %d %s", a.StatusCode, a.text)
		}
	}
	for _, want := range []struct {
		status  int
		path    string
		body    string
		headers []string
	}{
		{400, "/v1/events", goodEvent("") + ",", nil},
		{415, "/v1/events", goodEvent(""), []string{"Content-Type: text/plain"}},
		{403, "/v1/events", strings.Replace(goodEvent(""), "shop", "another", 1), nil},
		{400, "/v1/events", badEvent(), nil},
		{400, "/v1/events/batch", "[" + badEvent() + "," + goodEvent("") + "]", []string{"Prefer: handling=strict"}},
		{422, "/v1/events", goodEvent(`,"value":1,"currency_code":"EUR"`), []string{"Idempotency-Key: k1"}},
		{413, "/v1/events", strings.Repeat(" ", MaxBody+1), nil},
	} {
		if a := s.post(want.path, want.body, want.headers...); a.StatusCode != want.status {
			t.Errorf("got %d %s, want %d", a.StatusCode, a.text, want.status)
		}
	}
	s.post("/v1/events/validate", badEvent()) // tries are not counted
	s.post("/v1/events", badEvent(), "Authorization:")
	d := s.Stats().Datasets[0]
	if d.RejectedRequests != 7 || d.Failing.Requests != 7 || d.Failing.Code != event.PayloadTooLarge {
		t.Errorf("got %+v", d)
	}
	s.flush(t.Context())
	got := map[event.Code]int32{}
	for _, r := range s.records(t) {
		for _, n := range r.Requests {
			got[n.Code] += n.Count
		}
	}
	want := map[event.Code]int32{
		"": 1, event.MalformedJSON: 1, event.UnsupportedMediaType: 1, event.DatasetForbidden: 1, event.InvalidEventType: 2, event.IdempotencyKeyReused: 1, event.PayloadTooLarge: 1,
	}
	if !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	for range 12 {
		s.clock.Advance(time.Minute)
		s.post("/v1/events", "nonsense")
	}
	if f := s.Stats().Datasets[0].Failing; f.Requests != FailingLeast || f.Code != event.MalformedJSON || f.Last.Sub(f.First) != 9*time.Minute || !f.Last.Equal(s.clock.Now()) {
		t.Errorf("got %+v, want the last ten", f)
	}
	s.post("/v1/events", goodEvent(""))
	if f := s.Stats().Datasets[0].Failing; f != (Failing{}) {
		t.Errorf("after an accepted one: got %+v", f)
	}
}

// A request that is rejected before its key is asked for counts for the dataset of its key, on the paths of events also
// as a rejected one. Its answer is the same whatever the key is.
func TestRequestsRejectedBeforeTheirKeyAreCounted(t *testing.T) {
	s := openShop(t)
	const browser, id = "Origin: https://shop.example.com", "X-Request-Id: same"
	for _, c := range []struct {
		method, path, header string
		code                 event.Code
		rejected             uint64 // so far
	}{
		{"POST", "/v1/events", browser, event.ServerSideOnly, 1},
		{"POST", "/v1/events/batch", browser, event.ServerSideOnly, 2},
		{"PUT", "/v1/events", browser, event.ServerSideOnly, 3},
		{"PUT", "/v1/events", "X-Other: x", event.MethodNotAllowed, 4},
		{"GET", "/v1/events/batch", "X-Other: x", event.MethodNotAllowed, 5},
		{"POST", "/v1/events/validate", browser, event.ServerSideOnly, 5},
		{"DELETE", "/v1/submissions/x", "X-Other: x", event.MethodNotAllowed, 5},
		{"GET", "/openapi.json", browser, event.ServerSideOnly, 5},
	} {
		valid := s.send(c.method, c.path, "", id, c.header)
		for _, other := range []string{"X-Other: y", "Authorization: Bearer nonsense"} {
			bad := s.send(c.method, c.path, "", id, c.header, "Authorization:", other)
			valid.Header.Del("Date")
			bad.Header.Del("Date")
			if valid.code(t) != string(c.code) || valid.StatusCode != bad.StatusCode || valid.text != bad.text || !reflect.DeepEqual(valid.Header, bad.Header) {
				t.Errorf("%s %s: got %s %v, and %s %v with %q", c.method, c.path, valid.text, valid.Header, bad.text, bad.Header, other)
			}
		}
		var got uint64
		for _, d := range s.Stats().Datasets {
			got += d.RejectedRequests
		}
		if got != c.rejected {
			t.Errorf("%s %s: %d requests are counted, want %d", c.method, c.path, got, c.rejected)
		}
	}
	st := s.Stats()
	if len(st.Datasets) != 1 {
		t.Fatalf("got %+v", st.Datasets)
	}
	if d := st.Datasets[0]; d.Failing.Requests != 5 || d.Failing.Code != event.MethodNotAllowed || d.Rejected != 0 || d.BytesInFlight != 0 {
		t.Errorf("got %+v", d)
	}
	for _, c := range []struct {
		of   string
		got  []CodeCount
		want []CodeCount
	}{
		{"the dataset", st.Datasets[0].RejectedByCode, []CodeCount{{event.ServerSideOnly, 4}, {event.MethodNotAllowed, 3}}},
		{"nobody", st.RejectedByCode, []CodeCount{{event.ServerSideOnly, 11}, {event.MethodNotAllowed, 6}}},
	} {
		slices.SortFunc(c.got, func(a, b CodeCount) int { return cmp.Compare(b.Count, a.Count) })
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s: got %v, want %v", c.of, c.got, c.want)
		}
	}
	s.flush(t.Context())
	got := map[event.Code]int32{}
	for _, r := range s.records(t) {
		for _, n := range r.Requests {
			got[n.Code] += n.Count
		}
	}
	if want := (map[event.Code]int32{event.ServerSideOnly: 3, event.MethodNotAllowed: 2}); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestTallyIsBounded(t *testing.T) {
	var tally tally
	for i := range tallyLimit {
		tally.add(fmt.Sprint(i), []event.Rejection{{Code: event.InvalidType, Count: 1}}, []submission.Requests{{Code: event.InvalidType, Count: 1}})
	}
	if waiting, lost := len(tally.sums), tally.lost.Load(); waiting != tallyLimit || lost != tallyLimit {
		t.Errorf("got %d waiting and %d lost, want %d each", waiting, lost, tallyLimit)
	}
}
