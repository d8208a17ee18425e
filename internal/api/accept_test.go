package api

import (
	"context"
	"net/http"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"sluice/internal/dataset"
	"sluice/internal/stream"
	"sluice/internal/submission"
)

const someHash = "973dfe463ec85785f5f95af5ba3906eedb2d931c24e69824a89ea65dba4e813b"

// eventAt is a valid event of some age at noon, with more members if wanted.
func eventAt(age int64, more string) string {
	return `{"data_set_id":"shop","timestamp":` + strconv.FormatInt(noon.Unix()-age, 10) +
		`,"event_type":"purchase","identifiers":{"email_sha256":"` + someHash + `"}` + more + `}`
}

func goodEvent(more string) string { return eventAt(60, more) }

// badEvent breaks one rule.
func badEvent() string {
	return strings.Replace(goodEvent(""), `"purchase"`, `"Purchase"`, 1)
}

var (
	anyUUID    = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	anyRequest = regexp.MustCompile(`"request_id":"[0-9a-f]{32}"`)
	anyWords   = regexp.MustCompile(`"(message|hint)":"[^"]+"`)
)

// masked is an answer without the ids, which differ every time, and the words, which may.
func masked(text string) string {
	text = anyWords.ReplaceAllString(text, `"$1":"…"`)
	return anyRequest.ReplaceAllString(anyUUID.ReplaceAllString(text, "UUID"), `"request_id":"ID"`)
}

// The shapes of the contract, byte for byte.
func TestShapes(t *testing.T) {
	s := openShop(t)
	const (
		single     = `{"submission_id":"single.UUID","received_at":"2026-11-14T12:00:00Z","status":"RECEIVED"`
		batch      = `{"submission_id":"batch.UUID","received_at":"2026-11-14T12:00:00Z","status":"RECEIVED"`
		problem    = `"error_code":"INVALID_EVENT_TYPE","field":"/event_type","message":"…","hint":"…"}`
		late       = `"code":"LATE_EVENT","field":"/timestamp","message":"…"}`
		rejected   = `{"status":"error","error_code":"INVALID_EVENT_TYPE","message":"…","request_id":"ID","errors":[{`
		documented = `],"doc_url":"/docs#INVALID_EVENT_TYPE"}`
	)
	byCode := strings.Replace(rejected, `"errors":[`, `"events_by_code":{"INVALID_EVENT_TYPE":1},"errors":[`, 1)
	for _, c := range []struct {
		name, path, body string
		headers          []string
		status           int
		want             string
		counts           string // X-Events-Accepted/X-Events-Rejected
	}{
		{"clean single", "/v1/events", goodEvent(""), nil, 200, single + `}`, "/"},
		{"single with a warning", "/v1/events", eventAt(8*86400, ""), nil, 200, single + `,"warnings":[{` + late + `]}`, "/"},
		{"rejected single", "/v1/events", badEvent(), nil, 400, rejected + problem + documented, "/"},
		{"clean batch", "/v1/events/batch", "[" + goodEvent("") + "," + goodEvent("") + "]", nil, 200, batch + `}`, "2/0"},
		{
			"batch with everything", "/v1/events/batch", "[" + goodEvent("") + "," + badEvent() + "," + eventAt(8*86400, "") + "]", nil, 200,
			batch + `,"accepted":2,"rejected":1,"errors":[{"index":1,` + problem + `],"warnings":[{"index":2,` + late + `]}`, "2/1",
		},
		{
			"batch with a warning", "/v1/events/batch", "[" + eventAt(8*86400, "") + "]", nil, 200,
			batch + `,"accepted":1,"rejected":0,"errors":[],"warnings":[{"index":0,` + late + `]}`, "1/0",
		},
		{"rejected batch", "/v1/events/batch", "[" + badEvent() + "]", nil, 400, byCode + `"index":0,` + problem + documented, "0/1"},
		{
			"strict batch", "/v1/events/batch", "[" + goodEvent("") + "," + badEvent() + "]",
			[]string{"Prefer: respond-async, Handling=strict; x=y"},
			400, byCode + `"index":1,` + problem + documented, "0/2",
		},
		{
			"strict, in quotes", "/v1/events/batch", "[" + goodEvent("") + "," + badEvent() + "]",
			[]string{`Prefer: note="a, handling=lenient; \", handling=lenient", handling="strict"`},
			400, byCode + `"index":1,` + problem + documented, "0/2",
		},
		{
			"a preference of another name", "/v1/events/batch", "[" + goodEvent("") + "]",
			[]string{`Prefer: note="a, handling=strict", handling="strictly", handling=strict`},
			200, batch + `}`, "1/0",
		},
		{
			"rejected for different reasons", "/v1/events/batch", "[" + badEvent() + ",3]", nil, 400,
			`{"status":"error","error_code":"BATCH_REJECTED","message":"…","request_id":"ID","events_by_code":{"INVALID_EVENT_TYPE":1,"INVALID_TYPE":1},"errors":[{"index":0,` + problem +
				`,{"index":1,"error_code":"INVALID_TYPE","field":"","message":"…","hint":"…"}],"doc_url":"/docs#BATCH_REJECTED"}`, "0/2",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := s.post(c.path, c.body, c.headers...)
			if got := masked(r.text); r.StatusCode != c.status || got != c.want {
				t.Errorf("got  %d %s\nwant %d %s", r.StatusCode, got, c.status, c.want)
			}
			if got := r.Header.Get("X-Events-Accepted") + "/" + r.Header.Get("X-Events-Rejected"); got != c.counts {
				t.Errorf("counts: got %s, want %s", got, c.counts)
			}
			if want, got := strings.Contains(c.name, "strict"), r.Header.Get("Preference-Applied") == "handling=strict"; got != want {
				t.Errorf("Preference-Applied: got %v, want %v", got, want)
			}
			for name, want := range map[string]string{
				"Content-Type": "application/json", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
			} {
				if got := r.Header.Get(name); got != want {
					t.Errorf("%s: got %q, want %q", name, got, want)
				}
			}
		})
	}
}

