package lake

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"sluice/event"
	"sluice/internal/iceberg"
)

// Batch is what a run of frames of one partition holds, for each table without what it has already.
type Batch struct {
	Partition  uint8
	From       Watermarks // how far each table is
	To         uint64     // sequence number of the last frame
	Events     []event.Row
	Rejections []Rejection
	Hours      []Hour
}

// Commit adds a batch, once: if it returns nil the rows are on stable storage and readers see them, and the same
// batch again changes nothing. After an error it may have reached some tables; Watermarks says which. ErrFenced
// comes back when the tables are not where the batch begins. Where the lake has a throttle, Commit may take slack
// longer than it needs, so that requests find a processor.
//
// Order: rejections, hours, events. A crash between tables leaves the later ones behind; Watermarks tells, and the next
// batches leave out what is there.
func (l *Lake) Commit(ctx context.Context, b Batch, slack time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	job := l.o.Throttle.Begin(2, l.o.Now().Add(slack)) // a third of a processor is left to it, arbitrary
	span := iceberg.Span{Partition: b.Partition, To: b.To, Sparse: true}
	if len(b.Rejections) > 0 {
		span.From = b.From.Rejections
		if err := l.rejections.Append(ctx, b.Rejections, nil, span, job); err != nil {
			return err
		}
	}
	if len(b.Hours) > 0 {
		span.From = b.From.Hours
		if err := l.hours.Append(ctx, b.Hours, nil, span, job); err != nil {
			return err
		}
	}
	span.From, span.Sparse = b.From.Events, false
	return l.events.Append(ctx, b.Events, eventOrder(b.Events), span, job)
}

// eventOrder orders rows by numbers made of what they are sorted by: comparing texts would cost as much as encoding
// them.
func eventOrder(rows []event.Row) func(i, j int) int {
	keys := eventKeys(rows)
	return func(i, j int) int {
		if c := cmp.Compare(keys[i], keys[j]); c != 0 {
			return c
		}
		return bytes.Compare(rows[i].EventID[:], rows[j].EventID[:])
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
