// Package table reads what Sluice wrote with programs that Sluice did not write.
package table

import (
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	_ "github.com/duckdb/duckdb-go/v2"

	"sluice/event"
	"sluice/internal/identifier"
	"sluice/internal/lake"
	"sluice/internal/submission"
)

var noon = time.Date(2026, 11, 14, 12, 0, 0, 0, time.UTC)

var texts = []string{
	"", "plain", "żółć", "🛒 emoji \U0001F9FE", "quote \" and ' and , and \t", "line\nbreak", "\u2028\u2029", "null", "0",
	strings.Repeat("long ", 300), "\x01",
}

// varied makes rows that between them have every column present and absent, and every odd value.
func varied(n int) []event.Row {
	r := rand.New(rand.NewPCG(7, 7))
	text := func() string { return texts[r.IntN(len(texts))] }
	hash := func() string {
		if r.IntN(3) == 0 {
			return ""
		}
		b := make([]byte, 32)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return hex.EncodeToString(b)
	}
	var out []event.Row
	for i := range n {
		at := noon.Add(time.Duration(i) * time.Minute)
		base := submission.NewBase(at)
		row := event.Row{
			EventID: submission.EventID(base, int32(i)), SubmissionID: submission.FormatID(submission.Batch, base),
			SubmissionIndex: int32(i), ReceivedAt: at.Unix(), DatasetID: fmt.Sprint("shop-", i%7),
			EventTime: at.Unix() - int64(r.IntN(30*86400)), EventType: "purchase",
			CustomEventName: text(), Source: text(), CampaignID: text(), CampaignName: text(), Referer: text(), PageURL: text(),
			CurrencyCode: "EUR", EmailSHA256: hash(), IFA: text(), IPSHA256: hash(), PartnerID: text(), GPPString: text(),
			USPrivacyString: text(), Privacy: event.Outcome(i % 3), Late: i%2 == 0, MeasurementOnly: i%5 == 0,
			OptimizationEligible: i%4 == 0, SchemaVersion: "1.0", SenderEventID: text(), OrderID: text(),
		}
		if i%3 > 0 {
			row.HasValue = true
			row.Value = []float64{0, -1.5, 1e300, math.SmallestNonzeroFloat64, 0.1}[r.IntN(5)]
		}
		if i%3 == 1 {
			row.GPPSID = []int32{7, -1, math.MaxInt32}[:1+r.IntN(3)]
		}
		if i%2 == 1 {
			row.CustomData = `{"a":[1,2.50,"żółć"],"b":{"c":true}}`
		}
		out = append(out, row)
	}
	return out
}

