package lake

import (
	"cmp"
	"context"
	"encoding/binary"
	"slices"

	"sluice/event"
	"sluice/internal/iceberg"
	"sluice/internal/throttle"
)

// EventRows collects events for a commit, column by column. It holds less memory than rows and nothing of them. One goroutine
// uses it.
type EventRows struct {
	rows     *iceberg.Rows[event.Row]
	keys     []eventKey
	datasets map[string]uint32 // numbers of datasets, in the order in which they come
	names    []string          // by number
}

// eventKey is what a row is sorted by: comparing texts would cost as much as encoding them.
type eventKey struct {
	dataset   uint32 // its number, and in order its rank
	row       int32
	time      int64
	high, low uint64 // halves of the event id
}

// NewEventRows returns an empty collection.
func NewEventRows() *EventRows {
	return &EventRows{rows: iceberg.NewRows(eventSchema), datasets: map[string]uint32{}}
}

// Reset forgets the events and keeps the memory.
func (e *EventRows) Reset() {
	e.rows.Reset()
	e.keys, e.names = e.keys[:0], e.names[:0]
	clear(e.datasets)
}

// Len is how many events there are.
func (e *EventRows) Len() int { return e.rows.Len() }

// Add adds events. It keeps nothing of the rows.
func (e *EventRows) Add(rows []event.Row) {
	last, number := "", uint32(0)
	for i := range rows {
		r := &rows[i]
		if r.DatasetID != last || i == 0 {
			last, number = r.DatasetID, e.number(r.DatasetID)
		}
		e.keys = append(e.keys, eventKey{
			number, int32(len(e.keys)), r.EventTime, binary.BigEndian.Uint64(r.EventID[:8]), binary.BigEndian.Uint64(r.EventID[8:]),
		})
	}
	e.rows.Add(rows)
}

func (e *EventRows) number(dataset string) uint32 {
	n, known := e.datasets[dataset]
	if !known {
		n = uint32(len(e.names))
		name := string(append([]byte(nil), dataset...)) // the row's text may be part of a frame
		e.names = append(e.names, name)
		e.datasets[name] = n
	}
	return n
}

// order is the places of the rows in the order of the table: dataset, event time, event id.
func (e *EventRows) order(ctx context.Context, job *throttle.Job) ([]int32, error) {
	ranks := make([]uint32, len(e.names))
	for rank, name := range slices.Sorted(slices.Values(e.names)) {
		ranks[e.datasets[name]] = uint32(rank)
	}
	keys := slices.Clone(e.keys)
	for i := range keys {
		keys[i].dataset = ranks[keys[i].dataset]
	}
	compared := 0
	var ended error
	slices.SortFunc(keys, func(a, b eventKey) int {
		if compared++; compared%4096 == 0 && ended == nil {
			ended = job.Pause(ctx)
		}
		switch {
		case a.dataset != b.dataset:
			return cmp.Compare(a.dataset, b.dataset)
		case a.time != b.time:
			return cmp.Compare(a.time, b.time)
		case a.high != b.high:
			return cmp.Compare(a.high, b.high)
		}
		return cmp.Compare(a.low, b.low)
	})
	out := make([]int32, len(keys))
	for i := range keys {
		out[i] = keys[i].row
	}
	return out, ended
}
