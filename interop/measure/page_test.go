package measure

import (
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/event"
	"sluice/internal/measure"
)

// block is the text after a comment of docs/measure.md such as <!-- query: sold -->, without the fence.
func block(t *testing.T, page, comment string) string {
	t.Helper()
	_, rest, ok := strings.Cut(page, "<!-- "+comment+" -->\n")
	if !ok {
		t.Fatalf("docs/measure.md has no %q", comment)
	}
	if rest, fenced := strings.CutPrefix(rest, "```"); fenced {
		_, rest, _ = strings.Cut(rest, "\n")
		rest, _, _ = strings.Cut(rest, "```")
		return rest
	}
	rest, _, _ = strings.Cut(rest, "\n\n")
	return rest
}

// exampleRows are the events of the page as they are stored.
func exampleRows(t *testing.T, page string) (out []event.Row) {
	t.Helper()
	text := block(t, page, "example: events")
	for _, name := range []string{"ANA", "BEN", "HOME"} {
		sum := sha256.Sum256([]byte(strings.ToLower(name)))
		text = strings.ReplaceAll(text, `"`+name+`"`, `"`+hex.EncodeToString(sum[:])+`"`)
	}
	var d event.Decoder
	for line := range strings.Lines(text) {
		res, problem := d.Decode(strings.TrimSpace(line), event.Single, event.Policy{DatasetID: "shop"}, time.Date(2026, 11, 14, 12, 0, 0, 0, time.UTC))
		if problem != nil || len(res.Rows) != 1 || len(res.Warnings) > 0 {
			t.Fatalf("%s: got %v, %+v", line, problem, res)
		}
		row := res.Rows[0]
		row.EventID[15], row.SubmissionID = byte(len(out)), "single.x"
		out = append(out, row)
	}
	return out
}

// Every question of docs/measure.md has the answer that the page gives.
func TestPage(t *testing.T) {
	content, err := os.ReadFile("../../docs/measure.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(content)
	d := openDuck(t, exampleRows(t, page), nil, false, "Asia/Tokyo")
	dialect, _ := measure.LookupDialect("duckdb")
	text, err := measure.Statements(dialect, measure.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	d.exec(text)
	queries := regexp.MustCompile(`<!-- query: (\S+) -->`).FindAllStringSubmatch(page, -1)
	if len(queries) < 7 {
		t.Fatalf("got %d questions, want at least 7", len(queries))
	}
	for _, q := range queries {
		if got, want := d.table(block(t, page, "query: "+q[1])), strings.TrimSpace(block(t, page, "answer: "+q[1])); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", q[1], got, want)
		}
	}
}

// table is the answer to a query as the page shows it.
func (d duck) table(query string) string {
	d.t.Helper()
	rows, err := d.QueryContext(d.t.Context(), query)
	if err != nil {
		d.t.Fatalf("%v\n%s", err, query)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		d.t.Fatal(err)
	}
	out := []string{"| " + strings.Join(names, " | ") + " |", "|" + strings.Repeat("---|", len(names))}
	var wrapped []string
	for _, name := range names {
		wrapped = append(wrapped, `coalesce("`+name+`"::VARCHAR, '')`)
	}
	rows.Close()
	all, err := d.QueryContext(d.t.Context(), "SELECT "+strings.Join(wrapped, ", ")+" FROM ("+strings.TrimSuffix(strings.TrimSpace(query), ";")+")")
	if err != nil {
		d.t.Fatal(err)
	}
	defer all.Close()
	for all.Next() {
		cells := make([]sql.NullString, len(names))
		into := make([]any, len(names))
		for i := range cells {
			into[i] = &cells[i]
		}
		if err := all.Scan(into...); err != nil {
			d.t.Fatal(err)
		}
		line := "|"
		for _, c := range cells {
			line += strings.TrimRight(" "+c.String, " ") + " |"
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}