func open(t *testing.T, dir string, now *time.Time) *lake.Lake {
	t.Helper()
	l, err := lake.OpenDir(t.Context(), dir, lake.Options{Now: func() time.Time { return *now }})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func duck(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if _, err := db.Exec("SET TimeZone='UTC'"); err != nil {
		t.Fatal(err)
	}
	return db
}

// from is the SQL that names a table's files.
func from(t *testing.T, l *lake.Lake, table string) string {
	t.Helper()
	files, err := l.Files(t.Context(), table)
	if err != nil {
		t.Fatal(err)
	}
	return "read_parquet(['" + strings.Join(files, "','") + "'])"
}

const columns = `event_id::VARCHAR, submission_id, submission_index, epoch_us(received_at), data_set_id, epoch_us(event_time),
	event_type, custom_event_name, source, cp_id, cp_name, referer, page_url, value, currency_code, email_sha256, ifa,
	ip_sha256, partner_id, gpp_string, gpp_sid::VARCHAR, us_privacy_string, privacy, late, mmt_only, optimization_eligible,
	custom_data, schema_version, sender_event_id, order_id`

// readAll reads the events table by DuckDB.
func readAll(t *testing.T, db *sql.DB, source string) map[string]event.Row {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT "+columns+" FROM "+source)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	out := map[string]event.Row{}
	for rows.Next() {
		var r event.Row
		var id, privacy string
		var received, happened int64
		var value sql.NullFloat64
		var email, ip []byte
		var sections sql.NullString
		var opt [14]sql.NullString
		err := rows.Scan(
			&id, &r.SubmissionID, &r.SubmissionIndex, &received, &r.DatasetID, &happened, &r.EventType, &opt[0], &opt[1],
			&opt[2], &opt[3], &opt[4], &opt[5], &value, &opt[6], &email, &opt[7], &ip, &opt[8], &opt[9], &sections, &opt[10],
			&privacy, &r.Late, &r.MeasurementOnly, &r.OptimizationEligible, &opt[11], &r.SchemaVersion, &opt[12], &opt[13],
		)
		if err != nil {
			t.Fatal(err)
		}
		if received%1e6 != 0 || happened%1e6 != 0 {
			t.Fatalf("got times %d and %d, want whole seconds", received, happened)
		}
		r.EventID, _ = event.ParseID(id)
		r.ReceivedAt, r.EventTime = received/1e6, happened/1e6
		r.Value, r.HasValue = value.Float64, value.Valid
		r.EmailSHA256, r.IPSHA256 = hex.EncodeToString(email), hex.EncodeToString(ip)
		r.Privacy, _ = event.ParseOutcome(privacy)
		for i, dst := range []*string{
			&r.CustomEventName, &r.Source, &r.CampaignID, &r.CampaignName, &r.Referer, &r.PageURL, &r.CurrencyCode, &r.IFA,
			&r.PartnerID, &r.GPPString, &r.USPrivacyString, &r.CustomData, &r.SenderEventID, &r.OrderID,
		} {
			if opt[i].Valid && opt[i].String == "" {
				t.Fatal("got an empty text, want null")
			}
			*dst = opt[i].String
		}
		r.GPPSID = parseList(t, sections)
		out[id] = r
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func parseList(t *testing.T, s sql.NullString) (out []int32) {
	t.Helper()
	if !s.Valid {
		return nil
	}
	for f := range strings.SplitSeq(strings.Trim(s.String, "[]"), ", ") {
		var n int32
		if _, err := fmt.Sscan(f, &n); err != nil {
			t.Fatalf("list %q: %v", s.String, err)
		}
		out = append(out, n)
	}
	return out
}

// What was committed, what our own reader reads and what DuckDB reads is the same, row for row: fresh from the
// loader, compacted, and after an erasure.
func TestDuckDBReadsEveryRow(t *testing.T) {
	now := noon
	dir := t.TempDir()
	l := open(t, dir, &now)
	rows := varied(3000)
	for i := range 10 {
		commit(t, l, rows[300*i:300*i+300])
	}
	rows[1234].PartnerID = "marked"
	commit(t, l, rows[1234:1235]) // the same event id twice: only the erasure below takes one away
	want := map[string]event.Row{}
	for _, r := range rows {
		want[r.EventID.String()] = r
	}
	delete(want, rows[1234].EventID.String())
	db := duck(t)
	check := func(stage string) {
		t.Helper()
		got := readAll(t, db, from(t, l, "events"))
		delete(got, rows[1234].EventID.String())
		if len(got) != len(want) {
			t.Fatalf("%s: got %d rows, want %d", stage, len(got), len(want))
		}
		for id, w := range want {
			if !reflect.DeepEqual(got[id], w) {
				t.Fatalf("%s: got\n%+v, want\n%+v", stage, got[id], w)
			}
		}
	}
	check("fresh")
	now = noon.Add(96 * time.Hour)
	for more := true; more; {
		var err error
		if more, err = l.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	check("compacted")
	// Why docs/tables.md warns of it: files lie in the directory for a day after others have replaced them.
	var n int
	err := db.QueryRow("SELECT count(*) FROM read_parquet('" + filepath.Join(dir, "events/data/*/*.parquet") + "')").Scan(&n)
	if err != nil || n <= len(rows)+1 {
		t.Errorf("got %d rows, %v by a query over the directory, want more than the %d that are stored", n, err, len(rows)+1)
	}
	if done, err := l.Erase(t.Context(), lake.Choice{Kinds: []identifier.Kind{identifier.Partner}, Match: identifier.ID{Kind: identifier.Partner, Value: "marked"}.In}, nil); err != nil || done.Rows != 1 {
		t.Fatalf("got %+v, %v, want one row erased", done, err)
	}
	check("erased")
}

func commit(t *testing.T, l *lake.Lake, rows []event.Row) {
	t.Helper()
	marks, err := l.Watermarks(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	err = l.Commit(t.Context(), lake.Batch{
		Spans: []lake.Span{{From: marks, To: marks.Events + 1}}, Events: rows,
		Rejections: []lake.Rejection{{ReceivedAt: rows[0].ReceivedAt, DatasetID: "shop-1", Code: "MISSING_FIELD", Field: "/timestamp", Count: 3, Events: 2}},
		Hours:      []lake.Hour{{Hour: rows[0].ReceivedAt / 3600 * 3600, DatasetID: "shop-1", Kind: "events", Name: "purchase", Field: "accepted", Count: 4, Value: 0.5}},
	}, 0)
	if err != nil {
		t.Fatal(err)
	}
}

// Types are what a reader expects: it needs no cast for times, identifiers, hashes and lists.
func TestDuckDBSeesTypes(t *testing.T) {
	now := noon
	l := open(t, t.TempDir(), &now)
	commit(t, l, varied(10))
	now = noon.Add(48 * time.Hour)
	for more := true; more; {
		var err error
		if more, err = l.SumDay(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	db := duck(t)
	for table, want := range map[string]map[string]string{
		"events": {
			"event_id": "UUID", "received_at": "TIMESTAMP WITH TIME ZONE", "event_time": "TIMESTAMP WITH TIME ZONE",
			"email_sha256": "BLOB", "ip_sha256": "BLOB", "gpp_sid": "INTEGER[]", "value": "DOUBLE", "late": "BOOLEAN",
			"submission_index": "INTEGER", "custom_data": "VARCHAR", "privacy": "VARCHAR",
		},
		"rejections": {"received_at": "TIMESTAMP WITH TIME ZONE", "submission_id": "VARCHAR", "count": "BIGINT", "events": "BIGINT"},
		"hours":      {"hour": "TIMESTAMP WITH TIME ZONE", "count": "BIGINT", "value": "DOUBLE"},
		"days":       {"day": "TIMESTAMP WITH TIME ZONE", "count": "BIGINT", "value": "DOUBLE", "first_hour": "TIMESTAMP WITH TIME ZONE"},
	} {
		got := map[string]string{}
		rows, err := db.QueryContext(context.Background(), "SELECT column_name, column_type FROM (DESCRIBE SELECT * FROM "+from(t, l, table)+")")
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var name, typ string
			if err := rows.Scan(&name, &typ); err != nil {
				t.Fatal(err)
			}
			got[name] = typ
		}
		for name, typ := range want {
			if got[name] != typ {
				t.Errorf("%s.%s: got %s, want %s", table, name, got[name], typ)
			}
		}
		rows.Close()
	}
	var count, events int64
	if err := db.QueryRow("SELECT sum(count), sum(events) FROM "+from(t, l, "rejections")+" WHERE submission_id IS NULL").Scan(&count, &events); err != nil || count != 3 || events != 2 {
		t.Errorf("got %d, %d, %v, want 3 and 2", count, events, err)
	}
}
