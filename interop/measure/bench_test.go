//go:build bench

package measure

import (
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/event"
	"sluice/internal/lake"
	"sluice/internal/measure"
)

// market is events of many people over sixty days: four datasets with ten campaigns each. Of the events 40 % are conversions
// and refunds, 6 % of these are reported twice; one person in five comes from an address that hundreds share.
type market struct {
	*rand.Rand
	people int
	n      uint64
	orders []event.Row // the last ones, which refunds are of
}

const (
	marketDays  = 60
	heavyPeople = 20
)

var marketBegin = time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC).Unix()

// marketTypes are the events that are no impressions, by how many of a hundred they are.
var marketTypes = []struct {
	name  string
	until int
}{
	{"purchase", 25}, {"sign_up", 33}, {"generate_lead", 38}, {"refund", 40}, {"page_view", 70}, {"viewed_item", 85}, {"add_to_cart", 100},
}

func hashOf(kind string, n int) string {
	sum := sha256.Sum256(binary.LittleEndian.AppendUint64([]byte(kind), uint64(n)))
	return hex.EncodeToString(sum[:])
}

// row is an event of a person on a day.
func (m *market) row(kind string, person, day int) event.Row {
	m.n++
	r := event.Row{
		SubmissionID: "batch.x", DatasetID: "shop-" + strconv.Itoa(person%4), EventType: kind, SchemaVersion: "1.0",
		ReceivedAt: marketBegin + int64(day)*86400 + int64(m.IntN(86400)), Source: "web", PageURL: "https://shop.example/p/" + strconv.Itoa(m.IntN(5000)),
		CampaignID: "c" + strconv.Itoa(m.IntN(10)), CampaignName: "Campaign", OptimizationEligible: true,
	}
	binary.BigEndian.PutUint64(r.EventID[:], m.Uint64())
	binary.BigEndian.PutUint64(r.EventID[8:], m.n)
	r.EventTime = r.ReceivedAt - int64(m.IntN(3600))
	if m.IntN(10) < 6 {
		r.EmailSHA256 = hashOf("person", person)
	}
	if m.IntN(10) < 4 {
		r.IFA = fmt.Sprintf("%08x-0000-4000-8000-%012x", person, person)
	}
	if m.IntN(10) < 8 {
		home := m.people + person/2
		if person%5 == 0 {
			home = person % 1000
		}
		r.IPSHA256 = hashOf("home", home)
	}
	switch m.IntN(20) {
	case 0:
		r.Privacy, r.OptimizationEligible = event.MeasurementOnly, false
	case 1:
		r.Privacy, r.OptimizationEligible, r.CampaignID, r.CampaignName = event.Suppressed, false, "", ""
		r.EmailSHA256, r.IFA, r.IPSHA256, r.PageURL = "", "", "", ""
	}
	return r
}

// bought adds what a purchase or a refund has. Every tenth has an id of its own only.
func (m *market) bought(r *event.Row, order int) {
	r.Value, r.HasValue, r.CurrencyCode = float64(m.IntN(20000))/100, true, []string{"EUR", "USD"}[order%2]
	switch {
	case r.Privacy == event.Suppressed:
	case order%10 == 0:
		r.SenderEventID = "e-" + strconv.Itoa(order)
	default:
		r.OrderID = "order-" + strconv.Itoa(order)
		r.CustomData = `{"order_id":"` + r.OrderID + `","items":` + strconv.Itoa(1+m.IntN(9)) + `,"channel":"web"}`
	}
}

// day is the events and impressions of a day.
func (m *market) day(day, events, impressions int) []event.Row {
	out := make([]event.Row, 0, events+impressions)
	for range impressions {
		out = append(out, m.row("ad_impression", m.IntN(m.people), day))
	}
	for len(out) < cap(out) {
		pick, kind := m.IntN(100), ""
		for _, t := range marketTypes {
			if pick < t.until {
				kind = t.name
				break
			}
		}
		r := m.row(kind, m.IntN(m.people), day)
		switch kind {
		case "purchase":
			m.bought(&r, int(m.n))
			if r.OrderID != "" {
				m.orders = append(m.orders, r)[max(0, len(m.orders)-4096):]
			}
			if m.IntN(100) < 6 && len(out) < cap(out)-1 {
				out = append(out, r)
				m.n++
				binary.BigEndian.PutUint64(r.EventID[8:], m.n)
				r.ReceivedAt++
			}
		case "refund":
			m.bought(&r, int(m.n))
			if len(m.orders) > 0 && m.IntN(10) > 0 { // else of an order that nobody reported
				order := &m.orders[m.IntN(len(m.orders))]
				r.DatasetID, r.OrderID, r.CurrencyCode = order.DatasetID, order.OrderID, order.CurrencyCode
			}
		}
		out = append(out, r)
	}
	return out
}

