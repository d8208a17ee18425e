package lake

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"sluice/event"
)

// Query chooses events. A zero member does not restrict.
type Query struct {
	Dataset      string
	From, To     time.Time // received at From or later, before To
	SubmissionID string
	EventID      event.ID
	Columns      []string // which columns to read, spelled as in the table; nil reads all
}

// ErrDamaged says that a part of the lake could not be read. What could be was served before it came.
var ErrDamaged = errors.New("part of the lake is damaged")

// Scan reads events in order of days of receipt, and inside a part by dataset and event time. A row is valid
// until the next one. An error ends the sequence; ErrDamaged comes after everything that can be read.
//
// A day is read as it is when the scan reaches it: commits and erasures that come later do not show in it.
func (l *Lake) Scan(ctx context.Context, q Query) iter.Seq2[*event.Row, error] {
	return func(yield func(*event.Row, error) bool) {
		err := scan(ctx, l, l.events, q.prune(), q.selection(), func(rows []event.Row) error {
			for i := range rows {
				if !yield(&rows[i], nil) {
					return errEnough
				}
			}
			return ctx.Err()
		})
		if err != nil && !errors.Is(err, errEnough) {
			yield(nil, err)
		}
	}
}

var errEnough = errors.New("enough")

// window is what can be said of whole parts.
type window struct {
	from, to int64 // Unix seconds of the partition's time; to is exclusive, 0 is open
	bounds   []bound
}

// bound is a value that a column must be able to hold.
type bound struct {
	id    int
	value []byte // in Iceberg's form
}

func (q *Query) prune() window {
	w := newWindow(q.From, q.To)
	if q.Dataset != "" {
		w.bounds = append(w.bounds, bound{5, []byte(q.Dataset)})
	}
	if q.EventID != (event.ID{}) {
		w.bounds = append(w.bounds, bound{1, q.EventID[:]})
	}
	return w
}

func newWindow(from, to time.Time) (w window) {
	if !from.IsZero() {
		w.from = from.Unix()
		if from.Nanosecond() > 0 {
			w.from++
		}
	}
	if !to.IsZero() {
		w.to = to.Unix()
		if to.Nanosecond() > 0 {
			w.to++
		}
	}
	return w
}

func (w *window) holds(unix int64) bool { return unix >= w.from && (w.to == 0 || unix < w.to) }

// may says whether a part can hold what is looked for.
func (w *window) may(l *layout, p *part) bool {
	if p.day < dayOf(w.from) || w.to != 0 && p.day > dayOf(w.to-1) {
		return false
	}
	if v := p.upper[l.day]; v != nil && int64(binary.LittleEndian.Uint64(v)) < w.from*micro {
		return false
	}
	if v := p.lower[l.day]; v != nil && w.to != 0 && int64(binary.LittleEndian.Uint64(v)) >= w.to*micro {
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

func (q *Query) selection() *selection[event.Row] {
	wanted := eventColumns
	if q.Columns != nil {
		wanted, _ = split(eventColumns, q.Columns...)
	}
	s := &selection[event.Row]{}
	only := func(match func(*event.Row) bool, name string) {
		columns, rest := split(wanted, name)
		if len(columns) == 0 {
			columns, _ = split(eventColumns, name)
		}
		wanted = rest
		s.stages = append(s.stages, stage[event.Row]{columns, match})
	}
	if q.Dataset != "" { // parts are sorted by it
		only(func(r *event.Row) bool { return r.DatasetID == q.Dataset }, "data_set_id")
	}
	if q.EventID != (event.ID{}) {
		only(func(r *event.Row) bool { return r.EventID == q.EventID }, "event_id")
	}
	if q.SubmissionID != "" {
		only(func(r *event.Row) bool { return r.SubmissionID == q.SubmissionID }, "submission_id")
	}
	if w := newWindow(q.From, q.To); w.from != 0 || w.to != 0 {
		only(func(r *event.Row) bool { return w.holds(r.ReceivedAt) }, "received_at")
	}
	s.rest = wanted
	s.skip = func(g *group) bool {
		return q.Dataset != "" && !g.may("data_set_id", []byte(q.Dataset)) ||
			q.EventID != event.ID{} && !g.may("event_id", q.EventID[:])
	}
	return s
}

// may says whether a column of bytes can hold a value.
func (g *group) may(column string, value []byte) bool {
	least, greatest, ok := g.bound(column)
	return !ok || bytes.Compare(value, least.Bytes()) >= 0 && bytes.Compare(value, greatest.Bytes()) <= 0
}

// scan reads the chosen rows of a table day by day.
func scan[T any](
	ctx context.Context, l *Lake, t *table, w window, sel *selection[T], yield func([]T) error,
) error {
	s, err := t.refresh(ctx)
	if err != nil {
		return err
	}
	broken := 0
	damaged := func(name string) func(error) {
		return func(err error) {
			broken++
			l.counters.damagedParts.Add(1)
			l.o.Log.Error("part is damaged", "table", t.layout.name, "part", name, "error", err)
		}
	}
	for _, day := range t.days(s, &w) {
		files, err := t.openDay(ctx, day, &w, damaged)
		if err != nil {
			return err
		}
		for i, f := range files {
			err := readRowsOf(f.part, f.object, sel, damaged(f.part.name), yield)
			_ = f.object.Close()
			if err != nil {
				for _, f := range files[i+1:] {
					_ = f.object.Close()
				}
				return err
			}
		}
	}
	if broken > 0 || s.damaged() {
		return fmt.Errorf("%w: %d parts of table %s", ErrDamaged, broken, t.layout.name)
	}
	return nil
}

func (t *table) days(s *state, w *window) []int32 {
	var out []int32
	for _, p := range s.parts() {
		if w.may(t.layout, p) && !slices.Contains(out, p.day) {
			out = append(out, p.day)
		}
	}
	slices.Sort(out)
	return out
}

type openPart struct {
	part   *part
	object object
}

// openDay opens all parts of a day before any is read. Open files stay readable when compaction replaces them;
// had it done so before they were open, the day is taken anew from the table as it is now.
func (t *table) openDay(ctx context.Context, day int32, w *window, damaged func(string) func(error)) ([]openPart, error) {
	for attempt := 0; ; attempt++ {
		s, err := t.refresh(ctx)
		if err != nil {
			return nil, err
		}
		var out []openPart
		var gone []string
		for _, p := range s.parts() {
			if p.day != day || !w.may(t.layout, p) {
				continue
			}
			o, err := t.store.Open(p.name)
			switch {
			case isMissing(err):
				gone = append(gone, p.name)
			case err != nil:
				closeAll(out)
				return nil, err
			default:
				out = append(out, openPart{p, o})
			}
		}
		if len(gone) == 0 || attempt == 3 {
			for _, name := range gone {
				damaged(name)(errors.New("file is missing"))
			}
			slices.SortStableFunc(out, func(a, b openPart) int { return cmp.Compare(a.part.sequence, b.part.sequence) })
			return out, nil
		}
		closeAll(out)
	}
}

func closeAll(list []openPart) {
	for _, f := range list {
		_ = f.object.Close()
	}
}
