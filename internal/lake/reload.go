package lake

import (
	"context"
	"time"

	"sluice/event"
	"sluice/internal/iceberg"
)

// Lost is a file of the table of events that is missing or damaged.
type Lost = iceberg.Lost

// Reload puts events back into their table that it lacks; see iceberg.Reload. The counts in the other tables are of the
// events that were accepted, and stay.
type Reload struct{ *iceberg.Reload[event.Row] }

// Reload begins one: it reads every file with events that were received since then. The caller ends it with Close.
func (l *Lake) Reload(ctx context.Context, since time.Time, progress func(done, total int)) (*Reload, error) {
	r, err := l.events.Reload(ctx, since, progress)
	if err != nil {
		return nil, err
	}
	if p := r.Progress(); p.Belongs(l.o.Stream) != nil {
		r.Close(ctx)
		return nil, p.Belongs(l.o.Stream)
	}
	return &Reload{r}, nil
}

// Add writes events to files that nothing lists before Commit.
func (r *Reload) Add(ctx context.Context, rows *EventRows) error {
	sorted, err := rows.sort(ctx, nil)
	if err != nil {
		return err
	}
	return r.Reload.Add(ctx, rows.rows, sorted)
}