// heavy is what few people do, who see and buy more than anybody: 5,000 impressions and 2,000 purchases each.
func (m *market) heavy() (out []event.Row) {
	for person := range heavyPeople {
		for i := range 7000 {
			kind := "ad_impression"
			if i >= 5000 {
				kind = "purchase"
			}
			r := m.row(kind, person, m.IntN(marketDays))
			r.Privacy, r.EmailSHA256, r.IFA = event.Unrestricted, hashOf("person", person), fmt.Sprintf("%08x-0000-4000-8000-%012x", person, person)
			if kind == "purchase" {
				m.bought(&r, int(m.n))
			}
			out = append(out, r)
		}
	}
	return out
}

// BenchmarkViews reads every view whole in DuckDB, with 2 threads and 2 GB, over the events of a market in the files of a lake;
// then attributions and attribution_days once more with few people who see and buy more than anybody.
// EVENTS is how many events (10,000,000), with a tenth as many impressions. LAKE is a directory for the tables; what is there
// already is read as it is.
func BenchmarkViews(b *testing.B) {
	events, err := strconv.Atoi(os.Getenv("EVENTS"))
	if err != nil {
		events = 10_000_000
	}
	dir := os.Getenv("LAKE")
	if dir == "" {
		dir = b.TempDir()
	}
	m := &market{rand.New(rand.NewPCG(32, 7)), events / 5, 0, nil}
	usual := marketFiles(b, filepath.Join(dir, "usual"), func(commit func([]event.Row)) {
		for day := range marketDays {
			commit(m.day(day, events/marketDays, events/marketDays/10))
		}
	})
	more := marketFiles(b, filepath.Join(dir, "heavy"), func(commit func([]event.Row)) { commit(m.heavy()) })
	b.Run("usual", func(b *testing.B) { readViews(b, usual, measure.Names()...) })
	b.Run("heavy", func(b *testing.B) { readViews(b, append(usual, more...), "attributions", "attribution_days") })
}

// marketFiles are the files of a lake; fill fills it, if it is new.
func marketFiles(b *testing.B, dir string, fill func(commit func([]event.Row))) []string {
	b.Helper()
	l, err := lake.OpenDir(b.Context(), dir, lake.Options{Now: time.Now})
	if err != nil {
		b.Fatal(err)
	}
	out, err := l.Files(b.Context(), "events")
	if err != nil {
		b.Fatal(err)
	}
	if len(out) > 0 {
		return out
	}
	fill(func(rows []event.Row) {
		marks, err := l.Watermarks(b.Context(), 0)
		if err != nil {
			b.Fatal(err)
		}
		if err := l.Commit(b.Context(), lake.Batch{Spans: []lake.Span{{From: marks, To: marks.Events + 1}}, Events: rows}, 0); err != nil {
			b.Fatal(err)
		}
	})
	if out, err = l.Files(b.Context(), "events"); err != nil {
		b.Fatal(err)
	}
	return out
}

// readViews reads views whole, each with a DuckDB of its own, and prints a line of figures for each.
func readViews(b *testing.B, files []string, views ...string) {
	dialect, _ := measure.LookupDialect("duckdb")
	statements, err := measure.Statements(dialect, measure.Defaults())
	if err != nil {
		b.Fatal(err)
	}
	for _, view := range views {
		b.Run(view, func(b *testing.B) {
			db, err := sql.Open("duckdb", "")
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			db.SetMaxOpenConns(1)
			d := duck{db, b}
			profile := filepath.Join(b.TempDir(), "profile.json")
			d.exec("SET threads = 2; SET memory_limit = '2GB'; SET temp_directory = '" + b.TempDir() + "'")
			d.exec("CREATE VIEW events AS FROM read_parquet(['" + strings.Join(files, "', '") + "'], hive_partitioning = false, union_by_name = true)")
			d.exec(statements)
			d.exec("PRAGMA enable_profiling = 'json'; PRAGMA profiling_output = '" + profile + "'")
			// Of the process: DuckDB reports up to twice its limit for its buffers, and has not taken it.
			if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0o200); err != nil { // the peak begins anew
				b.Fatal(err)
			}
			for b.Loop() {
				var rows, sum uint64
				if err := db.QueryRowContext(b.Context(), "SELECT count(*), bit_xor(hash(v)) FROM "+view+" v").Scan(&rows, &sum); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(rows), "rows")
			}
			text, err := os.ReadFile(profile)
			if err != nil {
				b.Fatal(err)
			}
			var used struct {
				Spill float64 `json:"system_peak_temp_dir_size"`
				CPU   float64 `json:"cpu_time"`
			}
			if err := json.Unmarshal(text, &used); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(used.CPU, "cpu-s")
			b.ReportMetric(peakMemory(b)/1e6, "MB")
			b.ReportMetric(used.Spill/1e6, "spilled-MB")
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s")
		})
	}
}

// peakMemory is the most memory that this process has taken since the peak was cleared, in bytes.
func peakMemory(b *testing.B) float64 {
	b.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "VmHWM:")
	var kilobytes float64
	if _, err := fmt.Sscan(after, &kilobytes); err != nil {
		b.Fatal(err)
	}
	return kilobytes * 1024
}
