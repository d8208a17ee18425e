package lake

import (
	"context"
	"io/fs"
	"slices"
	"time"
)

// HourParts lists the parts of the table hours, by day since 1970-01-01, with the version of the table they are
// of; nothing when that is the version known already. Who keeps the numbers in memory reads on from the parts it has not
// seen; a day that lost a part was compacted or erased from, and is to be read anew.
func (l *Lake) HourParts(ctx context.Context, known int64) (parts map[int32][]string, version int64, err error) {
	s, err := l.hours.refresh(ctx)
	if err != nil {
		return nil, 0, err
	}
	if s.version == known {
		return nil, known, nil
	}
	parts = map[int32][]string{}
	for _, p := range s.parts() {
		parts[p.day] = append(parts[p.day], p.name)
	}
	return parts, s.version, nil
}

// ReadHourPart hands the numbers of one part to yield, valid until it returns. fs.ErrNotExist means that the part
// was replaced since it was listed. What cannot be read of it is counted and left out.
func (l *Lake) ReadHourPart(ctx context.Context, name string, yield func(*Hour) error) error {
	s, err := l.hours.refresh(ctx)
	if err != nil {
		return err
	}
	list := s.parts()
	i := slices.IndexFunc(list, func(p *part) bool { return p.name == name })
	if i < 0 {
		return fs.ErrNotExist
	}
	o, err := l.hours.store.Open(name)
	if err != nil {
		return err
	}
	defer o.Close()
	damaged := func(err error) {
		l.counters.damagedParts.Add(1)
		l.o.Log.Error("part is damaged", "table", hoursTable, "part", name, "error", err)
	}
	sel := &selection[Hour]{rest: hourColumns}
	return readRowsOf(list[i], o, sel, damaged, func(rows []Hour) error {
		for i := range rows {
			if err := yield(&rows[i]); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
}

// CommittedAt says when the events up to a position of the stream were committed, as far as the snapshots that
// are kept can tell exactly; else it is zero.
func (l *Lake) CommittedAt(partition uint8, seq uint64) time.Time {
	s := l.events.state.Load()
	if s == nil {
		return time.Time{}
	}
	for i := range s.meta.Snapshots {
		snap := &s.meta.Snapshots[i]
		text, ok := snap.Summary[watermarkProperty]
		if !ok || parseWatermarks(text)[partition] < seq {
			continue // another program's, or an earlier one
		}
		// Only if the snapshot before it is kept, too, is this the commit itself and not one that came later.
		if snap.Parent != nil && s.meta.snapshot(*snap.Parent) == nil {
			return time.Time{}
		}
		return time.UnixMilli(snap.TimestampMS).UTC()
	}
	return time.Time{}
}
