package console

import (
	"context"
	"errors"
	"io/fs"
	"sync/atomic"
	"time"

	"sluice/internal/lake"
)

// feed carries the hourly numbers from the table into the book, each once.
//
// It remembers which parts of each day it has read. A day that only gained parts is read on; a day of which a part
// is gone was compacted, or erased from, and is read anew. So the book says what the table says, whoever commits to
// it, on this node or another.
type feed struct {
	days    map[int32]map[string]bool // by day, the names of the parts in the book
	version int64                     // of the table when it was last read through; 0 before
	whole   atomic.Bool               // it was read through once
	rows    []Hour                    // room for what is being read: there is much of it, again and again
}

// read brings the book up to the table.
func (f *feed) read(ctx context.Context, l *lake.Lake, b *book, now time.Time) error {
	parts, version, err := l.HourParts(ctx, f.version)
	if err != nil || version == f.version {
		return err
	}
	if f.days == nil {
		f.days = map[int32]map[string]bool{}
	}
	oldest := int32(now.Add(-daysKept).Unix() / 86400)
	for day := range f.days {
		if len(parts[day]) == 0 { // retention
			b.drop(day)
			delete(f.days, day)
		}
	}
	again := false
	for day, names := range parts {
		if day < oldest {
			continue
		}
		if err := f.readDay(ctx, l, b, day, names, now); err != nil {
			if errors.Is(err, fs.ErrNotExist) { // replaced since it was listed: the next look finds its successor
				again = true
				continue
			}
			return err
		}
	}
	if again {
		return nil
	}
	f.version = version
	f.whole.Store(true)
	return nil
}

func (f *feed) readDay(ctx context.Context, l *lake.Lake, b *book, day int32, names []string, now time.Time) error {
	listed := make(map[string]bool, len(names))
	for _, name := range names {
		listed[name] = true
	}
	had := f.days[day]
	again := false
	for name := range had {
		again = again || !listed[name]
	}
	f.rows = f.rows[:0]
	defer func() { clear(f.rows) }()
	fresh := map[string]bool{}
	for _, name := range names {
		if had[name] && !again {
			continue
		}
		if err := l.ReadHourPart(ctx, name, func(h *Hour) error { f.rows = append(f.rows, *h); return nil }); err != nil {
			return err
		}
		fresh[name] = true
	}
	if again {
		b.replace(day, f.rows, now)
		f.days[day] = fresh
		return nil
	}
	b.add(f.rows, now)
	if had == nil {
		f.days[day] = fresh
		return nil
	}
	for name := range fresh {
		had[name] = true
	}
	return nil
}
