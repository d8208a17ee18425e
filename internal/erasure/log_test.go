package erasure

import (
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"

	"sluice/event"
	"sluice/internal/purpose"
)

// row is an erased row with a number.
func row(n int) event.Row {
	r := event.Row{DatasetID: "shop", OptimizationEligible: n%2 == 0}
	binary.BigEndian.PutUint64(r.EventID[8:], uint64(n))
	return r
}

func rows(from, to int) (out []event.Row) {
	for n := from; n < to; n++ {
		out = append(out, row(n))
	}
	return out
}

// numbers are the rows of the whole log, in order, and the entry that each is in.
func (t *Tombstones) numbers(tb testing.TB) (out []int, entries map[int]uint64) {
	tb.Helper()
	l, err := t.Log(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	b, err := l.Bounds(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	entries = map[int]uint64{}
	for number := b.First; number <= b.Last; number++ {
		lines, err := l.Read(tb.Context(), number)
		if err != nil {
			tb.Fatal(err)
		}
		for _, line := range lines {
			n := int(binary.BigEndian.Uint64(line.EventID[8:]))
			want := purpose.Measurement
			if n%2 == 0 {
				want = purpose.Optimization
			}
			if line.Dataset != "shop" || line.Purpose != want {
				tb.Errorf("row %d: got %+v", n, line)
			}
			out = append(out, n)
			entries[n] = number
		}
	}
	return out, entries
}

// table is a table as a pass sees it: the rows that it has still, and its mark.
type table struct {
	mu   sync.Mutex // passes take turns by a lock of a file, which the race detector does not know
	rows map[int]bool
	mark string
}

func (t *table) note(context.Context) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mark, nil
}

// delete deletes rows in one commit, as the lake does.
func (t *table) delete(ctx context.Context, w *Writer, some []event.Row) error {
	if err := w.Rows(ctx, some); err != nil {
		return err
	}
	mark, err := w.Mark(ctx, false)
	if err != nil {
		return err
	}
	t.commit(mark, some)
	return nil
}

func (t *table) commit(mark string, some []event.Row) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if mark != "" {
		t.mark = mark
	}
	for _, r := range some {
		delete(t.rows, int(binary.BigEndian.Uint64(r.EventID[8:])))
	}
}

// done ends a deletion.
func (t *table) done(ctx context.Context, w *Writer) error {
	mark, err := w.Mark(ctx, true)
	t.commit(mark, nil)
	return err
}

// leftOut and higher are rows that the loader left out: no table has them.
const leftOut = 9000

