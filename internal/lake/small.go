package lake

import (
	"context"
	"time"
)

// RejectionQuery chooses rejections. A zero member does not restrict.
type RejectionQuery struct {
	Dataset      string
	SubmissionID string
	From, To     time.Time // received at From or later, before To
}

// ScanRejections hands the chosen rejections to yield, valid until it returns. Its error ends the scan.
func (l *Lake) ScanRejections(ctx context.Context, q RejectionQuery, yield func(*Rejection) error) error {
	w := newWindow(q.From, q.To)
	sel := &selection[rejectionRow]{}
	first, rest := split(rejectionColumns, "data_set_id", "submission_id", "received_at")
	sel.rest = rest
	sel.stages = []stage[rejectionRow]{{first, func(r *rejectionRow) bool {
		return (q.Dataset == "" || r.DatasetID == q.Dataset) &&
			(q.SubmissionID == "" || r.SubmissionID == q.SubmissionID) && w.holds(r.ReceivedAt/micro)
	}}}
	if q.Dataset != "" {
		w.bounds = append(w.bounds, bound{2, []byte(q.Dataset)})
		sel.skip = func(g *group) bool { return !g.may("data_set_id", []byte(q.Dataset)) }
	}
	return scan(ctx, l, l.rejections, w, sel, func(rows []rejectionRow) error {
		for _, r := range rows {
			err := yield(&Rejection{r.ReceivedAt / micro, r.DatasetID, r.SubmissionID, r.Code, r.Field, r.Count, r.Events})
			if err != nil {
				return err
			}
		}
		return ctx.Err()
	})
}

// HourQuery chooses hours. A zero member does not restrict.
type HourQuery struct {
	Dataset  string
	Kind     string
	From, To time.Time // hours that begin at From or later, before To
}

// ScanHours hands the chosen numbers to yield, valid until it returns. Several may agree in everything but
// Count and Value: they are to be added up. An error of yield ends the scan.
func (l *Lake) ScanHours(ctx context.Context, q HourQuery, yield func(*Hour) error) error {
	w := newWindow(q.From, q.To)
	sel := &selection[hourRow]{}
	first, rest := split(hourColumns, "data_set_id", "kind", "hour")
	sel.rest = rest
	sel.stages = []stage[hourRow]{{first, func(r *hourRow) bool {
		return (q.Dataset == "" || r.DatasetID == q.Dataset) && (q.Kind == "" || r.Kind == q.Kind) && w.holds(r.Hour/micro)
	}}}
	if q.Dataset != "" {
		w.bounds = append(w.bounds, bound{2, []byte(q.Dataset)})
		sel.skip = func(g *group) bool { return !g.may("data_set_id", []byte(q.Dataset)) }
	}
	return scan(ctx, l, l.hours, w, sel, func(rows []hourRow) error {
		for _, r := range rows {
			if err := yield(&Hour{r.Hour / micro, r.DatasetID, r.Kind, r.Name, r.Field, r.Count, r.Value}); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
}
