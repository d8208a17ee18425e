package hours

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/campaign"
	"sluice/internal/lake"
	"sluice/internal/objectstore"
)

// counting is a store that counts what is read.
type counting struct {
	objectstore.Store
	opened, bytes *atomic.Int64
}

func (c counting) Open(ctx context.Context, name string) (objectstore.Object, error) {
	o, err := c.Store.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	c.opened.Add(1)
	return countingObject{o, c.bytes}, nil
}

func (c counting) Read(ctx context.Context, name string) ([]byte, error) {
	b, err := c.Store.Read(ctx, name)
	c.opened.Add(1)
	c.bytes.Add(int64(len(b)))
	return b, err
}

func (c counting) Sub(name string) objectstore.Store {
	return counting{c.Store.Sub(name), c.opened, c.bytes}
}

type countingObject struct {
	objectstore.Object
	bytes *atomic.Int64
}

func (o countingObject) ReadAt(p []byte, at int64) (int, error) {
	n, err := o.Object.ReadAt(p, at)
	o.bytes.Add(int64(n))
	return n, err
}

// world is tables that a loader fills, and an index of them.
type world struct {
	t             *testing.T
	rand          *rand.Rand
	dir           string
	now           time.Time
	lake          *lake.Lake
	index         *Index
	rows          []lake.Hour
	to            uint64
	crash         int // at how many steps from now; 0 is never
	opened, bytes atomic.Int64
}

var errCrash = errors.New("crash")

func newWorld(t *testing.T, seed uint64, from time.Time) *world {
	w := &world{t: t, rand: rand.New(rand.NewPCG(seed, 4)), dir: t.TempDir(), now: from}
	w.open()
	return w
}

// open opens the tables as a process does that starts.
func (w *world) open() {
	dir, err := objectstore.OpenDir(w.dir)
	w.must(err)
	w.lake, err = lake.Open(w.t.Context(), lake.Options{
		Store: counting{dir, &w.opened, &w.bytes}, Now: func() time.Time { return w.now },
		Step: func(string) error {
			if w.crash > 0 {
				if w.crash--; w.crash == 0 {
					return errCrash
				}
			}
			return nil
		},
	})
	w.must(err)
	w.index = NewIndex(w.lake)
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) read() {
	w.t.Helper()
	w.must(w.index.Read(w.t.Context(), w.now))
}

// commit adds rows to the tables.
func (w *world) commit(rows []lake.Hour) {
	w.t.Helper()
	from := lake.Watermarks{Events: w.to, Rejections: w.to, Hours: w.to}
	w.to++
	w.must(w.lake.Commit(w.t.Context(), lake.Batch{Spans: []lake.Span{{From: from, To: w.to}}, Hours: rows}, 0))
	w.rows = append(w.rows, rows...)
}

// some are rows of now, and late ones.
func (w *world) some(late int) (rows []lake.Hour) {
	for range 1 + w.rand.IntN(20) {
		at := w.now
		if w.rand.IntN(5) == 0 {
			at = at.Add(-time.Duration(w.rand.IntN(late)) * time.Hour)
		}
		r := lake.Hour{Hour: at.Truncate(time.Hour).Unix(), DatasetID: fmt.Sprint("shop-", w.rand.IntN(4)), Count: 1 + w.rand.Int64N(9)}
		switch w.rand.IntN(6) {
		case 5:
			r.Kind, r.Name, r.Field = campaign.KindEvents, fmt.Sprint("spring-", w.rand.IntN(3)), []string{"purchase", "search"}[w.rand.IntN(2)]
		case 4:
			r.Kind, r.Name, r.Field, r.Count = campaign.KindNames, fmt.Sprint("spring-", w.rand.IntN(3)), fmt.Sprint("Spring ", w.rand.IntN(9)), 0
			r.Value = float64(r.Hour + w.rand.Int64N(3600))
		case 0:
			r.Kind, r.Name, r.Field = KindRejections, "MISSING_FIELD", []string{"/value", "/timestamp"}[w.rand.IntN(2)]
			r.Value = float64(w.rand.Int64N(r.Count + 1))
		case 1:
			r.Kind, r.Name, r.Field, r.Value = KindValue, "EUR", TypePurchase, float64(w.rand.IntN(4000))/4
		default:
			r.Kind, r.Name = KindEvents, []string{"purchase", "search"}[w.rand.IntN(2)]
			r.Field = []string{FieldAccepted, FieldAccepted, FieldLate, FieldSuppressed}[w.rand.IntN(4)]
		}
		rows = append(rows, r)
	}
	return rows
}