// exact holds the mark against the log: what is in it up to the mark is not in the table, and what is behind it is.
func (t *table) exact(tb testing.TB, s *Tombstones) {
	tb.Helper()
	l, err := s.Log(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	b, err := l.Bounds(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	_, entries := s.numbers(tb)
	for n, number := range entries {
		if n < leftOut && (number > Mark(t.mark).In(b)) != t.rows[n] {
			tb.Errorf("row %d is in the table: %v; it is in entry %d, and the mark is %q", n, t.rows[n], number, t.mark)
		}
	}
}

func newTable(n int) *table {
	t := &table{rows: map[int]bool{}}
	for i := range n {
		t.rows[i] = true
	}
	return t
}

var errKilled = errors.New("killed")

// Rows are in the log once and in order, whatever is interrupted and done again, and the mark of a table is exact.
func TestLogOnce(t *testing.T) {
	s := open(t)
	tab := newTable(6000)
	pass := func(want error, do func(context.Context, *Writer) error) {
		t.Helper()
		if err := s.Pass(t.Context(), tab.note, do); !errors.Is(err, want) {
			t.Fatalf("got %v, want %v", err, want)
		}
		tab.exact(t, s)
	}
	pass(nil, func(ctx context.Context, w *Writer) error {
		return errors.Join(tab.delete(ctx, w, rows(0, 3)), tab.delete(ctx, w, rows(1, 5)), tab.done(ctx, w))
	})
	// A kill behind the log and before the commit: the same again does the rest.
	killed := func(ctx context.Context, w *Writer) error {
		if err := w.Rows(ctx, rows(5, 8)); err != nil {
			return err
		}
		_, err := w.Mark(ctx, false)
		return errors.Join(err, errKilled)
	}
	pass(errKilled, killed)
	if err := s.LeftOut(t.Context(), []event.Row{row(9001), row(3)}); err != nil {
		t.Fatal(err)
	}
	pass(nil, func(ctx context.Context, w *Writer) error {
		if !w.Pending() {
			t.Error("an interrupted pass is not pending")
		}
		w.Everything()
		return errors.Join(tab.delete(ctx, w, rows(5, 9)), tab.done(ctx, w))
	})
	pass(nil, func(ctx context.Context, w *Writer) error { // many, in several entries
		if w.Pending() {
			t.Error("a pass is pending that has ended")
		}
		return errors.Join(tab.delete(ctx, w, rows(0, 6000)), tab.done(ctx, w))
	})
	got, _ := s.numbers(t)
	want := append([]int{0, 1, 2, 3, 4, 5, 6, 7, 9001}, slices.Collect(func(yield func(int) bool) {
		for n := 8; n < 6000 && yield(n); n++ {
		}
	})...)
	if !slices.Equal(got, want) {
		t.Errorf("got %d rows, want %d", len(got), len(want))
	}
	if len(tab.rows) > 0 {
		t.Errorf("%d rows are left", len(tab.rows))
	}
}

// A table that is put back has the rows again: the next pass deletes them, and they are not told twice.
func TestLogOfATablePutBack(t *testing.T) {
	s := open(t)
	tab := newTable(10)
	for _, n := range []int{2, 4} {
		err := s.Pass(t.Context(), tab.note, func(ctx context.Context, w *Writer) error {
			return errors.Join(tab.delete(ctx, w, rows(n, n+2)), tab.done(ctx, w))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	old := &table{rows: maps.Clone(newTable(10).rows)}
	err := s.Pass(t.Context(), old.note, func(ctx context.Context, w *Writer) error {
		if !w.Pending() {
			t.Error("it is not pending")
		}
		w.Everything()
		return errors.Join(old.delete(ctx, w, rows(2, 6)), old.done(ctx, w))
	})
	if err != nil {
		t.Fatal(err)
	}
	old.exact(t, s)
	if got, _ := s.numbers(t); !slices.Equal(got, []int{2, 3, 4, 5}) {
		t.Errorf("got %v", got)
	}
}

// Suppressed rows are in no feed, and so in no log.
func TestLogWithoutSuppressed(t *testing.T) {
	s := open(t)
	gone := row(1)
	gone.Privacy = event.Suppressed
	if err := s.LeftOut(t.Context(), []event.Row{gone}); err != nil {
		t.Fatal(err)
	}
	if got, _ := s.numbers(t); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

// Many write at the same time: loaders, and passes, which take turns. Each row is there once.
func TestLogOfManyWriters(t *testing.T) {
	s := open(t)
	tab := newTable(200)
	var wg sync.WaitGroup
	for n := range 4 {
		wg.Go(func() {
			for i := range 5 {
				if err := s.LeftOut(t.Context(), rows(leftOut+10*i, leftOut+10+10*i+n)); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			err := s.Pass(t.Context(), tab.note, func(ctx context.Context, w *Writer) error {
				return errors.Join(tab.delete(ctx, w, rows(20*n, 20*n+30)), tab.done(ctx, w))
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	tab.exact(t, s)
	got, _ := s.numbers(t)
	slices.Sort(got)
	if all := len(got); len(slices.Compact(got)) != all || all != 90+53 {
		t.Errorf("got %d rows, %d different; want %d", all, len(slices.Compact(got)), 90+53)
	}
}

func TestEntry(t *testing.T) {
	lines := []Line{{row(1).EventID, "shop", purpose.Measurement}, {row(2).EventID, "shop", purpose.Measurement}, {row(3).EventID, "", purpose.Optimization}}
	b := encodeEntry(deletedRows, lines)
	got, writer, err := decodeEntry(b)
	if err != nil || writer != deletedRows || !slices.Equal(got, lines) {
		t.Errorf("got %v, %c, %v", got, writer, err)
	}
	for n := range len(b) { // none of it may panic
		if got, _, err := decodeEntry(b[:n]); err == nil && len(got) == len(lines) {
			t.Errorf("%d bytes of %d: got all lines", n, len(b))
		}
	}
}
