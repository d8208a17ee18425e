package readers

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"sluice/event"
	"sluice/internal/lake"
)

var noon = time.Date(2026, 11, 14, 12, 0, 0, 0, time.UTC)

// setting is a number from the environment.
func setting(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: got %q, want a number", name, text)
	}
	return n
}

// Random histories of a lake read alike through every reader: as what was sent, minus what was erased or has expired.
// HISTORIES is how many are tried, SEED the first of them.
func TestHistories(t *testing.T) {
	seed := setting(t, "SEED", uint64(time.Now().UnixNano())%1_000_000)
	for i := range setting(t, "HISTORIES", 10) {
		t.Run(fmt.Sprint("seed ", seed+i), func(t *testing.T) {
			t.Parallel()
			h := begin(t, seed+i)
			for !h.ended() && !t.Failed() {
				h.step()
			}
			if t.Failed() {
				t.Logf("repeat with: make readers HISTORIES=1 SEED=%d\nhistory:\n%s", seed+i, h.log)
			}
		})
	}
}

// retain is how long the histories keep rows. It is whole days: rows go by the day of their receipt.
const retain = 20 * 24 * time.Hour

// history is a lake with what it must hold.
type history struct {
	t      *testing.T
	make   *maker
	dir    string
	now    time.Time
	lake   *lake.Lake
	left   int // steps
	log    string
	sent   []event.Row
	rows   map[string]Row // events by their id
	others map[string][]Row
}

// newHistory opens an empty lake.
func newHistory(t *testing.T, seed uint64) *history {
	h := &history{
		t: t, make: &maker{Rand: rand.New(rand.NewPCG(seed, 3))}, dir: t.TempDir(), now: noon, rows: map[string]Row{}, others: map[string][]Row{},
	}
	h.open()
	return h
}

// begin opens a lake and fills it.
func begin(t *testing.T, seed uint64) *history {
	h := newHistory(t, seed)
	h.left = 5 + h.make.IntN(6)
	for range 3 { // by one writer: what it keeps from file to file must not show
		h.commit()
	}
	h.check("committed")
	return h
}

func (h *history) ended() bool { return h.left == 0 }

func (h *history) note(format string, args ...any) { h.log += fmt.Sprintf(format, args...) + "\n" }

func (h *history) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatalf("%v\nhistory:\n%s", err, h.log)
	}
}

func (h *history) open() {
	l, err := openLake(h.t.Context(), settings{
		dir: h.dir, now: func() time.Time { return h.now }, retain: retain, bytes: []int64{0, 64 << 10}[h.make.IntN(2)],
	})
	h.must(err)
	h.lake = l
	h.note("open")
}

// step does one thing at random. The last one is followed by a check.
func (h *history) step() {
	h.left--
	switch h.make.IntN(9) {
	case 0, 1:
		h.commit()
	case 8:
		h.sum()
	case 2:
		h.compact()
	case 3:
		h.erase()
	case 4:
		h.now = h.now.Add(time.Duration(1+h.make.IntN(72)) * time.Hour)
		h.note("now %s", h.now)
		h.must(h.lake.Expire(h.t.Context()))
		h.note("expire")
	case 5:
		n, err := h.lake.Sweep(h.t.Context())
		h.must(err)
		h.note("sweep: %d files", n)
	case 6:
		h.open()
	case 7:
		h.retain()
	}
	if h.left == 0 {
		h.check("at the end")
	}
}

// commit adds rows: few more often than many.
func (h *history) commit() {
	m := h.make
	n := int(math.Pow(5000, m.Float64()))
	if m.IntN(12) == 0 {
		n = 0
	}
	datasets, days := 1+m.IntN(4), 1+m.IntN(3)
	from := h.now.Add(-time.Duration(24*days) * time.Hour)
	events, rejections, hours := m.events(n, datasets, days, from), m.rejections(m.IntN(1+n/4), days, from), m.hours(m.IntN(1+n/4), datasets, days, from)
	h.add(events, rejections, hours)
	h.note("commit: %d events of %d datasets and %d days, %d rejections, %d hours", n, datasets, days, len(rejections), len(hours))
}

