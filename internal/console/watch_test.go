package console

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/internal/alarm"
	"sluice/internal/dataset"
)

// TestPlatformSwitches sends events as a consent platform writes them from one day on: the first page, Diagnosis and the
// metric say so.
func TestPlatformSwitches(t *testing.T) {
	s := openService(t)
	s.dataset(dataset.Spec{ID: "shop"})
	until(t, "the tables are read", s.console.s.Hours.Complete)
	one := fmt.Sprintf(`{"data_set_id":"shop","timestamp":%d,"event_type":"page_view","identifiers":{"email_sha256":%q},"privacy":{"gpp_string":"DBABLA~DVVVAAAAAAFU","gpp_sid":[7]}}`,
		time.Now().Unix(), strings.Repeat("0a", 32))
	s.post("shop", "/v1/events/batch", "["+strings.Repeat(one+",", 19)+one+"]")
	until(t, "the accepted events", func() bool { return figuresOf(s, "/").Accepted == 20 })
	s.console.alarms.Search(&s.console.look().State) // as Run does every ten seconds
	const say = "100 % have GPP_VERSION_UNKNOWN (20)"
	for _, path := range []string{"/", "/diagnosis", alarm.DiagnosisPath("shop")} {
		if _, page := s.read(path); !strings.Contains(page, say) {
			t.Errorf("%s does not say %q: %s", path, say, page)
		}
	}
	if _, page := s.read("/metrics"); !strings.Contains(page, `sluice_consent_unread_ratio{code="GPP_VERSION_UNKNOWN",dataset="shop"} 1`) {
		t.Errorf("got %s", page)
	}
}

// A new dataset shows how to send its first event. Once all of its events are rejected, the first page says so.
func TestNewDataset(t *testing.T) {
	s := openService(t)
	s.dataset(dataset.Spec{ID: "shop"})
	until(t, "the tables are read", s.console.s.Hours.Complete)
	if _, page := s.read(alarm.DatasetPath("shop")); !strings.Contains(page, "Waiting for the first event") || !strings.Contains(page, "curl -H") || !strings.Contains(page, s.apiURL+"/v1/events") {
		t.Errorf("got %s", page)
	}
	const rejectedFew = 5
	for range rejectedFew {
		s.post("shop", "/v1/events", `{"data_set_id":"shop"}`)
	}
	until(t, "the rejected events", func() bool { return figuresOf(s, "/").Rejected == rejectedFew })
	s.console.alarms.Search(&s.console.look().State) // as Run does every ten seconds
	if _, page := s.read("/"); strings.Contains(page, "All is well") || !strings.Contains(page, "Dataset shop: 100") || !strings.Contains(page, "events per hour, time in UTC") {
		t.Errorf("got %s", page)
	}
	status, answer := s.post("shop", "/v1/events", fmt.Sprintf(`{"data_set_id":"shop","timestamp":%d,"event_type":"purchase","identifiers":{"ifa":"0f8fad5b-d9cb-469f-a165-70867728950e"}}`, time.Now().Unix()))
	if status != 200 {
		t.Fatalf("got %d %s", status, answer)
	}
	until(t, "the first event", func() bool {
		_, page := s.read(alarm.DatasetPath("shop"))
		return !strings.Contains(page, "Waiting for the first event")
	})
}

// A key that has ended and is still presented is marked on its dataset's page and has a series of its own.
func TestEndedKeyInUse(t *testing.T) {
	s := wellState()
	d := &dataset.Dataset{Spec: dataset.Spec{ID: "shop"}, Keys: []dataset.KeyInfo{{ID: "k1", Revoked: noon.Add(-3 * time.Hour)}, {ID: "k2"}}}
	s.Now, s.Datasets, s.labels = noon, []*dataset.Dataset{d}, map[string]bool{"shop": true}
	for _, c := range []struct {
		rejected   time.Duration // ago; 0 is never
		state, use string
		series     int
	}{
		{0, "revoked", "never", 0},
		{2 * time.Minute, "revoked, still in use", "never; rejected 2 min ago", 1},
		{2 * time.Hour, "revoked", "never; rejected 2 h ago", 1},
	} {
		s.Used = map[string]dataset.Use{}
		if c.rejected > 0 {
			s.Used["k1"] = dataset.Use{Rejected: noon.Add(-c.rejected)}
		}
		row := keyRows(d, s)[1]
		series := 0
		perKey(false, keyRejected)(s, func(at float64, labels ...string) {
			if labels[0] == "shop" && labels[1] == "k1" && at == unix(noon.Add(-c.rejected)) {
				series++
			}
		})
		if row.State != c.state || row.Used != c.use || series != c.series {
			t.Errorf("rejected %v ago: got %q, %q and %d series, want %q, %q and %d", c.rejected, row.State, row.Used, series, c.state, c.use, c.series)
		}
	}
}