func TestLookUp(t *testing.T) {
	s := openShop(t)
	r := s.post("/v1/events/batch", "["+goodEvent("")+","+eventAt(8*86400, `,"mmt_only":true`)+",3]")
	id, _ := r.object(t)["submission_id"].(string)
	const head = `"data_set_id":"shop","received_at":"2026-11-14T12:00:00Z","status":"RECEIVED","accepted":2,"rejected":1,"late":1,"restricted":1,"suppressed":0`
	r = s.send("GET", "/v1/submissions/"+id, "")
	if want := `{"submission_id":"batch.UUID",` + head + `}`; masked(r.text) != want {
		t.Errorf("got  %s\nwant %s", masked(r.text), want)
	}
	r = s.send("GET", "/v1/submissions/"+id+"?include=events", "")
	want := `{"submission_id":"batch.UUID",` + head +
		`,"events":[{"index":0,"event_id":"UUID","event_type":"purchase","late":false,"privacy":"unrestricted","optimization_eligible":true},` +
		`{"index":1,"event_id":"UUID","event_type":"purchase","late":true,"privacy":"measurement_only","optimization_eligible":false}]}`
	if masked(r.text) != want {
		t.Errorf("got  %s\nwant %s", masked(r.text), want)
	}
	other := strings.Replace(id, "batch.", "single.", 1)
	for _, path := range []string{other, "batch.", id + "0", "x", strings.ToUpper(id)} {
		if r := s.send("GET", "/v1/submissions/"+path, ""); r.StatusCode != http.StatusNotFound {
			t.Errorf("%s: got %d, want 404", path, r.StatusCode)
		}
	}
	for _, path := range []string{
		"submissions/" + id + "?include=rows", "submissions/" + id + "?include=%zz", "submissions/" + id + "?include=events;",
		"submissions/" + id + "?include=events&include=events", "stats?window=24h&window=7d", "stats?window=7d%", "stats?by=campaign;",
		"stats?by=campaign&by=", "stats?window=7d&%zz",
		"submissions/" + id + "?include=", "stats?window=", "stats?by",
	} {
		if r := s.send("GET", "/v1/"+path, ""); r.StatusCode != 400 || !strings.Contains(r.text, "INVALID_PARAMETER") {
			t.Errorf("%s: got %d %s, want 400", path, r.StatusCode, r.text)
		}
	}
}

