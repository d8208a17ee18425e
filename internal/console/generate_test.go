package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"sluice/internal/alarm"
)

// What is made from the tables of metrics and alarms. The files in docs/ and deploy/ are these bytes; a test says so
// and, asked to, writes them.

// metricsPage is docs/metrics.md.
func metricsPage() []byte {
	var b bytes.Buffer
	b.WriteString("# Metrics\n\n" +
		"<!-- Made from the table in internal/console/metric.go: change it there and run make generate. -->\n\n" +
		"`GET /metrics` on the operators' listener gives these out, in the text format and in OpenMetrics, beside those of the Go\n" +
		"runtime (`go_*`) and the process (`process_*`). They are read from memory when Prometheus asks; counting costs an event nothing more.\n" +
		"Counters begin at zero when the process does.\n\n" +
		fmt.Sprintf("The label `dataset` has at most %d values a node; datasets beyond that are summed up as `%s`. `GET /metrics?dataset=ID`, which may name several, gives series of their own to these datasets alone. No label ever holds a value from an event.\n\n", datasetLabels, otherDatasets) +
		"| name | type | labels | meaning |\n|---|---|---|---|\n")
	for i := range Metrics {
		m := &Metrics[i]
		labels := "–"
		if len(m.Labels) > 0 {
			labels = "`" + strings.Join(m.Labels, "` `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, m.Type, labels, m.Help)
	}
	b.WriteString("\n## Alarms\n\nThe rules in `deploy/alerts.yml` are made from the same table as the alarms on the console's first page. " +
		"What to do about each is in [operate.md](operate.md#runbook).\n\n| alarm | severity | lasts | meaning |\n|---|---|---|---|\n")
	for i := range alarm.Alarms {
		a := &alarm.Alarms[i]
		fmt.Fprintf(&b, "| [%s](operate.md#%s) | %s | %s | %s |\n", a.Name, strings.ToLower(a.Name), a.Severity, a.For, a.Summary)
	}
	return b.Bytes()
}

// alertRules is deploy/alerts.yml.
func alertRules() []byte {
	var b bytes.Buffer
	b.WriteString("# Prometheus alert rules, made from the table in internal/alarm/alarm.go: change it there and run make generate.\n" +
		"# The scrape job is expected to be named sluice.\ngroups:\n  - name: sluice\n    rules:\n")
	for i := range alarm.Alarms {
		a := &alarm.Alarms[i]
		fmt.Fprintf(&b, "      - alert: %s\n        expr: %s\n        for: %s\n        labels:\n          severity: %s\n        annotations:\n"+
			"          summary: %s\n          description: %s\n          runbook: docs/operate.md#%s\n",
			a.Name, quote(expression(a)), a.For, a.Severity, quote(alertSummary(a)), quote(a.Do), strings.ToLower(a.Name))
	}
	return b.Bytes()
}

// expression is that of an alarm in deploy/alerts.yml. What the page sees Prometheus sees as the page does.
func expression(a *alarm.Alarm) string {
	switch {
	case a.Expr != "":
		return a.Expr
	case a.Each != nil: // every node of a cluster says so
		return fmt.Sprintf(`max by (alarm, dataset) (sluice_alarm{alarm=%q}) == 1`, a.Name)
	}
	return fmt.Sprintf(`sluice_alarm{alarm=%q} == 1`, a.Name)
}

// alertSummary is the summary of an alarm in deploy/alerts.yml. It names the dataset where the alarm has one.
func alertSummary(a *alarm.Alarm) string {
	if a.Each == nil {
		return a.Summary
	}
	return "{{ $labels.dataset }}: " + a.Summary
}

// quote writes a YAML string: JSON's strings are among them.
func quote(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return strings.TrimSpace(b.String())
}

// panel is one picture of the dashboard.
type panel struct {
	title, unit string
	width       int // of 24
	queries     [][2]string
}

// serverErrorShare is 0 where no request ended in a 5xx, and where there was no request: a series that does not exist
// would leave the panel empty.
const serverErrorShare = `(sum(rate(sluice_http_requests_total{status=~"5.."}[5m])) or vector(0)) / clamp_min(sum(rate(sluice_http_requests_total[5m])) or vector(0), 1e-9)`

// panels in rows, from what matters most to what explains it.
var panels = []struct {
	row    string
	panels []panel
}{
	{"Is all well?", []panel{
		{"Ready", "bool_yes_no", 4, [][2]string{{"min(sluice_ready)", "ready"}}},
		{"Oldest event not stored", "s", 5, [][2]string{{"max(sluice_load_backlog_seconds)", "waiting"}}},
		{"Free on disk", "percentunit", 5, [][2]string{{"min(sluice_disk_free_bytes / sluice_disk_size_bytes)", "free"}}},
		{"Damaged or missing frames", "short", 5, [][2]string{{"max(sluice_load_damaged_frames) + max(sluice_load_missing_frames)", "frames"}}},
		{"Share of 5xx", "percentunit", 5, [][2]string{{serverErrorShare, "5xx"}}},
	}},
	{"Events", []panel{
		{"Events per second", "short", 12, [][2]string{
			{"sum(rate(sluice_events_accepted_total[1m]))", "accepted"},
			{"sum(rate(sluice_events_rejected_total[1m]))", "rejected"},
			{"sum(rate(sluice_events_late_total[1m]))", "late"},
			{"sum(rate(sluice_events_restricted_total[1m]))", "restricted"},
			{"sum(rate(sluice_events_suppressed_total[1m]))", "suppressed"},
		}},
		{"Rejected share, worst ten datasets", "percentunit", 12, [][2]string{{"topk(10, sum by (dataset) (rate(sluice_events_rejected_total[15m])) / (sum by (dataset) (rate(sluice_events_rejected_total[15m])) + sum by (dataset) (rate(sluice_events_accepted_total[15m]))))", "{{dataset}}"}}},
		{"Accepted, ten largest datasets", "short", 12, [][2]string{{"topk(10, sum by (dataset) (rate(sluice_events_accepted_total[5m])))", "{{dataset}}"}}},
		{"Rejected requests by code", "short", 12, [][2]string{{"sum by (code) (rate(sluice_http_rejections_total[5m]))", "{{code}}"}}},
	}},
	{"API", []panel{
		{"Requests per second", "reqps", 8, [][2]string{{"sum by (route, status) (rate(sluice_http_requests_total[1m]))", "{{route}} {{status}}"}}},
		{"Time to answer, 99 %", "s", 8, [][2]string{{"histogram_quantile(0.99, sum by (le, route) (rate(sluice_http_request_seconds_bucket[5m])))", "{{route}}"}}},
		{"Bytes in flight", "bytes", 8, [][2]string{{"sluice_http_in_flight_bytes", "{{instance}}"}, {"sluice_http_in_flight_limit_bytes", "limit {{instance}}"}}},
	}},
	{"Stream", []panel{
		{"Time to stable storage", "s", 8, [][2]string{
			{"histogram_quantile(0.5, sum by (le) (rate(sluice_stream_append_seconds_bucket[5m])))", "half"}, {"histogram_quantile(0.99, sum by (le) (rate(sluice_stream_append_seconds_bucket[5m])))", "99 %"},
		}},
		{"Stored bytes", "bytes", 8, [][2]string{{"max by (partition) (sluice_stream_stored_bytes)", "partition {{partition}}"}}},
		{"Rejected by the stream", "short", 8, [][2]string{{"sum by (reason) (rate(sluice_stream_rejected_total[5m]))", "{{reason}}"}}},
	}},
	{"Lake", []panel{
		{"Backlog", "s", 8, [][2]string{{"sluice_load_backlog_seconds", "{{instance}}"}}},
		{"Rows", "short", 8, [][2]string{{"max by (table) (sluice_lake_rows)", "{{table}}"}}},
		{"Small files waiting for compaction", "short", 8, [][2]string{{"max by (table) (sluice_lake_small_files)", "{{table}}"}}},
	}},
}

// dashboard is deploy/grafana.json.
func dashboard() []byte {
	var list []map[string]any
	y, id := 0, 1
	source := map[string]any{"type": "prometheus", "uid": "${source}"}
	for _, row := range panels {
		list = append(list, map[string]any{"id": id, "type": "row", "title": row.row, "gridPos": map[string]int{"x": 0, "y": y, "w": 24, "h": 1}, "panels": []any{}})
		y, id = y+1, id+1
		height, kind := 8, "timeseries"
		if row.row == panels[0].row {
			height, kind = 4, "stat"
		}
		x := 0
		for _, p := range row.panels {
			if x+p.width > 24 {
				x, y = 0, y+height
			}
			var targets []map[string]any
			for i, q := range p.queries {
				targets = append(targets, map[string]any{"refId": string(rune('A' + i)), "expr": q[0], "legendFormat": q[1], "datasource": source})
			}
			list = append(list, map[string]any{
				"id": id, "type": kind, "title": p.title, "datasource": source, "targets": targets,
				"gridPos":     map[string]int{"x": x, "y": y, "w": p.width, "h": height},
				"fieldConfig": map[string]any{"defaults": map[string]any{"unit": p.unit, "min": 0}, "overrides": []any{}},
			})
			x, id = x+p.width, id+1
		}
		y += height
	}
	board := map[string]any{
		"title": "Sluice", "uid": "sluice", "tags": []string{"sluice"}, "timezone": "utc", "schemaVersion": 39, "refresh": "10s", "editable": true,
		"time":       map[string]string{"from": "now-6h", "to": "now"},
		"templating": map[string]any{"list": []any{map[string]any{"name": "source", "label": "Source", "type": "datasource", "query": "prometheus"}}},
		"panels":     list,
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	_ = e.Encode(board) // plain maps always encode
	return b.Bytes()
}
