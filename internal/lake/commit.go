package lake

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

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
		w := lazily(&l.rejectsW, &rejectionsLayout, b.Pace)
		err := appendRows(ctx, l.rejections, w, rejectionSource(b.Rejections), b.Partition, b.From.Rejections, b.To)
		if err != nil {
			return err
		}
	}
	if len(b.Hours) > 0 {
		w := lazily(&l.hoursW, &hoursLayout, b.Pace)
		err := appendRows(ctx, l.hours, w, hourSource(b.Hours), b.Partition, b.From.Hours, b.To)
		if err != nil {
			return err
		}
	}
	w := lazily(&l.eventsW, &eventsLayout, b.Pace)
	return appendRows(ctx, l.events, w, eventSource(b.Events), b.Partition, b.From.Events, b.To)
}

func lazily[T any](w **partWriter[T], l *layout, pace *Pace) *partWriter[T] {
	if *w == nil {
		*w = newPartWriter[T](l, fresh, freshPage)
	}
	(*w).pace = pace
	return *w
}

// source is n rows that can be put in order before they take their stored form.
type source[T any] struct {
	n       int
	day     func(i int) int32
	compare func(i, j int) int
	fill    func(dst *T, i int)
}

// eventSource orders rows by numbers made of what they are sorted by: comparing texts would cost as much as
// encoding them.
func eventSource(rows []event.Row) source[eventRow] {
	keys := eventKeys(rows)
	return source[eventRow]{
		n:   len(rows),
		day: func(i int) int32 { return dayOf(rows[i].ReceivedAt) },
		compare: func(i, j int) int {
			if c := cmp.Compare(keys[i], keys[j]); c != 0 {
				return c
			}
			return bytes.Compare(rows[i].EventID[:], rows[j].EventID[:])
		},
		fill: func(dst *eventRow, i int) { dst.fill(&rows[i]) },
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

func rejectionSource(rows []Rejection) source[rejectionRow] {
	return source[rejectionRow]{
		n:   len(rows),
		day: func(i int) int32 { return dayOf(rows[i].ReceivedAt) },
		compare: func(i, j int) int {
			a, b := &rows[i], &rows[j]
			return cmp.Or(strings.Compare(a.DatasetID, b.DatasetID), cmp.Compare(a.ReceivedAt, b.ReceivedAt))
		},
		fill: func(dst *rejectionRow, i int) { dst.fill(&rows[i]) },
	}
}

func hourSource(hours []Hour) source[hourRow] {
	rows := make([]hourRow, len(hours)) // with a thousand datasets as many as there are events
	for i := range rows {
		rows[i].fill(&hours[i])
	}
	return source[hourRow]{
		n:       len(rows),
		day:     func(i int) int32 { return dayOf(hours[i].Hour) },
		compare: func(i, j int) int { return compareHours(&rows[i], &rows[j]) },
		fill:    func(dst *hourRow, i int) { *dst = rows[i] },
	}
}

// sorted is the order in which the rows are written: by day, then as the table wants them.
func (s *source[T]) sorted(pace *Pace) (order []int32, oneDay bool) {
	order, oneDay = make([]int32, s.n), true
	for i := range order {
		order[i] = int32(i)
		oneDay = oneDay && s.day(i) == s.day(0)
	}
	compared := 0
	slices.SortFunc(order, func(i, j int32) int {
		if compared++; compared%4096 == 0 {
			pace.Rest()
		}
		if !oneDay {
			if c := cmp.Compare(s.day(int(i)), s.day(int(j))); c != 0 {
				return c
			}
		}
		return s.compare(int(i), int(j))
	})
	return order, oneDay
}

// write makes parts of the rows, one for each day.
func (s *source[T]) write(w *partWriter[T], at storage) (parts []*part, err error) {
	open := false
	order, oneDay := s.sorted(w.pace)
	for _, i := range order {
		if open && !oneDay && w.part.day != s.day(int(i)) {
			p, err := w.finish()
			if err != nil {
				return parts, err
			}
			parts, open = append(parts, p), false
		}
		if !open {
			if err := w.begin(at, s.day(int(i))); err != nil {
				return parts, err
			}
			open = true
		}
		dst, err := w.next()
		if err != nil {
			w.abandon()
			return parts, err
		}
		s.fill(dst, int(i))
	}
	if open {
		p, err := w.finish()
		if err != nil {
			return parts, err
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// appendRows writes parts and commits them with the watermark they reach.
func appendRows[T any](
	ctx context.Context, t *table, w *partWriter[T], rows source[T], partition uint8, from, to uint64,
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
	parts, err := rows.write(w, t.store)
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
