package lake

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"sluice/event"
	"sluice/internal/submission"
)

// Found is what the lake holds of a submission.
type Found struct {
	Rows     []event.Row // by position in the request
	Rejected int64       // events rejected
}

// around is how far the time in an id may lie from received_at: they are taken from the same clock reading, so
// this only forgives rounding to the second and a clock that was stepped in between.
const around = 2 * time.Minute

// FindSubmission reads a submission of a dataset. The time in its id says in which day it was received.
func (l *Lake) FindSubmission(ctx context.Context, dataset, id string) (*Found, error) {
	_, uuid, ok := submission.ParseID(id)
	if !ok {
		return nil, ErrNotFound
	}
	at := submission.Time(uuid)
	q := Query{Dataset: dataset, SubmissionID: id, From: at.Add(-around), To: at.Add(around)}
	out := &Found{}
	for row, err := range l.Scan(ctx, q) {
		if err != nil && (len(out.Rows) == 0 || !errors.Is(err, ErrDamaged)) {
			return nil, err
		}
		if row != nil {
			out.Rows = append(out.Rows, *row)
		}
	}
	slices.SortFunc(out.Rows, func(a, b event.Row) int { return cmp.Compare(a.SubmissionIndex, b.SubmissionIndex) })
	err := l.ScanRejections(ctx, RejectionQuery{Dataset: dataset, SubmissionID: id, From: q.From, To: q.To},
		func(r *Rejection) error {
			out.Rejected += r.Events
			return nil
		})
	if err != nil && !errors.Is(err, ErrDamaged) {
		return nil, err
	}
	if len(out.Rows) == 0 && out.Rejected == 0 {
		return nil, ErrNotFound
	}
	return out, nil
}

// FindEvent reads the event with an id.
func (l *Lake) FindEvent(ctx context.Context, id event.ID) (*event.Row, error) {
	at := submission.Time(id)
	for row, err := range l.Scan(ctx, Query{EventID: id, From: at.Add(-around), To: at.Add(around)}) {
		if err != nil {
			return nil, err
		}
		found := *row
		return &found, nil
	}
	return nil, ErrNotFound
}