// add commits rows, and notes them.
func (h *history) add(events []event.Row, rejections []lake.Rejection, hours []lake.Hour) {
	for i := range events {
		row := eventRow(&events[i])
		h.rows[row["event_id"].(string)] = row
	}
	for i := range rejections {
		h.others["rejections"] = append(h.others["rejections"], rejectionRow(&rejections[i]))
	}
	for i := range hours {
		h.others["hours"] = append(h.others["hours"], hourRow(&hours[i]))
	}
	h.sent = append(h.sent, events...)
	h.must(commit(h.t.Context(), h.lake, events, rejections, hours))
}

func (h *history) compact() {
	n := 0
	for more := true; more; n++ {
		var err error
		more, err = h.lake.Compact(h.t.Context())
		h.must(err)
		if n > 1000 {
			h.t.Fatalf("compaction does not end\nhistory:\n%s", h.log)
		}
	}
	h.note("compact: %d times", n-1)
}

// sum makes the sums of the days that are over.
func (h *history) sum() {
	for more := true; more; {
		var err error
		more, err = h.lake.SumDay(h.t.Context())
		h.must(err)
	}
	h.note("sum")
}

// sums are the hours of the days that are over, added up.
func (h *history) sums() []Row { return sumsOf(h.others["hours"], h.now) }

func sumsOf(hours []Row, now time.Time) (out []Row) {
	by := map[string]Row{}
	end := now.Add(-65*time.Minute).UnixMicro() / microsPerDay * microsPerDay // so long a day has been over
	for _, r := range hours {
		hour := r["hour"].(int64)
		day := hour / microsPerDay * microsPerDay
		if day >= end {
			continue
		}
		key := fmt.Sprint(day, r["data_set_id"], r["kind"], r["name"], r["field"])
		sum := by[key]
		if sum == nil {
			sum = Row{"day": day, "count": int64(0), "value": 0.0, "first_hour": hour, "last_hour": hour}
			for _, same := range []string{"data_set_id", "kind", "name", "field"} {
				sum[same] = r[same]
			}
			by[key] = sum
			out = append(out, sum)
		}
		sum["count"], sum["value"] = sum["count"].(int64)+r["count"].(int64), sum["value"].(float64)+r["value"].(float64)
		sum["first_hour"], sum["last_hour"] = min(sum["first_hour"].(int64), hour), max(sum["last_hour"].(int64), hour)
	}
	return out
}

// erase takes away every row that carries an identifier of one of them.
func (h *history) erase() {
	if len(h.sent) == 0 {
		return
	}
	one := h.sent[h.make.IntN(len(h.sent))]
	column, value := "", ""
	switch {
	case one.PartnerID != "":
		column, value = "partner_id", one.PartnerID
	case one.EmailSHA256 != "":
		column, value = "email_sha256", one.EmailSHA256
	case one.IPSHA256 != "":
		column, value = "ip_sha256", one.IPSHA256
	default:
		return
	}
	var want int64
	for id, row := range h.rows {
		if row[column] == value {
			delete(h.rows, id)
			want++
		}
	}
	got, err := erase(h.t.Context(), h.lake, column, value)
	h.must(err)
	h.note("erase by %s: %d rows", column, want)
	if got != want {
		h.t.Errorf("erase by %s: got %d rows, want %d", column, got, want)
	}
}

// retain drops the days that are over.
func (h *history) retain() {
	h.now = h.now.Add(time.Duration(h.make.IntN(15)) * 24 * time.Hour)
	h.add(h.make.events(1, 1, 1, h.now), nil, nil) // ages count from the newest receipt
	oldest := h.now.Add(-retain).Unix() / 86400
	expired := func(row Row) bool { return row["received_at"].(int64)/microsPerDay < oldest }
	for id, row := range h.rows {
		if expired(row) {
			delete(h.rows, id)
		}
	}
	h.others["rejections"] = slices.DeleteFunc(h.others["rejections"], expired)
	n, err := h.lake.Retain(h.t.Context())
	h.must(err)
	h.note("now %s; retain: %d rows", h.now, n)
}

// check reads everything with every reader.
func (h *history) check(when string) {
	h.t.Helper()
	h.sum()
	src := source(h.t, h.lake, h.dir)
	want := map[string][]Row{"rejections": h.others["rejections"], "hours": h.others["hours"], "days": h.sums()}
	for _, row := range h.rows {
		want["events"] = append(want["events"], row)
	}
	report, err := Check(h.t.Context(), src, want)
	h.must(err)
	h.note("check %s: %d events in %d files", when, len(want["events"]), len(src.Files["events"]))
	if !report.Empty() {
		h.t.Errorf("%s:\n%s", when, report)
	}
}
