package console

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/internal/alarm"
	"sluice/internal/dataset"
)

var update = flag.Bool("update", false, "write the files that are made from tables")

// The published files are what the tables say. go test ./internal/console -run TestPublished -update writes them.
func TestPublished(t *testing.T) {
	for name, want := range map[string][]byte{
		"../../docs/metrics.md": metricsPage(), "../../deploy/alerts.yml": alertRules(), "../../deploy/grafana.json": dashboard(),
	} {
		if *update {
			if err := os.WriteFile(name, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
		} else if !bytes.Equal(got, want) {
			t.Errorf("%s is not what its table says: run make generate", name)
		}
	}
}

// Every alarm has its entry in the runbook, and the runbook has none that is not an alarm.
func TestRunbook(t *testing.T) {
	b, err := os.ReadFile("../../docs/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	entries := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^### (Sluice\w+)$`).FindAllSubmatch(b, -1) {
		entries[string(m[1])] = true
	}
	for i := range alarm.Alarms {
		if !entries[alarm.Alarms[i].Name] {
			t.Errorf("docs/operate.md has no entry for %s", alarm.Alarms[i].Name)
		}
		delete(entries, alarm.Alarms[i].Name)
	}
	for name := range entries {
		t.Errorf("docs/operate.md speaks of %s, which is no alarm", name)
	}
}

// Rules, dashboard and table speak of the same metrics.
func TestMetricNames(t *testing.T) {
	known := map[string]bool{}
	for i := range Metrics {
		m := &Metrics[i]
		if known[m.Name] {
			t.Errorf("%s is in the table twice", m.Name)
		}
		known[m.Name] = true
		if m.Type == counter != strings.HasSuffix(m.Name, "_total") {
			t.Errorf("%s: a counter ends in _total, and nothing else does", m.Name)
		}
		if m.Type == distribution {
			known[m.Name+"_bucket"] = true
		}
	}
	text := string(alertRules()) + string(dashboard())
	for _, name := range regexp.MustCompile(`sluice_[a-z_]+`).FindAllString(text, -1) {
		if !known[name] {
			t.Errorf("%s is used and not in the table", name)
		}
	}
	if !json.Valid(dashboard()) {
		t.Error("the dashboard is not JSON")
	}
}

// promtool, of the real Prometheus, takes the rules.
func TestRulesByPromtool(t *testing.T) {
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Fatal("no promtool: run make setup")
	}
	if out, err := exec.Command(path, "check", "rules", "../../deploy/alerts.yml").CombinedOutput(); err != nil {
		t.Errorf("check rules: %v\n%s", err, out)
	}
	if out, err := exec.Command(path, "check", "config", "../../deploy/prometheus.yml").CombinedOutput(); err != nil {
		t.Errorf("check config: %v\n%s", err, out)
	}
}

// A real Prometheus scrapes the running service: every series is taken, the rules are evaluated, none fires, and
// the numbers are those of the service.
func TestScrapeByPrometheus(t *testing.T) {
	path, err := exec.LookPath("prometheus")
	if err != nil {
		t.Fatal("no prometheus: run make setup")
	}
	s := openService(t)
	s.dataset(dataset.Spec{ID: "shop"})
	s.post("shop", "/v1/events", plainEvent("shop"))
	s.post("shop", "/v1/events", `{"data_set_id":"shop"}`)
	s.follow("optimizer")
	dir := t.TempDir()
	rules, err := filepath.Abs("../../deploy/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%q]\nscrape_configs:\n- job_name: sluice\n  static_configs: [{targets: [%q]}]\n",
		rules, strings.TrimPrefix(s.url, "http://"))
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	addr := freeAddr(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "db"), "--web.listen-address="+addr, "--log.level=error")
	var words bytes.Buffer
	cmd.Stdout, cmd.Stderr = &words, &words
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); _ = cmd.Wait() }()
	ask := func(query string) string {
		resp, err := http.Get("http://" + addr + "/api/v1/query?query=" + url.QueryEscape(query))
		if err != nil {
			return ""
		}
		defer resp.Body.Close()
		var answer struct {
			Data struct {
				Result []struct{ Value [2]any }
			}
		}
		if json.NewDecoder(resp.Body).Decode(&answer) != nil || len(answer.Data.Result) == 0 {
			return ""
		}
		return fmt.Sprint(answer.Data.Result[0].Value[1])
	}
	end := time.Now().Add(30 * time.Second)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for ask(`sluice_events_accepted_total{dataset="shop"}`) != "1" {
		if time.Now().After(end) {
			t.Fatalf("no scrape in time:\n%s", words.String())
		}
		<-tick.C
	}
	for query, want := range map[string]string{
		`up{job="sluice"}`: "1", `sluice_ready`: "1", `sluice_events_rejected_total{dataset="shop"}`: "1", `sluice_http_rejections_total{code="MISSING_FIELD"}`: "1",
		`sluice_http_requests_total{route="/v1/events",status="200"}`: "1", `sluice_stream_append_seconds_count > bool 0`: "1", `sluice_audit_intact`: "1",
		serverErrorShare: "0",
		`count(ALERTS{alertstate="firing",alertname!="SluiceDiskLow"}) or vector(0)`: "0",
	} {
		if got := ask(query); got != want {
			t.Errorf("%s: got %q, want %q", query, got, want)
		}
	}
	// Every metric of the table that needs no rare event is there.
	for i := range Metrics {
		name := Metrics[i].Name
		switch name {
		case "sluice_alarm", "sluice_key_expires_timestamp_seconds", "sluice_key_rejected_timestamp_seconds", "sluice_requests_limited_total", "sluice_consent_unread_ratio":
			continue
		case "sluice_cluster_watermark", "sluice_objectstore_requests_total": // they need a cluster and a bucket
			continue
		case "sluice_engine_storage_free_bytes", "sluice_engine_storage_limit_bytes": // they need an account with a limit
			continue
		}
		if Metrics[i].Type == distribution {
			name += "_count"
		}
		for ask("count("+name+")") == "" {
			if time.Now().After(end) {
				t.Fatalf("%s was not scraped", name)
			}
			<-tick.C
		}
	}
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// plainEvent is an event that every dataset takes.
func plainEvent(id string) string {
	return fmt.Sprintf(`{"data_set_id":%q,"timestamp":%d,"event_type":"purchase","identifiers":{"ifa":"97987bca-ae59-4c7d-94ba-ee4f19ab8c21"}}`, id, time.Now().Unix()-60)
}
