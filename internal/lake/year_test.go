package lake_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice/event"
	"sluice/internal/hours"
	"sluice/internal/identifier"
	"sluice/internal/lake"
	"sluice/internal/objectstore"
	"sluice/internal/submission"
)

// TestYear runs the tables through YEAR_DAYS simulated days, and compares what each operation reads at the end with what it read
// at day 30. Whatever is not asked to read everything must not read more than 1.2 times as much; make year makes 400 days.
func TestYear(t *testing.T) {
	days, commits := 45, 1
	if text := os.Getenv("YEAR_DAYS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 31 {
			t.Fatalf("YEAR_DAYS=%s: not a number above 30", text)
		}
		days, commits = n, 4
	}
	y := openYear(t)
	looks := map[int]map[string]cost{}
	t.Log("| day | operation | objects opened | KB read | processor, ms |")
	for day := 1; day <= days; day++ {
		for i := range commits {
			y.now = y.begin.AddDate(0, 0, day-1).Add(time.Duration(2+i*20/commits) * time.Hour)
			y.commit()
		}
		y.kept = append(y.kept, y.measure(y.upkeep))
		if day == 1 || day == 30 || day == 100 || day == days {
			looks[day] = y.look(day)
		}
	}
	for name, last := range looks[days] {
		first := looks[30][name]
		// A month has its own file of sums, and a table some of metadata: a few objects and 20 KB are no growth.
		if wholeRead[name] || last.opened <= first.opened*12/10+4 && last.bytes <= first.bytes*12/10+20_000 {
			continue
		}
		t.Errorf("%s: got %+v at day %d, and %+v at day 30", name, last, days, first)
	}
}

// wholeRead are the operations that read all rows, all months, or the list of all files.
var wholeRead = map[string]bool{"erase one identifier": true, "13 months of a dataset": true, "open the tables": true}

// cost is what an operation took.
type cost struct {
	opened, bytes int64
	processor     time.Duration
}

// year is tables under a simulated clock. One goroutine uses it.
type year struct {
	t             *testing.T
	store         objectstore.Store
	begin, now    time.Time
	lake          *lake.Lake
	index         *hours.Index
	to            uint64
	first         event.ID // of day 1
	submission    string   // of it
	opened, bytes atomic.Int64
	kept          []cost // of the upkeep of each day
}

func openYear(t *testing.T) *year {
	y := &year{t: t, begin: time.Date(2025, 10, 1, 0, 0, 0, 0, time.UTC)}
	y.now = y.begin
	dir, err := objectstore.OpenDir(t.TempDir())
	y.must(err)
	y.store = counted{dir, y}
	y.open()
	return y
}

func (y *year) must(err error) {
	y.t.Helper()
	if err != nil {
		y.t.Fatal(err)
	}
}

// open opens the tables as a process does that starts.
func (y *year) open() {
	l, err := lake.Open(y.t.Context(), lake.Options{Store: y.store, Now: func() time.Time { return y.now }, SnapshotRetention: time.Hour})
	y.must(err)
	y.lake, y.index = l, hours.NewIndex(l)
}

// commit adds 20 datasets with 10 events each, and their numbers.
func (y *year) commit() {
	var b lake.Batch
	for d := range 20 {
		id := fmt.Sprintf("shop-%02d", d)
		sub := submission.FormatID(submission.Batch, y.id(8, d, 0))
		if y.submission == "" {
			y.first, y.submission = y.id(7, d, 0), sub
		}
		for n := range 10 {
			b.Events = append(b.Events, event.Row{
				EventID: y.id(7, d, n), SubmissionID: sub, SubmissionIndex: int32(n), DatasetID: id, ReceivedAt: y.now.Unix(), EventTime: y.now.Unix(), EventType: "purchase",
				PartnerID: fmt.Sprint("p", y.to, "-", d, "-", n), SchemaVersion: "1",
			})
		}
		for _, name := range []string{"purchase", "search", "page_view"} {
			b.Hours = append(b.Hours, lake.Hour{Hour: y.now.Truncate(time.Hour).Unix(), DatasetID: id, Kind: hours.KindEvents, Name: name, Field: hours.FieldAccepted, Count: 10})
		}
	}
	from := lake.Watermarks{Events: y.to, Rejections: y.to, Hours: y.to}
	y.to++
	b.Spans = []lake.Span{{From: from, To: y.to}}
	y.must(y.lake.Commit(y.t.Context(), b, 0))
}

