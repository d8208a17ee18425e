package hours

import (
	"slices"
	"unsafe"

	"sluice/internal/campaign"
	"sluice/internal/lake"
)

// overlay is the hours that belong to events which are committed, and are not in the table of hours yet. They are shown
// with those of the table until the table has them, or more have come.
type overlay struct {
	rows []lake.Hour
	by   map[string][]int32 // the places of a dataset's rows
	all  []lake.Hour        // their sums over all datasets
}

// same says whether an overlay has been made of these rows.
func (o *overlay) same(rows []lake.Hour) bool {
	return len(rows) == len(o.rows) && unsafe.SliceData(rows) == unsafe.SliceData(o.rows)
}

func newOverlay(rows []lake.Hour) overlay {
	o := overlay{rows: rows, by: map[string][]int32{}}
	type place struct {
		hour int64
		seriesKey
	}
	sums := map[place]int{}
	for i := range rows {
		r := &rows[i]
		o.by[r.DatasetID] = append(o.by[r.DatasetID], int32(i))
		if campaign.Is(r.Kind) {
			continue // nobody asks for those of all datasets
		}
		p := place{r.Hour, seriesKey{r.Kind, r.Name, r.Field}}
		at, known := sums[p]
		if !known {
			at = len(o.all)
			sums[p] = at
			o.all = append(o.all, lake.Hour{Hour: r.Hour, Kind: r.Kind, Name: r.Name, Field: r.Field})
		}
		o.all[at].Count += r.Count
		o.all[at].Value += r.Value
	}
	return o
}

// pend puts other rows in the place of those that pend. The caller holds the lock.
func (x *Index) pend(o overlay, oldest int64) {
	x.count(x.pending.all, -1, oldest)
	x.pending = o
	x.count(o.all, 1, oldest)
}

// count adds rows to the numbers of all datasets, or takes them back: sign is 1 or -1.
func (x *Index) count(rows []lake.Hour, sign int64, oldest int64) {
	for i := range rows {
		r := rows[i]
		r.Count, r.Value = sign*r.Count, float64(sign)*r.Value
		x.all.addHour(&r, oldest)
	}
}

// settle ends what pends of a dataset in a day: the table has it. The caller holds the lock.
func (x *Index) settle(id string, day int32) {
	left := slices.DeleteFunc(x.pending.by[id], func(i int32) bool {
		return int32(x.pending.rows[i].Hour/86400) == day
	})
	if len(left) == 0 {
		delete(x.pending.by, id)
	} else {
		x.pending.by[id] = left
	}
}