// oneSubmission is a store with one submission.
type oneSubmission struct{ *submission.Submission }

func (s oneSubmission) FindSubmission(_ context.Context, datasetID, submissionID string) (*submission.Submission, error) {
	if s.DatasetID != datasetID || submission.FormatID(s.Kind, s.ID) != submissionID {
		return nil, nil
	}
	return s.Submission, nil
}

// A submission can be looked up at once, when it is in the store, and when the stream has let go of it; only by
// the dataset that sent it.
func TestLookUpLater(t *testing.T) {
	stored, gone := false, false
	s := openServiceIn(t, t.TempDir(), func(s *Server) {
		s.Processed = func(stream.Position) bool { return stored }
		s.Stream = failingStream{s.Stream, func(what string) error {
			if what == "read" && gone {
				return stream.ErrGone
			}
			return nil
		}}
	})
	s.key = s.dataset(specShop)
	other := s.dataset(dataset.Spec{ID: "other"})
	id, _ := s.post("/v1/events", goodEvent("")).object(t)["submission_id"].(string)
	want := `{"submission_id":"single.UUID","data_set_id":"shop","received_at":"2026-11-14T12:00:00Z","status":"STATUS","accepted":1,"rejected":0,"late":0,"restricted":0,"suppressed":0}`
	look := func(status string) {
		t.Helper()
		r := s.send("GET", "/v1/submissions/"+id, "")
		if want := strings.Replace(want, "STATUS", status, 1); r.StatusCode != 200 || masked(r.text) != want {
			t.Errorf("got %d %s, want %s", r.StatusCode, r.text, want)
		}
		if r := s.send("GET", "/v1/submissions/"+id, "", "Authorization:", "Authorization: "+other); r.StatusCode != 404 {
			t.Errorf("another dataset: got %d %s", r.StatusCode, r.text)
		}
	}
	look("RECEIVED")
	stored = true
	look("PROCESSED")
	s.Lookup = oneSubmission{s.records(t)[0]}
	gone = true
	look("PROCESSED")
	if r := s.send("GET", "/v1/submissions/"+otherEnd(id), ""); r.StatusCode != 404 {
		t.Errorf("another id: got %d %s", r.StatusCode, r.text)
	}
}

func TestValidate(t *testing.T) {
	s := openShop(t)
	r := s.post("/v1/events/validate", "["+goodEvent(`,"privacy":{"us_privacy_string":"1YYN"}`)+","+badEvent()+"]")
	m := r.object(t)
	if r.StatusCode != 200 || m["valid"] != false || m["accepted"] != 1.0 || m["rejected"] != 1.0 {
		t.Errorf("got %d %s", r.StatusCode, r.text)
	}
	const effect = `"events":[{"index":0,"event":{"event_id":null,"submission_id":null,"submission_index":0,`
	for _, want := range []string{effect, `"errors":[{"index":1,"error_code":"INVALID_EVENT_TYPE"`, `"privacy":"measurement_only","privacy_reasons":["us_privacy`, `"gpp":null}]}`} {
		if !strings.Contains(r.text, want) {
			t.Errorf("%s is not in %s", want, r.text)
		}
	}
	r = s.post("/v1/events/validate", badEvent())
	if want := `{"valid":false,"accepted":0,"rejected":1,"errors":[{"error_code":"INVALID_EVENT_TYPE","field":"/event_type","message":"…","hint":"…"}],"warnings":[],"events":[]}`; masked(r.text) != want {
		t.Errorf("got  %s\nwant %s", masked(r.text), want)
	}
	checkAnswer(t, s.post("/v1/events/validate", "[]"), "EMPTY_BATCH")
	if st := s.Stats(); len(s.tally.take()) != 0 || st.Datasets[0].Accepted+st.Datasets[0].Rejected+st.Datasets[0].RejectedRequests != 0 {
		t.Errorf("validation is counted: %+v", st.Datasets[0])
	}
	if n := len(s.records(t)); n != 0 {
		t.Errorf("%d records are stored", n)
	}
}

