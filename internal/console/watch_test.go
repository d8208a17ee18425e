package console

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/event"
	"sluice/internal/api"
	"sluice/internal/dataset"
	"sluice/internal/hours"
	"sluice/internal/lake"
)

func indexed(rows ...lake.Hour) *hours.Index {
	x := hours.NewIndex(nil)
	x.Add(rows, noon)
	return x
}

// hourRow is a number of a dataset so long ago.
func hourRow(ago time.Duration, id, kind, name, field string, count int64, value float64) lake.Hour {
	at := noon.Add(-ago).Unix()
	return lake.Hour{Hour: at - at%3600, DatasetID: id, Kind: kind, Name: name, Field: field, Count: count, Value: value}
}

// A dataset that is mostly rejected, one that is silent, and a key that ends while it is used: an amber sentence names each,
// says what to do, and "All is well" is gone.
func TestDatasetsThatNeedSomebody(t *testing.T) {
	accepted := func(ago time.Duration, n int64) lake.Hour {
		return hourRow(ago, "shop", hours.KindEvents, "purchase", hours.FieldAccepted, n, 0)
	}
	rejected := func(ago time.Duration, n float64) lake.Hour {
		return hourRow(ago, "shop", hours.KindRejections, "MISSING_FIELD", "/timestamp", int64(n), n)
	}
	uses := map[string]dataset.Use{
		"k1": {Accepted: noon.Add(-time.Minute)}, "k2": {Accepted: noon.Add(-48 * time.Hour)},
		"k3": {Rejected: noon.Add(-2 * time.Minute)}, "k4": {Rejected: noon.Add(-2 * time.Hour)},
	}
	key := dataset.KeyInfo{ID: "k1", Expires: noon.Add(5 * time.Hour)}
	for name, c := range map[string]struct {
		rows []lake.Hour
		set  dataset.Dataset
		want string // "" is nothing
	}{
		"63 % rejected for 40 hours":        {[]lake.Hour{accepted(0, 37), rejected(0, 63), accepted(40*time.Hour, 37), rejected(40*time.Hour, 63)}, dataset.Dataset{}, "SluiceDatasetRejected: Dataset shop: 63.0 % of its events in this hour and the one before were rejected (63 of 100), most with MISSING_FIELD at /timestamp."},
		"rejected this morning":             {[]lake.Hour{rejected(5*time.Hour, 20)}, dataset.Dataset{}, "SluiceDatasetRejected: Dataset shop: 100 % of its events in the last 24 hours were rejected (20 of 20), most with MISSING_FIELD at /timestamp."},
		"rejected this morning, good since": {[]lake.Hour{rejected(5*time.Hour, 200), accepted(0, 20)}, dataset.Dataset{}, ""},
		"half rejected":                     {[]lake.Hour{accepted(0, 50), rejected(0, 50)}, dataset.Dataset{}, ""},
		"one wrong try":                     {[]lake.Hour{rejected(0, 1)}, dataset.Dataset{}, ""},
		"rejected and disabled":             {[]lake.Hour{rejected(0, 100)}, dataset.Dataset{Disabled: true}, ""},
		"silent for 45 hours":               {[]lake.Hour{accepted(46*time.Hour, 5)}, dataset.Dataset{}, "SluiceDatasetSilent: Dataset shop: no event for 45 h."},
		"silent since this morning":         {[]lake.Hour{accepted(10*time.Hour, 5)}, dataset.Dataset{}, ""},
		"over for a month":                  {[]lake.Hour{accepted(30*24*time.Hour, 5)}, dataset.Dataset{}, ""},
		"new":                               {nil, dataset.Dataset{}, ""},
		"key in use ends":                   {[]lake.Hour{accepted(0, 9)}, dataset.Dataset{Keys: []dataset.KeyInfo{key}}, "SluiceKeyEnding: Dataset shop: key k1 is in use and ends in 5 h."},
		"revoked key in use":                {nil, dataset.Dataset{Keys: []dataset.KeyInfo{{ID: "k3", Revoked: noon.Add(-time.Hour)}}}, "SluiceEndedKeyInUse: Dataset shop: key k3 is revoked and still in use, last 2 min ago."},
		"expired key in use":                {nil, dataset.Dataset{Keys: []dataset.KeyInfo{{ID: "k3", Expires: noon.Add(-time.Hour)}}}, "SluiceEndedKeyInUse: Dataset shop: key k3 is expired and still in use, last 2 min ago."},
		"revoked key out of use":            {nil, dataset.Dataset{Keys: []dataset.KeyInfo{{ID: "k4", Revoked: noon.Add(-3 * time.Hour)}}}, ""},
		"key without use ends":              {[]lake.Hour{accepted(0, 9)}, dataset.Dataset{Keys: []dataset.KeyInfo{{ID: "k2", Expires: key.Expires}}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c.set.ID = "shop"
			s := wellState()
			view := indexed(c.rows...).View()
			defer view.Close()
			s.datasets, s.used = []*dataset.Dataset{&c.set}, uses
			s.found = *findDatasets(view, s)
			v := judge(s)
			var got []string
			for _, a := range v.Alarms {
				got = append(got, a.Name+": "+a.Say)
				if a.Class != "warn" || a.Do == "" || a.Path == "" || a.Subject != "shop" {
					t.Errorf("got %+v", a)
				}
			}
			if strings.Join(got, "|") != c.want || (v.Sentence == "All is well.") != (c.want == "") {
				t.Errorf("got %q under %q, want %q", got, v.Sentence, c.want)
			}
		})
	}
}

