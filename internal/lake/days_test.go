package lake

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// sumKey is what tells a number of a day from others.
type sumKey struct {
	day                        int64
	dataset, kind, name, field string
}

type sumOf struct {
	count, first, last int64
	value              float64
}

// plainSums adds rows up, those of days before end.
func plainSums(rows []Hour, end int64) map[sumKey]sumOf {
	out := map[sumKey]sumOf{}
	for _, h := range rows {
		day := h.Hour - h.Hour%secondsPerDay
		if day >= end {
			continue
		}
		k := sumKey{day, h.DatasetID, h.Kind, h.Name, h.Field}
		s, ok := out[k]
		if !ok {
			s = sumOf{first: h.Hour, last: h.Hour}
		}
		s.count, s.value, s.first, s.last = s.count+h.Count, s.value+h.Value, min(s.first, h.Hour), max(s.last, h.Hour)
		out[k] = s
	}
	return out
}

// storedSums is the table of sums, which has each number once.
func storedSums(t *testing.T, l *Lake) map[sumKey]sumOf {
	t.Helper()
	out := map[sumKey]sumOf{}
	err := l.ScanDays(t.Context(), NumberQuery{}, func(d *DaySum) error {
		k := sumKey{d.Day, d.DatasetID, d.Kind, d.Name, d.Field}
		if _, twice := out[k]; twice {
			return fmt.Errorf("%+v is there twice", k)
		}
		out[k] = sumOf{d.Count, d.First, d.Last, d.Value}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// sumAll sums until there is nothing left to sum.
func sumAll(t *testing.T, l *Lake) {
	t.Helper()
	for {
		more, err := l.SumDay(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			return
		}
	}
}

// Sums by day are those of the hours, whenever a sum is ended and wherever else one runs, and also where hours of a day that is
// summed come later.
func TestSumsByDay(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			h := &sumHistory{t: t, rand: rand.New(rand.NewPCG(seed, 9)), dir: t.TempDir(), now: time.Date(2026, 10, 25, 5, 0, 0, 0, time.UTC)}
			for i := range h.nodes {
				h.open(i)
			}
			for range 60 {
				h.step()
			}
			h.crash = 0
			h.open(0)
			compactAll(t, h.nodes[0])
			sumAll(t, h.nodes[0])
			end := h.now.Add(-summedAfter).Unix()
			if got, want := storedSums(t, h.nodes[0]), plainSums(h.rows, end-end%secondsPerDay); !maps.Equal(got, want) {
				t.Errorf("got %d sums, want %d others\n%s", len(got), len(want), h.log)
			}
			if h.crashes == 0 || h.late == 0 {
				t.Errorf("got %d crashes and %d late hours, want some", h.crashes, h.late)
			}
		})
	}
}

// sumHistory is what happens to hours: two nodes commit, compact and sum, and are ended in between.
type sumHistory struct {
	t             *testing.T
	rand          *rand.Rand
	dir, log      string
	now           time.Time
	nodes         [2]*Lake
	rows          []Hour
	to            uint64
	crash         int // at how many steps from now; 0 is never
	crashes, late int
}

func (h *sumHistory) open(i int) {
	h.nodes[i] = openLake(h.t, Options{Store: at(h.t, h.dir), Now: func() time.Time { return h.now }, Step: h.at})
}

func (h *sumHistory) at(string) error {
	if h.crash == 0 {
		return nil
	}
	if h.crash--; h.crash == 0 {
		return errCrash
	}
	return nil
}

func (h *sumHistory) step() {
	node := h.rand.IntN(len(h.nodes))
	l, ctx := h.nodes[node], h.t.Context()
	switch h.rand.IntN(5) {
	case 0:
		h.now = h.now.Add(time.Duration(h.rand.IntN(20)) * time.Hour)
	case 1, 2:
		h.commit(l)
	case 3:
		compactAll(h.t, l)
	case 4:
		h.crash = h.rand.IntN(12)
		_, err := l.SumDay(ctx)
		h.crash = 0
		h.log += fmt.Sprintf("%s node %d sums: %v\n", h.now.Format(time.DateTime), node, err)
		if errors.Is(err, errCrash) {
			h.crashes++
			h.open(node)
		} else if err != nil {
			h.t.Fatal(err)
		}
	}
}

func (h *sumHistory) commit(l *Lake) {
	var rows []Hour
	for range 1 + h.rand.IntN(30) {
		at := h.now
		if h.rand.IntN(6) == 0 {
			at = at.Add(-time.Duration(h.rand.IntN(100)) * time.Hour)
			h.late++
		}
		rows = append(rows, Hour{
			Hour: at.Truncate(time.Hour).Unix(), DatasetID: fmt.Sprint("shop-", h.rand.IntN(4)), Kind: "events",
			Name: []string{"purchase", "search"}[h.rand.IntN(2)], Field: []string{"accepted", "late"}[h.rand.IntN(2)],
			Count: 1 + h.rand.Int64N(5), Value: float64(h.rand.IntN(8)) / 4,
		})
	}
	from := Watermarks{Events: h.to, Rejections: h.to, Hours: h.to}
	h.to++
	if err := l.Commit(h.t.Context(), Batch{Spans: []Span{{From: from, To: h.to}}, Hours: rows}, 0); err != nil {
		h.t.Fatal(err)
	}
	h.rows = append(h.rows, rows...)
}

// A day of which a file is damaged is not summed from the rest, and is when the file is back.
func TestSumWaitsForDamagedHours(t *testing.T) {
	now, dir := noon, t.TempDir()
	l := openLake(t, Options{Store: at(t, dir), Now: func() time.Time { return now }})
	h := &sumHistory{t: t, rand: rand.New(rand.NewPCG(1, 9)), now: noon}
	h.commit(l)
	now = now.Add(48 * time.Hour)
	files, err := l.Files(t.Context(), hoursTable)
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	files = slices.Clone(files)
	for i, f := range files {
		files[i] = strings.TrimPrefix(f, "file://")
		if err := os.Rename(files[i], files[i]+".away"); err != nil {
			t.Fatal(err)
		}
	}
	sumAll(t, l)
	if got := storedSums(t, l); len(got) != 0 {
		t.Errorf("got %d sums of files that are missing", len(got))
	}
	for _, f := range files {
		if err := os.Rename(f+".away", f); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(2 * damagedAgain)
	sumAll(t, l)
	end := now.Unix()
	if got, want := storedSums(t, l), plainSums(h.rows, end-end%secondsPerDay); !maps.Equal(got, want) {
		t.Errorf("got %d sums, want %d others", len(got), len(want))
	}
}
