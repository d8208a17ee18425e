package measure

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/event"
	"sluice/internal/demo"
	"sluice/internal/measure"
)

// demoRows are the events of the demo's dataset shop as they are stored, of its two weeks.
func demoRows(t *testing.T) (out []event.Row) {
	t.Helper()
	const seed = 1 // of cmd/sluice
	now := time.Date(2026, 11, 14, 12, 0, 0, 0, time.UTC)
	story := demo.NewStory(seed, now.Unix())
	for hour := range int64(demo.Days * 24) {
		for _, text := range story.Senders[0].Hour(hour, now.Unix()) {
			var d event.Decoder
			res, problem := d.Decode(text, event.Single, event.Policy{DatasetID: "shop"}, time.Unix(story.Begin+hour*3600+3599, 0))
			if problem != nil {
				t.Fatal(problem)
			}
			for _, row := range res.Rows {
				n := len(out)
				copy(row.EventID[12:], []byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
				row.SubmissionID = "single.x"
				out = append(out, row)
			}
		}
	}
	return out
}

// The questions to the demo have the answers that docs/measure.md gives, and no view is empty.
func TestDemoPage(t *testing.T) {
	content, err := os.ReadFile("../../docs/measure.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(content)
	d := openDuck(t, demoRows(t), nil, false, "Asia/Tokyo")
	dialect, _ := measure.LookupDialect("duckdb")
	text, err := measure.Statements(dialect, measure.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	d.exec(text)
	for _, view := range []string{"conversions", "refunds", "campaign_days", "attributions", "attribution_days"} {
		if d.table("SELECT count(*) > 100 AS many FROM "+view) != "| many |\n|---|\n| true |" {
			t.Errorf("%s has too few rows", view)
		}
	}
	queries := regexp.MustCompile(`<!-- demo: (\S+) -->`).FindAllStringSubmatch(page, -1)
	if len(queries) < 3 {
		t.Fatalf("got %d questions, want at least 3", len(queries))
	}
	for _, q := range queries {
		if got, want := d.table(block(t, page, "demo: "+q[1])), strings.TrimSpace(block(t, page, "demo answer: "+q[1])); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", q[1], got, want)
		}
	}
}