// upkeep compacts and sums until there is nothing left to do, or the process is killed.
func (w *world) upkeep() error {
	for {
		more, err := w.lake.Compact(w.t.Context())
		if err == nil && !more {
			more, err = w.lake.SumDay(w.t.Context())
		}
		if err != nil || !more {
			return err
		}
	}
}

// same says that two sums are equal but for their last digits.
func same(a, b float64) bool { return math.Abs(a-b) <= 1e-9*(1+math.Abs(a)+math.Abs(b)) }

// check compares everything that is shown with a plain sum.
func (w *world) check(what string) {
	w.t.Helper()
	w.read()
	for i := range 5 {
		id := fmt.Sprint("shop-", i)
		if i == 4 {
			id = ""
		}
		history, err := w.index.History(w.t.Context(), id, w.now)
		w.must(err)
		for name, win := range map[string]Window{
			"day": NewWindow(time.Hour, 24, w.now), "week": NewWindow(time.Hour, 7*24, w.now),
			"month": NewWindow(24*time.Hour, 30, w.now), "year": NewWindow(24*time.Hour, 396, w.now),
		} {
			want := w.plain(id, win)
			w.equal(fmt.Sprint(what, ": ", id, " history ", name), history, win, want)
			detail, err := w.index.Detail(w.t.Context(), id, win)
			w.must(err)
			w.equal(fmt.Sprint(what, ": ", id, " detail ", name), detail, win, want)
			if id != "" {
				campaigns, err := w.index.Campaigns(w.t.Context(), id, win)
				w.must(err)
				if want := w.plainCampaigns(id, win); !reflect.DeepEqual(campaigns, want) {
					w.t.Errorf("%s: %s campaigns %s: got %+v, want %+v", what, id, name, campaigns, want)
				}
			}
			v := w.index.View()
			if id != "" && win.fine() {
				if got := v.Dataset(id).Totals(win); got != want.Totals(win) {
					w.t.Errorf("%s: %s in memory, %s: got %+v, want %+v", what, id, name, got, want.Totals(win))
				}
			}
			if id != "" && name == "day" {
				w.equal(fmt.Sprint(what, ": ", id, " in memory"), v.Dataset(id), win, want)
			}
			v.Close()
		}
	}
}

// plain is the numbers of a window of all rows, added up.
func (w *world) plain(id string, win Window) *Dataset {
	d := newDataset()
	for i := range w.rows {
		if r := &w.rows[i]; (id == "" || r.DatasetID == id) && r.Hour >= win.From && r.Hour < win.To() {
			d.addHour(r, 0)
		}
	}
	return d
}

// plainCampaigns are the campaigns of a window of all rows.
func (w *world) plainCampaigns(id string, win Window) []campaign.Campaign {
	var sums campaign.Sums
	for i := range w.rows {
		if r := &w.rows[i]; campaign.Is(r.Kind) && r.DatasetID == id && r.Hour >= win.From && r.Hour < win.To() {
			sums.Add(lake.CampaignSum(r))
		}
	}
	return sums.Campaigns()
}

func (w *world) equal(what string, got *Dataset, win Window, want *Dataset) {
	w.t.Helper()
	if g, x := got.Totals(win), want.Totals(win); g != x {
		w.t.Errorf("%s: got %+v, want %+v", what, g, x)
	}
	if g, x := fmt.Sprint(shownGroups(got.Types(win))), fmt.Sprint(shownGroups(want.Types(win))); g != x {
		w.t.Errorf("%s: got types %s, want %s", what, g, x)
	}
	g, x := got.Reasons(win), want.Reasons(win)
	if len(g) != len(x) {
		w.t.Fatalf("%s: got %d reasons, want %d", what, len(g), len(x))
	}
	for i := range g {
		g[i].series, x[i].series = nil, nil
		if g[i] != x[i] {
			w.t.Errorf("%s: got %+v, want %+v", what, g[i], x[i])
		}
	}
	gm, xm := 0.0, 0.0
	for _, r := range got.Revenue(win) {
		gm += r.Net()
	}
	for _, r := range want.Revenue(win) {
		xm += r.Net()
	}
	if !same(gm, xm) {
		w.t.Errorf("%s: got %v, want %v of money", what, gm, xm)
	}
}

