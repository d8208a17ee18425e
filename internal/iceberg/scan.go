package iceberg

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"sluice/internal/parquetfile"
)

// Query chooses rows. A zero member does not restrict.
type Query[T any] struct {
	From, To   time.Time // of the column that the table is divided by; To is not included
	Conditions []Condition[T]
	Columns    []string // which columns to read; nil reads all
}

// Condition is what a row must meet. Conditions are checked in their order, each before the columns of the next are
// read, so the cheapest and most selective one comes first.
type Condition[T any] struct {
	Columns []string
	Match   func(*T) bool
	// Equal, if not nil, is the value of the one column, as bytes: files and row groups whose bounds exclude it are
	// passed over.
	Equal []byte
}

// ErrDamaged says that some of a table could not be read. What could be was served before it came.
var ErrDamaged = errors.New("part of the table is damaged")

// window is what can be said of whole files.
type window struct {
	from, to int64 // Unix seconds of the partition's time; to is exclusive, 0 is open
	bounds   []bound
}

// bound is a value that a column must be able to hold.
type bound struct {
	id    int
	value []byte // in Iceberg's form
}

func (t *Table[T]) prune(q *Query[T]) window {
	w := newWindow(q.From, q.To)
	for _, c := range q.Conditions {
		if c.Equal != nil {
			columns := parquetfile.Named(t.schema.Columns, c.Columns)
			w.bounds = append(w.bounds, bound{columns[0].ID, c.Equal})
		}
	}
	return w
}

func newWindow(from, to time.Time) window { return window{from: roundUp(from), to: roundUp(to)} }

// roundUp is the first Unix second that does not lie before a time; 0 for the zero time.
func roundUp(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.Add(time.Second - 1).Unix()
}

func (w *window) holds(unix int64) bool { return unix >= w.from && (w.to == 0 || unix < w.to) }

// may says whether a file can hold what is looked for.
func (w *window) may(l *layout, p *dataFile) bool {
	if l.after(p.day) <= dayOf(w.from) || w.to != 0 && p.day > dayOf(w.to-1) {
		return false
	}
	if v := p.upper[l.day]; v != nil && int64(binary.LittleEndian.Uint64(v)) < w.from*parquetfile.Micro {
		return false
	}
	if v := p.lower[l.day]; v != nil && w.to != 0 && int64(binary.LittleEndian.Uint64(v)) >= w.to*parquetfile.Micro {
		return false
	}
	for _, b := range w.bounds {
		if v := p.lower[b.id]; v != nil && l.compareValues(b.id, b.value, v) < 0 {
			return false
		}
		if v := p.upper[b.id]; v != nil && l.compareValues(b.id, b.value, v) > 0 {
			return false
		}
	}
	return true
}

func (t *Table[T]) selection(q *Query[T]) *parquetfile.Selection[T] {
	wanted := t.schema.Columns
	if q.Columns != nil {
		wanted = parquetfile.Named(wanted, q.Columns)
	}
	conditions := q.Conditions
	if w := newWindow(q.From, q.To); w.from != 0 || w.to != 0 {
		match := func(r *T) bool { return w.holds(t.schema.Time(r)) }
		conditions = append(slices.Clip(conditions), Condition[T]{Columns: []string{t.schema.Day}, Match: match})
	}
	s := &parquetfile.Selection[T]{}
	for _, c := range conditions {
		var read []parquetfile.Column[T]
		for _, name := range c.Columns {
			if !s.Reads(name) {
				read = append(read, parquetfile.Named(t.schema.Columns, []string{name})...)
			}
		}
		s.Stages = append(s.Stages, parquetfile.Stage[T]{Columns: read, Match: c.Match})
		if c.Equal != nil {
			s.Equal = append(s.Equal, parquetfile.Equal{Column: c.Columns[0], Value: c.Equal})
		}
	}
	for _, c := range wanted {
		if !s.Reads(c.Name) {
			s.Rest = append(s.Rest, c)
		}
	}
	return s
}

// Scan hands the chosen rows to yield, some at a time, valid until it returns; its error ends the scan. Rows come in
// order of days, and inside a file in the table's order. ErrDamaged comes after everything that can be read.
//
// A day is read as it is when the scan reaches it: commits and deletions that come later do not show in it.
func (t *Table[T]) Scan(ctx context.Context, q Query[T], yield func([]T) error) error {
	s, err := t.refresh(ctx)
	if err != nil {
		return err
	}
	w, sel := t.prune(&q), t.selection(&q)
	broken := 0
	damaged := func(name string) func(error) {
		return func(err error) {
			broken++
			t.reportDamage(name, err)
		}
	}
	for _, day := range t.days(s, &w) {
		in, err := t.openDay(ctx, day, &w, damaged)
		if err != nil {
			return err
		}
		for i, f := range in.files {
			err := parquetfile.ReadRows(ctx, in.objects[i], f.bytes, sel, damaged(f.name), yield)
			_ = in.objects[i].Close() // it has done its work, and may hold much memory
			if err != nil {
				in.close()
				return err
			}
		}
	}
	if broken > 0 || s.damaged() {
		return fmt.Errorf("%w: %d files of table %s", ErrDamaged, broken, t.layout.name)
	}
	return nil
}

func (t *table) reportDamage(name string, err error) {
	t.damagedFiles.Store(name, true)
	t.log.Error("file is damaged", "file", name, "error", err)
}

func (t *table) days(s *state, w *window) []int32 {
	var out []int32
	for _, p := range s.files() {
		if w.may(t.layout, p) && !slices.Contains(out, p.day) {
			out = append(out, p.day)
		}
	}
	slices.Sort(out)
	return out
}

// openDay opens all files of a day, oldest first, before any is read. Open files stay readable when compaction replaces
// them; had it done so before they were open, the day is taken anew from the table as it is now.
func (t *table) openDay(
	ctx context.Context, day int32, w *window, damaged func(string) func(error),
) (*inputs, error) {
	for attempt := 0; ; attempt++ {
		s, err := t.refresh(ctx)
		if err != nil {
			return nil, err
		}
		files := slices.DeleteFunc(s.files(), func(p *dataFile) bool { return p.day != day || !w.may(t.layout, p) })
		slices.SortStableFunc(files, func(a, b *dataFile) int { return cmp.Compare(a.sequence, b.sequence) })
		in, gone, err := t.openThere(ctx, files)
		if err != nil {
			return nil, err
		}
		if len(gone) == 0 || attempt == 3 {
			for _, p := range gone {
				damaged(p.name)(errors.New("file is missing"))
			}
			return in, nil
		}
		in.close()
	}
}