// The alarm about consent that is not read begins above 1 % and with 20 events, and ends below 0.5 %.
func TestConsentNotRead(t *testing.T) {
	warned := func(code event.Code, ago time.Duration, n int64) lake.Hour {
		return hourRow(ago, "shop", hours.KindWarnings, string(code), "", n, 0)
	}
	s := wellState()
	s.datasets = []*dataset.Dataset{{ID: "shop"}}
	s.labels = map[string]bool{"shop": true}
	look := func(accepted int64, rows ...lake.Hour) string {
		view := indexed(append(rows, hourRow(0, "shop", hours.KindEvents, "purchase", hours.FieldAccepted, accepted, 0))...).View()
		defer view.Close()
		s.found = *findDatasets(view, s)
		said := ""
		for _, a := range sound(s) {
			if a.Name != "SluiceConsentNotRead" || a.Path != diagnosisPath("shop") || a.Do == "" {
				t.Errorf("got %+v", a)
			}
			said += a.Say
		}
		if lines := s.unreadLines("shop"); (len(lines) > 0) != (said != "") || len(s.unreadLines("other")) > 0 || len(lines) > 0 && (lines[0].Say != said || lines[0].Reasons[0].Remedy == "") {
			t.Errorf("got lines %+v beside %q", lines, said)
		}
		return said
	}
	const newer, tcf, unread = event.GPPVersionUnknown, event.TCFWithoutDisclosedVendors, event.PrivacyNotUnderstood
	for _, c := range []struct {
		name     string
		accepted int64
		rows     []lake.Hour
		want     string
	}{
		{"nothing", 1000, nil, ""},
		{"19 events", 100, []lake.Hour{warned(newer, 0, 19)}, ""},
		{"exactly 1 %", 2000, []lake.Hour{warned(newer, 0, 20)}, ""},
		{"0.7 % before", 10_000, []lake.Hour{warned(newer, 0, 70)}, ""},
		{"above", 1000, []lake.Hour{warned(newer, 0, 20), warned(newer, 23*time.Hour, 10)}, "Dataset shop: of its accepted events of the last 24 hours 3.0 % have GPP_VERSION_UNKNOWN (30)."},
		{"0.7 % after", 10_000, []lake.Hour{warned(newer, 0, 70)}, "Dataset shop: of its accepted events of the last 24 hours 0.7 % have GPP_VERSION_UNKNOWN (70)."},
		{"exactly 0.5 %", 2000, []lake.Hour{warned(newer, 0, 10)}, "Dataset shop: of its accepted events of the last 24 hours 0.5 % have GPP_VERSION_UNKNOWN (10)."},
		{"below", 10_000, []lake.Hour{warned(newer, 0, 49)}, ""},
		{"0.7 % again", 10_000, []lake.Hour{warned(newer, 0, 70)}, ""},
		{"a day ago", 1000, []lake.Hour{warned(newer, 24*time.Hour, 500)}, ""},
		{"two", 1000, []lake.Hour{warned(tcf, 0, 50), warned(unread, 0, 1000), warned(newer, 0, 3)}, "Dataset shop: of its accepted events of the last 24 hours 5.0 % have TCF_WITHOUT_DISCLOSED_VENDORS (50), 100 % have PRIVACY_NOT_UNDERSTOOD (1,000)."},
		{"another warning", 1000, []lake.Hour{warned(event.LateEvent, 0, 900)}, ""},
	} {
		if got := look(c.accepted, c.rows...); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// TestPlatformSwitches sends events as a consent platform writes them from one day on: the first page, Diagnosis and the
// metric say so.
func TestPlatformSwitches(t *testing.T) {
	s := openService(t)
	s.dataset(dataset.Spec{ID: "shop"})
	until(t, "the tables are read", s.console.s.Hours.Complete)
	one := fmt.Sprintf(`{"data_set_id":"shop","timestamp":%d,"event_type":"page_view","identifiers":{"email_sha256":%q},"privacy":{"gpp_string":"DBABLA~DVVVAAAAAAFU","gpp_sid":[7]}}`,
		time.Now().Unix(), strings.Repeat("0a", 32))
	s.post("shop", "/v1/events/batch", "["+strings.Repeat(one+",", unreadLeast-1)+one+"]")
	until(t, "the accepted events", func() bool { return figuresOf(s, "/").Accepted == unreadLeast })
	s.console.findDatasets(s.console.look()) // as Run does every ten seconds
	const say = "100 % have GPP_VERSION_UNKNOWN (20)"
	for _, path := range []string{"/", "/diagnosis", diagnosisPath("shop")} {
		if _, page := s.read(path); !strings.Contains(page, say) {
			t.Errorf("%s does not say %q: %s", path, say, page)
		}
	}
	if _, page := s.read("/metrics"); !strings.Contains(page, `sluice_consent_unread_ratio{code="GPP_VERSION_UNKNOWN",dataset="shop"} 1`) {
		t.Errorf("got %s", page)
	}
}

// Of many datasets with the same problem the worst are named and the others counted.
func TestManyFindings(t *testing.T) {
	var rows []lake.Hour
	var sets []*dataset.Dataset
	for i := range 12 {
		id := fmt.Sprintf("shop-%02d", i)
		sets = append(sets, &dataset.Dataset{ID: id})
		rows = append(rows, hourRow(0, id, hours.KindRejections, "MISSING_FIELD", "/timestamp", 10, float64(10+i)))
	}
	view := indexed(rows...).View()
	defer view.Close()
	s := wellState()
	s.datasets = sets
	s.found = *findDatasets(view, s)
	alarms := sound(s)
	if len(alarms) != namedMost+1 || alarms[0].Subject != "shop-11" || !strings.Contains(alarms[namedMost].Say, "7 other datasets") {
		t.Errorf("got %+v", alarms)
	}
}

// Alarms about the last minutes begin and end with what the counters do, not with what they add up to.
func TestRates(t *testing.T) {
	var r rates
	look := func(minute int, requests, errs uint64, slow uint64) []string {
		s := wellState()
		s.now = noon.Add(time.Duration(minute) * time.Minute)
		s.registry.Synced = s.now
		s.api.Routes = []api.RouteStats{{Method: "POST", Statuses: []api.StatusCount{{Status: 200, Count: requests - errs}, {Status: 503, Count: errs}}}}
		s.stream.Latency[len(s.stream.Latency)-1] = slow
		s.last5, s.last10, s.last60 = r.since(s, 5), r.since(s, 10), r.since(s, 60)
		r.look(s)
		var names []string
		for _, a := range sound(s) {
			names = append(names, a.Name)
		}
		return names
	}
	for _, c := range []struct {
		minute               int
		requests, errs, slow uint64
		want                 string
	}{
		{0, 1000, 500, 900, ""}, // from before anybody looked
		{1, 2000, 500, 900, ""},
		{2, 3000, 560, 900, "SluiceServerErrors"},
		{4, 4000, 560, 930, "SluiceServerErrors SluiceSlowSync"},
		{9, 5000, 560, 930, "SluiceSlowSync"},
		{20, 6000, 560, 930, ""},
	} {
		if got := strings.Join(look(c.minute, c.requests, c.errs, c.slow), " "); got != c.want {
			t.Errorf("minute %d: got %q, want %q", c.minute, got, c.want)
		}
	}
}

// A new dataset shows how to send its first event. Once all of its events are rejected, the first page says so.
func TestNewDataset(t *testing.T) {
	s := openService(t)
	s.dataset(dataset.Spec{ID: "shop"})
	until(t, "the tables are read", s.console.s.Hours.Complete)
	if _, page := s.read(datasetPath("shop")); !strings.Contains(page, "Waiting for the first event") || !strings.Contains(page, "curl -H") || !strings.Contains(page, s.apiURL+"/v1/events") {
		t.Errorf("got %s", page)
	}
	for range rejectedLeast {
		s.post("shop", "/v1/events", `{"data_set_id":"shop"}`)
	}
	until(t, "the rejected events", func() bool { return figuresOf(s, "/").Rejected == rejectedLeast })
	s.console.findDatasets(s.console.look()) // as Run does every ten seconds
	if _, page := s.read("/"); strings.Contains(page, "All is well") || !strings.Contains(page, "Dataset shop: 100") || !strings.Contains(page, "events per hour, time in UTC") {
		t.Errorf("got %s", page)
	}
	status, answer := s.post("shop", "/v1/events", fmt.Sprintf(`{"data_set_id":"shop","timestamp":%d,"event_type":"purchase","identifiers":{"ifa":"0f8fad5b-d9cb-469f-a165-70867728950e"}}`, time.Now().Unix()))
	if status != 200 {
		t.Fatalf("got %d %s", status, answer)
	}
	until(t, "the first event", func() bool {
		_, page := s.read(datasetPath("shop"))
		return !strings.Contains(page, "Waiting for the first event")
	})
}

// A key that has ended and is still presented is marked on its dataset's page and has a series of its own.
func TestEndedKeyInUse(t *testing.T) {
	s := wellState()
	d := &dataset.Dataset{ID: "shop", Keys: []dataset.KeyInfo{{ID: "k1", Revoked: noon.Add(-3 * time.Hour)}, {ID: "k2"}}}
	s.now, s.datasets, s.labels = noon, []*dataset.Dataset{d}, map[string]bool{"shop": true}
	for _, c := range []struct {
		rejected   time.Duration // ago; 0 is never
		state, use string
		series     int
	}{
		{0, "revoked", "never", 0},
		{2 * time.Minute, "revoked, still in use", "never; rejected 2 min ago", 1},
		{2 * time.Hour, "revoked", "never; rejected 2 h ago", 1},
	} {
		s.used = map[string]dataset.Use{}
		if c.rejected > 0 {
			s.used["k1"] = dataset.Use{Rejected: noon.Add(-c.rejected)}
		}
		row := keyRows(d, s)[1]
		series := 0
		s.eachEndedKey(func(id, key string, at time.Time) {
			if id == "shop" && key == "k1" && at.Equal(noon.Add(-c.rejected)) {
				series++
			}
		})
		if row.State != c.state || row.Used != c.use || series != c.series {
			t.Errorf("rejected %v ago: got %q, %q and %d series, want %q, %q and %d", c.rejected, row.State, row.Used, series, c.state, c.use, c.series)
		}
	}
}