func shownGroups(groups []Group) (out []string) {
	for _, g := range groups {
		out = append(out, fmt.Sprint(g.Name, g.Count))
	}
	return out
}

// Console, stats and alarms show what the rows add up to: while days end, hours come late, processes are killed between any two
// steps of upkeep, and others start with or without a saved index.
func TestNumbersAreThoseOfTheRows(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, seed, time.Date(2026, 10, 20, 22, 10, 0, 0, time.UTC))
			killed := 0
			for i := range 50 {
				switch w.rand.IntN(7) {
				case 0, 1, 2:
					w.commit(w.some(300))
				case 3:
					w.now = w.now.Add(time.Duration(w.rand.IntN(40)) * time.Hour)
					w.index.Prune(w.now)
				case 4:
					w.crash = w.rand.IntN(20)
					err := w.upkeep()
					w.crash = 0
					if errors.Is(err, errCrash) {
						killed++
						w.open()
					} else {
						w.must(err)
					}
				case 5:
					w.open()
				case 6:
					w.read()
					w.must(w.index.Save(t.Context()))
				}
				if i%5 == 0 {
					w.check(fmt.Sprint("step ", i))
				}
			}
			w.must(w.upkeep())
			w.check("at the end")
			w.open()
			w.check("after a start")
		})
	}
}

// A saved index that is torn, or of another version, is not used.
func TestDamagedSavedIndex(t *testing.T) {
	w := newWorld(t, 1, time.Date(2026, 11, 3, 10, 0, 0, 0, time.UTC))
	w.commit(w.some(100))
	w.check("at first")
	w.must(w.index.Save(t.Context()))
	for _, change := range []func([]byte) []byte{
		func(b []byte) []byte { return b[:len(b)/2] },
		func(b []byte) []byte { return nil },
		func(b []byte) []byte { b[len(b)-9] ^= 1; return b },
	} {
		var b []byte
		for slot := range lake.NumbersSlots {
			in, err := w.lake.OpenNumbers(t.Context(), slot)
			if err != nil {
				continue
			}
			b = make([]byte, in.Size())
			if _, err := in.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			w.must(in.Close())
			w.must(w.lake.SaveNumbers(t.Context(), slot, func(out io.Writer) error { _, err := out.Write(change(b)); return err }))
		}
		w.open()
		w.check("with a damaged one")
		w.must(w.index.Save(t.Context()))
	}
}

// What a start reads, and a page of one dataset, does not grow with the number of days.
func TestStartDoesNotGrow(t *testing.T) {
	w := newWorld(t, 2, time.Date(2025, 10, 1, 1, 0, 0, 0, time.UTC))
	days := 400
	if testing.Short() {
		days = 100
	}
	type cost struct{ opened, bytes int64 }
	measured := map[int]cost{}
	for day := range days {
		w.now = w.now.Truncate(24 * time.Hour).Add(25 * time.Hour) // one o'clock: the day before is over for less than an hour
		w.now = w.now.Add(time.Hour)
		w.commit(w.some(20))
		w.must(w.upkeep())
		if day == 30 || day == days-1 {
			w.read()
			w.must(w.index.Save(t.Context()))
			w.open()
			w.opened.Store(0)
			w.bytes.Store(0)
			w.read()
			if !w.index.Complete() {
				t.Error("it is not complete")
			}
			measured[day] = cost{w.opened.Load(), w.bytes.Load()}
		} else if day%10 == 0 {
			w.must(w.lake.Expire(t.Context()))
			_, err := w.lake.Sweep(t.Context())
			w.must(err)
			w.read()
		}
	}
	first, last := measured[30], measured[days-1]
	t.Logf("a start reads %d objects and %d bytes at day 30, %d and %d at day %d", first.opened, first.bytes, last.opened, last.bytes, days)
	// The saved index has some bytes for each day, and for each number of all datasets together.
	if last.opened > first.opened+2 || last.bytes > first.bytes+int64(days)*100 {
		t.Errorf("a start reads %+v at day %d, %+v at day 30", last, days, first)
	}
	w.opened.Store(0)
	w.check("at the end")
	w.opened.Store(0)
	_, err := w.index.History(t.Context(), "shop-9", w.now)
	w.must(err)
	if n := w.opened.Load(); n > 40 {
		t.Errorf("a page of a dataset opens %d objects, want some for each month and each day of a week", n)
	}
}
