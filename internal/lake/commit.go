package lake

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"sluice/event"
)

// Commit adds a batch, once: if it returns nil the rows are on stable storage and readers see them, and the same
// batch again changes nothing. After an error it may have reached some tables; Marks says which. ErrFenced
// comes back when the tables do not stand where the batch begins.
//
// Steps: for each of rejections, hours, events: T.part, T.manifest, T.list, T.metadata, T.committed.
// A crash between tables leaves the later ones behind; Marks tells, and the next batches leave out what is there.
func (l *Lake) Commit(ctx context.Context, b Batch) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(b.Rejections) > 0 {
		err := appendRows(ctx, l.rejections, rejectionSource(b.Rejections), b.Pace, b.Partition, b.From.Rejections, b.To)
		if err != nil {
			return err
		}
	}
	if len(b.Hours) > 0 {
		err := appendRows(ctx, l.hours, hourSource(b.Hours), b.Pace, b.Partition, b.From.Hours, b.To)
		if err != nil {
			return err
		}
	}
	return appendRows(ctx, l.events, eventSource(b.Events), b.Pace, b.Partition, b.From.Events, b.To)
}

// source is rows that are not in order yet.
type source[T any] struct {
	schema  *schema[T]
	rows    []T
	day     func(*T) int32
	compare func(i, j int) int // of two rows of a day
}

// eventSource orders rows by numbers made of what they are sorted by: comparing texts would cost as much as
// encoding them.
func eventSource(rows []event.Row) source[event.Row] {
	keys := eventKeys(rows)
	return source[event.Row]{
		schema: eventSchema, rows: rows,
		day: func(r *event.Row) int32 { return dayOf(r.ReceivedAt) },
		compare: func(i, j int) int {
			if c := cmp.Compare(keys[i], keys[j]); c != 0 {
				return c
			}
			return bytes.Compare(rows[i].EventID[:], rows[j].EventID[:])
		},
	}
}

// eventKeys are numbers in the order of dataset and event time. The time has the lower half: it fits until 2106.
func eventKeys(rows []event.Row) []uint64 {
	ranks := map[string]uint64{}
	for i := range rows {
		ranks[rows[i].DatasetID] = 0
	}
	for rank, id := range slices.Sorted(maps.Keys(ranks)) {
		ranks[id] = uint64(rank)
	}
	keys := make([]uint64, len(rows))
	last, rank := "", uint64(0)
	for i := range rows {
		if id := rows[i].DatasetID; id != last || i == 0 {
			last, rank = id, ranks[id]
		}
		keys[i] = rank<<32 | uint64(uint32(rows[i].EventTime))
	}
	return keys
}

func rejectionSource(rows []Rejection) source[Rejection] {
	return source[Rejection]{
		schema: rejectionSchema, rows: rows,
		day:     func(r *Rejection) int32 { return dayOf(r.ReceivedAt) },
		compare: func(i, j int) int { return compareRejections(&rows[i], &rows[j]) },
	}
}

func hourSource(rows []Hour) source[Hour] {
	return source[Hour]{
		schema: hourSchema, rows: rows,
		day:     func(r *Hour) int32 { return dayOf(r.Hour) },
		compare: func(i, j int) int { return compareHours(&rows[i], &rows[j]) },
	}
}

// sorted is the order in which the rows are written: by day, then as the table wants them.
func (s *source[T]) sorted(pace *Pace) []int32 {
	order, oneDay := make([]int32, len(s.rows)), true
	for i := range order {
		order[i] = int32(i)
		oneDay = oneDay && s.day(&s.rows[i]) == s.day(&s.rows[0])
	}
	compared := 0
	slices.SortFunc(order, func(i, j int32) int {
		if compared++; compared%4096 == 0 {
			pace.Rest()
		}
		if !oneDay {
			if c := cmp.Compare(s.day(&s.rows[i]), s.day(&s.rows[j])); c != 0 {
				return c
			}
		}
		return s.compare(int(i), int(j))
	})
	return order
}

// write makes parts of the rows, one for each day.
func (s *source[T]) write(at storage, pace *Pace) (parts []*part, err error) {
	var w *partWriter[T]
	for _, i := range s.sorted(pace) {
		row := &s.rows[i]
		if w != nil && w.part.day != s.day(row) {
			p, err := w.finish()
			if err != nil {
				return parts, err
			}
			parts, w = append(parts, p), nil
		}
		if w == nil {
			if w, err = createPart(at, s.schema, s.day(row), fresh, freshPage, pace); err != nil {
				return parts, err
			}
		}
		if err := w.add(row); err != nil {
			w.abandon()
			return parts, err
		}
	}
	if w == nil {
		return parts, nil
	}
	p, err := w.finish()
	if err != nil {
		return parts, err
	}
	return append(parts, p), nil
}

// appendRows writes parts and commits them with the watermark they reach.
func appendRows[T any](
	ctx context.Context, t *table, rows source[T], pace *Pace, partition uint8, from, to uint64,
) error {
	release, err := t.store.Share(ctx)
	if err != nil {
		return err
	}
	defer release()
	// Before the work: a loader that has been overtaken need not write anything.
	s, err := t.refresh(ctx)
	if err != nil {
		return err
	}
	if done, err := t.stand(s, partition, from, to); done || err != nil {
		return err
	}
	if err := t.at("part"); err != nil {
		return err
	}
	parts, err := rows.write(t.store, pace)
	if err == nil {
		taken := false
		_, err = t.update(ctx, func(s *state) (*change, error) {
			done, err := t.stand(s, partition, from, to)
			if done || err != nil {
				return nil, err
			}
			taken = true
			return &change{operation: appended, add: parts, marks: map[uint8]uint64{partition: to}}, nil
		})
		if err == nil && taken || errors.Is(err, errUncertain) {
			return err
		}
	}
	for _, p := range parts {
		_ = t.store.Remove(p.name) // else the sweep finds it
	}
	return err
}

// stand says whether the table has what lies between from and to already, or fences the caller off.
func (t *table) stand(s *state, partition uint8, from, to uint64) (done bool, err error) {
	at := s.marks[partition]
	switch {
	case at == to:
		return true, nil
	case at == from:
		return false, nil
	case at < from && t.layout.name != eventsTable:
		// Nothing was written to it for a while: Marks took the events' word for it.
		return false, nil
	}
	return false, ErrFenced
}