// id is a UUID of now.
func (y *year) id(version byte, a, b int) (id event.ID) {
	binary.BigEndian.PutUint64(id[:], uint64(y.now.UnixMilli())<<16)
	binary.BigEndian.PutUint32(id[10:], uint32(y.to))
	id[6], id[8], id[14], id[15] = version<<4, 0x80, byte(a), byte(b)
	return id
}

func (y *year) upkeep() {
	ctx := y.t.Context()
	for more, err := true, error(nil); more; {
		if more, err = y.lake.Compact(ctx); err == nil && !more {
			more, err = y.lake.SumDay(ctx)
		}
		y.must(err)
	}
	_, err := y.lake.Retain(ctx)
	y.must(err)
	y.must(y.lake.Expire(ctx))
	_, err = y.lake.Sweep(ctx)
	y.must(err)
	y.must(y.index.Read(ctx, y.now))
	y.index.Prune(y.now)
}

// look takes the figures of each operation.
func (y *year) look(day int) map[string]cost {
	ctx, out := y.t.Context(), map[string]cost{}
	y.must(y.index.Save(ctx))
	for _, op := range []struct {
		name string
		do   func()
	}{
		{"open the tables", y.open},
		{"start of the numbers", func() { y.must(y.index.Read(ctx, y.now)) }},
		{"a commit", y.commit},
		{"look-up of an event of day 1", func() {
			row, err := y.lake.FindEvent(ctx, y.first)
			if err != nil || row == nil {
				y.t.Fatalf("got %v %v", row, err)
			}
		}},
		{"look-up of a submission of day 1", func() {
			found, err := y.lake.FindSubmission(ctx, "shop-00", y.submission)
			if err != nil || len(found.Rows) != 10 {
				y.t.Fatalf("got %v %v", found, err)
			}
		}},
		{"export of a day", func() {
			rows := 0
			for _, err := range y.lake.Scan(ctx, lake.Query{From: y.now.Truncate(24 * time.Hour), To: y.now.Add(time.Hour)}) {
				y.must(err)
				rows++
			}
			if rows == 0 {
				y.t.Fatal("got no row")
			}
		}},
		{"30 days of a dataset", func() {
			_, err := y.index.Detail(ctx, "shop-07", hours.NewWindow(24*time.Hour, 30, y.now))
			y.must(err)
		}},
		{"13 months of a dataset", func() {
			_, err := y.index.History(ctx, "shop-07", y.now)
			y.must(err)
		}},
		{"erase one identifier", func() {
			_, err := y.lake.Erase(ctx, lake.Choice{
				Kinds: []identifier.Kind{identifier.Partner},
				Match: identifier.ID{Kind: identifier.Partner, Value: fmt.Sprint("p", day, "-3-3")}.In,
			}, nil)
			y.must(err)
		}},
	} {
		out[op.name] = y.measure(op.do)
	}
	var sum cost // of ten days: files are compacted when there are enough of them
	for _, c := range y.kept[max(0, len(y.kept)-10):] {
		sum = cost{sum.opened + c.opened, sum.bytes + c.bytes, sum.processor + c.processor}
	}
	out["upkeep of ten days"] = sum
	for _, name := range slices.Sorted(maps.Keys(out)) {
		c := out[name]
		y.t.Logf("| %d | %s | %d | %.1f | %.1f |", day, name, c.opened, float64(c.bytes)/1000, c.processor.Seconds()*1000)
	}
	return out
}

// measure is what something costs.
func (y *year) measure(do func()) cost {
	y.opened.Store(0)
	y.bytes.Store(0)
	before := processorTime(y.t)
	do()
	return cost{y.opened.Load(), y.bytes.Load(), processorTime(y.t) - before}
}

func processorTime(t *testing.T) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// counted is a store that counts what is read.
type counted struct {
	objectstore.Store
	y *year
}

func (c counted) Open(ctx context.Context, name string) (objectstore.Object, error) {
	o, err := c.Store.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	c.y.opened.Add(1)
	return countedObject{o, c.y}, nil
}

func (c counted) Read(ctx context.Context, name string) ([]byte, error) {
	b, err := c.Store.Read(ctx, name)
	c.y.opened.Add(1)
	c.y.bytes.Add(int64(len(b)))
	return b, err
}

func (c counted) Sub(name string) objectstore.Store { return counted{c.Store.Sub(name), c.y} }

type countedObject struct {
	objectstore.Object
	y *year
}

func (o countedObject) ReadAt(p []byte, at int64) (int, error) {
	n, err := o.Object.ReadAt(p, at)
	o.y.bytes.Add(int64(n))
	return n, err
}
