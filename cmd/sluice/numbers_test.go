package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/event"
	"sluice/internal/api"
	"sluice/internal/lake"
)

// numbersOf asks the server for the numbers of the key's dataset.
func numbersOf(t *testing.T, s *server, key, window string) (n api.Numbers) {
	t.Helper()
	a, err := s.call(http.MethodGet, key, "/v1/stats?window="+window, "")
	if err != nil || a.status != http.StatusOK || a.header.Get("Cache-Control") != "no-store" {
		t.Fatalf("got %d %v %v %s", a.status, err, a.header, a.body)
	}
	if err := json.Unmarshal(a.body, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// What GET /v1/stats says equals the tables, to the event, in every window, and each key sees its own dataset alone.
func TestNumbersEqualTheTables(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	key, keyID := provisioned(t, dir, "shop")
	other, _ := provisioned(t, dir, "other")
	now := time.Now()
	ifa := `"ifa":"97987bca-ae59-4c7d-94ba-ee4f19ab8c21"`
	hash := `"email_sha256":"aa11bb22cc33dd44ee55ff6677889900aa11bb22cc33dd44ee55ff6677889900"`
	ip := `"ip":"bb11bb22cc33dd44ee55ff6677889900aa11bb22cc33dd44ee55ff6677889900"`
	one := func(age time.Duration, kind, ids, rest string) string {
		return fmt.Sprintf(`{"data_set_id":"shop","timestamp":%d,"event_type":%q,"identifiers":{%s}%s}`, now.Add(-age).Unix(), kind, ids, rest)
	}
	sent := 0
	for _, batch := range [][]string{
		{one(0, "purchase", ifa, ""), one(0, "purchase", hash+","+ip, ""), one(0, "search", ip, ""), `{"data_set_id":"shop"}`},
		{one(8*24*time.Hour, "search", ifa, ""), one(0, "Purchase", ifa, ""), one(0, "Purchase", ifa, "")},
		{one(0, "page_view", hash, `,"privacy":{"us_privacy_string":"1YYN"}`), one(0, "page_view", hash, `,"privacy":{"gpp_string":"DBABLA~ClViiJlAIEZU.YA","gpp_sid":[7]}`)},
		{`{"data_set_id":"shop"}`}, // rejected whole
	} {
		if a, err := s.post(key, "/v1/events/batch", "["+strings.Join(batch, ",")+"]"); err != nil || a.status != 200 && a.status != 400 {
			t.Fatalf("got %d %v %s", a.status, err, a.body)
		}
		sent += len(batch)
	}
	if a, err := s.post(other, "/v1/events", marked("other", "theirs")); err != nil || a.status != 200 {
		t.Fatalf("got %d %v", a.status, err)
	}
	eventually(t, 20*time.Second, "all counted", func() error {
		return want(int(numbersOf(t, s, key, "24h").Received), sent)
	})
	eventually(t, 20*time.Second, "the other's counted", func() error { return want(int(numbersOf(t, s, other, "7d").Accepted), 1) })
	numbers := map[string]api.Numbers{}
	for _, w := range []string{"1h", "24h", "7d", "30d"} {
		numbers[w] = numbersOf(t, s, key, w)
	}
	for path, status := range map[string]int{"/v1/stats?window=2h": 400, "/v1/stats?window=9y": 400, "/v1/stats?window=": 400, "/v1/stats/": 404, "/v1/stats": 200} {
		if a, _ := s.call(http.MethodGet, key, path, ""); a.status != status {
			t.Errorf("%s: got %d, want %d", path, a.status, status)
		}
	}
	if a, _ := s.call(http.MethodGet, "", "/v1/stats", ""); a.status != http.StatusForbidden {
		t.Errorf("without a key: got %d", a.status)
	}
	s.stop(syscall.SIGTERM)
	want := tableNumbers(t, dir, "shop")
	for window, got := range numbers {
		if got.DatasetID != "shop" || got.Window != window || !got.Complete || got.From.After(now) || got.To.Before(now) {
			t.Errorf("%s: got %+v", window, got)
		}
		if got.Key.KeyID != keyID || got.Key.AgeSeconds > 60 || !got.Key.EndsAt.IsZero() || got.Freshness.CountedAt.Before(now.Add(-time.Minute)) {
			t.Errorf("%s: got key %+v and freshness %+v", window, got.Key, got.Freshness)
		}
		for _, r := range got.Rejections {
			if r.Hint == "" || r.FirstSeen.After(now) || r.LastSeen.Before(now.Add(-2*time.Hour)) || r.Field == "/event_type" && !strings.HasPrefix(r.Example, `"event_type": `) {
				t.Errorf("%s: got %+v", window, r)
			}
		}
		if has, need := countable(got), countable(want); has != need {
			t.Errorf("%s: got %s\nwant %s", window, has, need)
		}
	}
}

// A sender sees its campaigns as it reported them, in every window: before the counts are in the table and after the process was
// killed.
func TestCampaignsOfASender(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	key, _ := provisioned(t, dir, "shop")
	at := time.Now().Unix()
	one := func(campaign, kind, value, rest string) string {
		return fmt.Sprintf(`{"data_set_id":"shop","timestamp":%d,"event_type":%q%s%s,"identifiers":{"ifa":"97987bca-ae59-4c7d-94ba-ee4f19ab8c21"}%s}`, at, kind, campaign, value, rest)
	}
	const suppressed = `,"privacy":{"gpp_string":"DBABLA~ClViiJlAIEZU.YA","gpp_sid":[7]}`
	for _, batch := range [][]string{
		{one(`,"cp_id":"spring","cp_name":"Spring"`, "purchase", `,"value":10,"currency_code":"EUR"`, ""), one("", "search", "", "")},
		{
			one(`,"cp_id":"spring","cp_name":"Spring sale"`, "purchase", `,"value":2.5,"currency_code":"EUR"`, ""),
			one(`,"cp_id":"spring"`, "refund", `,"value":-4,"currency_code":"EUR"`, ""), one(`,"cp_id":"spring"`, "purchase", `,"value":1,"currency_code":"USD"`, ""),
			one(`,"cp_id":"gone"`, "purchase", `,"value":3,"currency_code":"EUR"`, suppressed),
		},
	} {
		if a, err := s.post(key, "/v1/events/batch", "["+strings.Join(batch, ",")+"]"); err != nil || a.status != 200 {
			t.Fatalf("got %d %v %s", a.status, err, a.body)
		}
	}
	const want = `[{"cp_id":"spring","cp_name":"Spring sale","events":{"purchase":3,"refund":1},"value":{"EUR":12.5,"USD":1},"refunds":{"EUR":4}},` +
		`{"cp_id":"shop","cp_name":"","events":{"search":1},"value":{},"refunds":{}},` +
		`{"cp_id":"(none)","cp_name":"","events":{"purchase":1},"value":{"EUR":3},"refunds":{}}]`
	for round := range 2 {
		for _, window := range []string{"1h", "24h", "7d", "30d"} {
			eventually(t, 60*time.Second, "campaigns of "+window, func() error {
				a, err := s.call(http.MethodGet, key, "/v1/stats?by=campaign&window="+window, "")
				if err != nil || a.status != http.StatusOK {
					return fmt.Errorf("got %d %w", a.status, err)
				}
				var n struct {
					Campaigns  json.RawMessage `json:"campaigns"`
					AsReported bool            `json:"as_reported"`
					Note       string          `json:"note"`
				}
				if err := json.Unmarshal(a.body, &n); err != nil || !n.AsReported || !strings.Contains(n.Note, "campaign_days") || string(n.Campaigns) != want {
					return fmt.Errorf("%w: got %s\nwant %s", err, a.body, want)
				}
				return nil
			})
		}
		if round == 0 {
			s.stop(syscall.SIGKILL)
			s = start(t, dir)
		}
	}
	for path, status := range map[string]int{"/v1/stats?by=type": 400, "/v1/stats?by=": 400, "/v1/stats?by=campaign&window=2h": 400} {
		if a, _ := s.call(http.MethodGet, key, path, ""); a.status != status || status == 400 && !strings.Contains(string(a.body), "INVALID_PARAMETER") {
			t.Errorf("%s: got %d %s, want %d", path, a.status, a.body, status)
		}
	}
	for _, path := range []string{"/v1/stats", "/v1/stats?by=campaign"} {
		eventually(t, 60*time.Second, "numbers that are known", func() error {
			first, _ := s.call(http.MethodGet, key, path, "")
			again, err := s.call(http.MethodGet, key, path, "", "If-None-Match", first.header.Get("ETag"))
			if err != nil || again.status != http.StatusNotModified || len(again.body) > 0 {
				return fmt.Errorf("%s: got %d %s %w, want 304", path, again.status, again.body, err)
			}
			return nil
		})
	}
	if a, _ := s.call(http.MethodGet, key, "/v1/stats", ""); strings.Contains(string(a.body), "campaigns") {
		t.Errorf("got %s, want no campaigns", a.body)
	}
}

// tableNumbers counts the rows of the tables.
func tableNumbers(t *testing.T, dir, id string) (n api.Numbers) {
	t.Helper()
	l, err := lake.OpenDir(t.Context(), filepath.Join(dir, "lake"), lake.Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	types, ids := map[string]int64{}, map[string]int64{}
	for row, err := range l.Scan(t.Context(), lake.Query{Dataset: id}) {
		if err != nil {
			t.Fatal(err)
		}
		n.Accepted++
		types[row.EventType]++
		if row.Late {
			n.Late++
		}
		*map[event.Outcome]*int64{event.Unrestricted: &n.Outcomes.Unrestricted, event.MeasurementOnly: &n.Outcomes.MeasurementOnly, event.Suppressed: &n.Outcomes.Suppressed}[row.Privacy]++
		for name, value := range map[string]string{"email_sha256": row.EmailSHA256, "ifa": row.IFA, "ip": row.IPSHA256, "partner_id": row.PartnerID} {
			if value != "" {
				ids[name]++
			}
		}
		switch {
		case row.EmailSHA256 != "" || row.IFA != "":
			n.MatchReadiness.Terms.Strong++
		case row.IPSHA256 != "":
			n.MatchReadiness.Terms.Weak++
		}
	}
	reasons := map[[2]string]*api.RejectionCount{}
	err = l.ScanRejections(t.Context(), lake.RejectionQuery{Dataset: id}, func(r *lake.Rejection) error {
		k := [2]string{r.Code, r.Field}
		if reasons[k] == nil {
			reasons[k] = &api.RejectionCount{ErrorCode: strings.Clone(r.Code), Field: strings.Clone(r.Field)}
		}
		reasons[k].Events += r.Events
		reasons[k].Problems += r.Count
		n.Rejected += r.Events
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, count := range types {
		n.EventTypes = append(n.EventTypes, api.TypeCount{EventType: name, Accepted: count})
	}
	for _, member := range []string{"email_sha256", "ifa", "ip", "partner_id"} {
		share := float64(ids[member]) / float64(n.Accepted)
		n.Identifiers = append(n.Identifiers, api.IdentifierCount{Field: member, Events: ids[member], Share: share})
	}
	for _, r := range reasons {
		n.Rejections = append(n.Rejections, *r)
	}
	n.Received, n.MatchReadiness.Terms.Accepted = n.Accepted+n.Rejected, n.Accepted
	terms := n.MatchReadiness.Terms
	n.MatchReadiness.Points = 100 * (float64(terms.Strong) + 0.4*float64(terms.Weak)) / float64(terms.Accepted)
	return n
}

// countable is what can be counted in the tables, in one text.
func countable(n api.Numbers) string {
	types, reasons := map[string]int64{}, map[string]string{}
	for _, t := range n.EventTypes {
		types[t.EventType] = t.Accepted
	}
	for _, r := range n.Rejections {
		reasons[r.ErrorCode+r.Field] = fmt.Sprint(r.Events, r.Problems)
	}
	return fmt.Sprint(n.Received, n.Accepted, n.Rejected, n.Late, n.Outcomes, types, reasons, n.Identifiers, n.MatchReadiness.Terms, n.MatchReadiness.Points)
}