// TestValidateHostileConsent asks for the vendors of strings that are forty times as long spelled out.
func TestValidateHostileConsent(t *testing.T) {
	s := openShop(t)
	const vendors = 65535
	bits := "000010" + strings.Repeat("0", 213-6) + strings.Repeat("1", 16) + "0" + strings.Repeat("01", vendors/2) + "0" + strings.Repeat("0", 17+12+5)
	var text strings.Builder
	for ; len(bits) >= 6; bits = bits[6:] {
		v, _ := strconv.ParseUint(bits[:6], 2, 8)
		text.WriteByte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[v])
	}
	one := goodEvent(`,"privacy":{"gpp_string":"DBABMA~` + text.String() + `","gpp_sid":[2]}`)
	const events = 100
	r := s.post("/v1/events/validate", "["+strings.Repeat(one+",", events-1)+one+"]")
	shown := strings.Count(r.text, `"VendorConsents":[[2,2],[4,4],`)
	if r.StatusCode != 200 || strings.Count(r.text, `"privacy":"suppressed","privacy_reasons"`) != events {
		t.Errorf("got %d %.400s", r.StatusCode, r.text)
	}
	if shown == 0 || shown == events || len(r.text) > maxShown+1<<20 {
		t.Errorf("%d strings of %d shown in %d bytes", shown, events, len(r.text))
	}

	// Compressed it is a few kilobytes. What is shown is bounded by what was sent, and counted before it is built.
	small := gzipOf(t, "["+strings.Repeat(one+",", 19)+one+"]")
	r = s.post("/v1/events/validate", small, "Content-Encoding: gzip")
	if len(small) > 16<<10 || r.StatusCode != 200 || len(r.text) > 6<<20 {
		t.Errorf("%d bytes sent: got %d and %d bytes", len(small), r.StatusCode, len(r.text))
	}
	s.Limits.BytesInFlight = 2 * (held*20*int64(len(one)) + overhead + 1<<20)
	r = s.post("/v1/events/validate", small, "Content-Encoding: gzip")
	checkAnswer(t, r, "UNAVAILABLE")
	if r.StatusCode != 503 {
		t.Errorf("without the memory for the answer: got %d and %d bytes", r.StatusCode, len(r.text))
	}
}

func TestStats(t *testing.T) {
	s := openShop(t)
	s.post("/v1/events", goodEvent(""))
	s.post("/v1/events/batch", "["+eventAt(8*86400, "")+","+goodEvent(`,"mmt_only":true`)+",1]")
	s.post("/v1/events", "x", "Authorization:")
	s.send("GET", "/nothing", "")
	st := s.Stats()
	if got := st.Datasets; len(got) != 1 || !reflect.DeepEqual(got[0], DatasetStats{DatasetID: "shop", Accepted: 3, Rejected: 1, Late: 1, Restricted: 1}) {
		t.Errorf("datasets: got %+v", got)
	}
	count := map[string]uint64{}
	for _, r := range st.Routes {
		sum := uint64(0)
		for _, n := range r.Latency {
			sum += n
		}
		for _, c := range r.Statuses {
			count[r.Path+" "+strconv.Itoa(c.Status)] = c.Count
			sum -= c.Count
		}
		if sum != 0 {
			t.Errorf("%s: latencies and statuses differ by %d", r.Path, sum)
		}
	}
	for _, c := range st.RejectedByCode {
		count[string(c.Code)] = c.Count
	}
	for _, name := range []string{"/v1/events 200", "/v1/events 403", "/v1/events/batch 200", "other 404", "MISSING_API_KEY", "NOT_FOUND"} {
		if count[name] != 1 {
			t.Errorf("%s: got %d, want 1", name, count[name])
		}
	}
}
