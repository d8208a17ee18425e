package console

import (
	"context"
	"sync/atomic"
	"time"

	"sluice/internal/lake"
)

// feed carries the hourly numbers from the table into the book, each once, whoever commits to it, on this node or
// another.
type feed struct {
	follower lake.HourFollower
	whole    atomic.Bool // it was read through once
}

// read brings the book up to the table.
func (f *feed) read(ctx context.Context, l *lake.Lake, b *book, now time.Time) error {
	all, err := f.follower.Read(ctx, l, now.Add(-daysKept), func(d lake.HourDay) error {
		if d.Anew {
			b.replace(d.Day, d.Rows, now)
		} else {
			b.add(d.Rows, now)
		}
		return nil
	})
	if all {
		f.whole.Store(true)
	}
	return err
}
