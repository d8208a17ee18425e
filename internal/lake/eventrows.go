package lake

import (
	"cmp"
	"context"
	"encoding/binary"
	"math/bits"
	"slices"

	"sluice/event"
	"sluice/internal/iceberg"
	"sluice/internal/throttle"
)

// EventRows collects events for a commit, column by column. It holds less memory than rows and nothing of them. One
// goroutine uses it.
type EventRows struct {
	rows     *iceberg.Rows[event.Row]
	keys     []eventKey
	datasets map[string]uint32 // numbers of datasets, in the order in which they come
	names    []string          // by number
}

// eventKey is what a row is sorted by: comparing texts would cost as much as encoding them.
type eventKey struct {
	dataset   uint32 // its number
	rank      uint32 // of the dataset among all
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
			number, 0, r.EventTime, binary.BigEndian.Uint64(r.EventID[:8]), binary.BigEndian.Uint64(r.EventID[8:]),
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

// sort returns the places of the rows in the order of the table. It sorts by digits of dataset and time, which costs a
// fraction of comparing, and then by id, nearly in the order of which events come.
func (e *EventRows) sort(ctx context.Context, job *throttle.Job) ([]int32, error) {
	e.rank()
	sorted := make([]int32, len(e.keys))
	for i := range sorted {
		sorted[i] = int32(i)
	}
	first, last := e.times()
	times := bits.Len64(uint64(last - first))
	other := make([]int32, len(sorted))
	for shift := 0; shift < times; shift += digitBits {
		sorted, other = byDigit(sorted, other, func(row int32) uint64 { return uint64(e.keys[row].time-first) >> shift })
		if err := job.Pause(ctx); err != nil {
			return nil, err
		}
	}
	for shift := 0; shift < bits.Len(uint(len(e.names))); shift += digitBits {
		sorted, other = byDigit(sorted, other, func(row int32) uint64 { return uint64(e.keys[row].rank) >> shift })
		if err := job.Pause(ctx); err != nil {
			return nil, err
		}
	}
	for begin := 0; begin < len(sorted); {
		end := begin + 1
		for end < len(sorted) && e.keys[sorted[begin]].same(&e.keys[sorted[end]]) {
			end++
		}
		if end-begin > 1 {
			slices.SortFunc(sorted[begin:end], func(a, b int32) int { return e.keys[a].compareIDs(&e.keys[b]) })
			if err := job.Pause(ctx); err != nil {
				return nil, err
			}
		}
		begin = end
	}
	return sorted, nil
}

func (e *EventRows) rank() {
	ranks := make([]uint32, len(e.names))
	for rank, name := range slices.Sorted(slices.Values(e.names)) {
		ranks[e.datasets[name]] = uint32(rank)
	}
	for i := range e.keys {
		e.keys[i].rank = ranks[e.keys[i].dataset]
	}
}

// times are the earliest and the latest event time.
func (e *EventRows) times() (first, last int64) {
	for i := range e.keys {
		if t := e.keys[i].time; i == 0 {
			first, last = t, t
		} else {
			first, last = min(first, t), max(last, t)
		}
	}
	return first, last
}

func (k *eventKey) same(other *eventKey) bool { return k.rank == other.rank && k.time == other.time }

func (k *eventKey) compareIDs(other *eventKey) int {
	return cmp.Or(cmp.Compare(k.high, other.high), cmp.Compare(k.low, other.low))
}

const digitBits = 11

// byDigit sorts places by the lowest digit of a number, and leaves equal ones in their order. It returns the sorted
// places and the memory that is free.
func byDigit(places, into []int32, number func(int32) uint64) (sorted, free []int32) {
	var begin [1<<digitBits + 1]int32
	for _, p := range places {
		begin[number(p)&(1<<digitBits-1)+1]++
	}
	for i := 1; i < len(begin); i++ {
		begin[i] += begin[i-1]
	}
	for _, p := range places {
		d := number(p) & (1<<digitBits - 1)
		into[begin[d]] = p
		begin[d]++
	}
	return into, places
}
