package alarm

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/event"
	"sluice/internal/api"
	"sluice/internal/cluster"
	"sluice/internal/dataset"
	"sluice/internal/durable"
	"sluice/internal/hours"
	"sluice/internal/lake"
)

var noon = time.Date(2026, 7, 30, 12, 0, 0, 0, time.UTC)

func wellState() *State {
	s := &State{Now: noon, Started: noon.Add(-time.Hour), Datasets: []*dataset.Dataset{{Spec: dataset.Spec{ID: "shop"}}}, Disk: durable.Disk{Free: 50 << 30, Size: 100 << 30}}
	s.Engine.Healthy, s.Stream.Ready, s.Registry.Synced = true, true, noon
	return s
}

// indexed is an index of tables that have rows.
func indexed(t *testing.T, rows ...lake.Hour) *hours.Index {
	l, err := lake.OpenDir(t.Context(), t.TempDir(), lake.Options{Now: func() time.Time { return noon }})
	if err == nil {
		err = l.Commit(t.Context(), lake.Batch{Spans: []lake.Span{{To: 1}}, Hours: rows}, 0)
	}
	x := hours.NewIndex(l)
	if err == nil {
		err = x.Read(t.Context(), noon)
	}
	if err != nil {
		t.Fatal(err)
	}
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
			view := indexed(t, c.rows...).View()
			defer view.Close()
			s.Datasets, s.Used = []*dataset.Dataset{&c.set}, uses
			s.found = *findDatasets(view, s)
			var got []string
			for _, a := range s.Raised() {
				got = append(got, a.Name+": "+a.Say)
				if a.Class != "warn" || a.Do == "" || a.Path == "" || a.Subject != "shop" {
					t.Errorf("got %+v", a)
				}
			}
			if strings.Join(got, "|") != c.want {
				t.Errorf("got %q, want %q", got, c.want)
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
	s.Datasets = []*dataset.Dataset{{Spec: dataset.Spec{ID: "shop"}}}
	look := func(accepted int64, rows ...lake.Hour) string {
		view := indexed(t, append(rows, hourRow(0, "shop", hours.KindEvents, "purchase", hours.FieldAccepted, accepted, 0))...).View()
		defer view.Close()
		s.found = *findDatasets(view, s)
		said := ""
		for _, a := range s.Raised() {
			if a.Name != "SluiceConsentNotRead" || a.Path != DiagnosisPath("shop") || a.Do == "" {
				t.Errorf("got %+v", a)
			}
			said += a.Say
		}
		if unread := s.Unread(); (len(unread) > 0) != (said != "") || len(unread) > 0 && (unread[0].Dataset != "shop" || unread[0].Say != said || len(unread[0].Codes) == 0) {
			t.Errorf("got %+v beside %q", unread, said)
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

// Alarms about the last minutes begin and end with what the counters do, not with what they add up to.
func TestRates(t *testing.T) {
	var r rates
	look := func(minute int, requests, errs uint64, slow uint64) []string {
		s := wellState()
		s.Now = noon.Add(time.Duration(minute) * time.Minute)
		s.Registry.Synced = s.Now
		s.API.Routes = []api.RouteStats{{Method: "POST", Statuses: []api.StatusCount{{Status: 200, Count: requests - errs}, {Status: 503, Count: errs}}}}
		s.Stream.Latency[len(s.Stream.Latency)-1] = slow
		s.last5, s.last10, s.last60 = r.since(s, 5), r.since(s, 10), r.since(s, 60)
		r.look(s)
		var names []string
		for _, a := range s.Raised() {
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
		s.Datasets, s.Cluster = []*dataset.Dataset{{Spec: dataset.Spec{ID: "shop"}}}, c.nodes
		s.API.Datasets = []api.DatasetStats{{DatasetID: "shop", Failing: c.st}}
		if c.lasted {
			s.found.failingSince = map[string]time.Time{"shop": noon.Add(-3 * time.Hour)}
		}
		for i, rows := range [][]lake.Hour{c.before, c.after} {
			if i == 0 && c.nodes == nil {
				continue
			}
			view := indexed(t, rows...).View()
			s.found = *findDatasets(view, s)
			view.Close()
		}
		if got := len(s.found.failing) == 1; got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
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
		s.Datasets = []*dataset.Dataset{{Spec: dataset.Spec{ID: "shop"}}}
		view := indexed(t, c.rows...).View()
		s.found = *findDatasets(view, s)
		view.Close()
		got := ""
		for _, a := range s.Raised() {
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
	got := s.Raised()
	if len(got) != alarmMost+1 || got[alarmMost].Subject != otherAlarms || got[0].Subject != "d0" {
		t.Errorf("got %d alarms, the last one %+v", len(got), got[len(got)-1])
	}
}
