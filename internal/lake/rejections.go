package lake

import (
	"cmp"
	"context"
	"strings"
	"time"
)

// Rejection counts how often one problem was found at one field in one submission, or in requests that were
// rejected whole (then SubmissionID is empty). No content is kept.
type Rejection struct {
	ReceivedAt   int64 // Unix seconds
	DatasetID    string
	SubmissionID string
	Code         string
	Field        string
	Count        int64
	Events       int64 // events whose first problem this was: they add up to the rejected events
}

var rejectionColumns = []column[Rejection]{
	timeColumn(1, "received_at", "delta", func(r *Rejection) *int64 { return &r.ReceivedAt }).bound(),
	textColumn(2, "data_set_id", "dict", func(r *Rejection) *string { return &r.DatasetID }).bound(),
	textColumn(3, "submission_id", "dict", func(r *Rejection) *string { return &r.SubmissionID }).null(),
	textColumn(4, "error_code", "dict", func(r *Rejection) *string { return &r.Code }),
	textColumn(5, "field", "dict", func(r *Rejection) *string { return &r.Field }),
	int64Column(6, "count", "dict", func(r *Rejection) *int64 { return &r.Count }),
	int64Column(7, "events", "dict", func(r *Rejection) *int64 { return &r.Events }),
}

var rejectionSchema = newSchema(rejectionsTable, rejectionColumns, 1, []int{2, 1}, compareRejections, nil)

func compareRejections(a, b *Rejection) int {
	return cmp.Or(strings.Compare(a.DatasetID, b.DatasetID), cmp.Compare(a.ReceivedAt, b.ReceivedAt))
}

// RejectionQuery chooses rejections. A zero member does not restrict.
type RejectionQuery struct {
	Dataset      string
	SubmissionID string
	From, To     time.Time // received at From or later, before To
}

// ScanRejections hands the chosen rejections to yield, valid until it returns. Its error ends the scan.
func (l *Lake) ScanRejections(ctx context.Context, q RejectionQuery, yield func(*Rejection) error) error {
	w := newWindow(q.From, q.To)
	sel := &selection[Rejection]{}
	first, rest := split(rejectionColumns, "data_set_id", "submission_id", "received_at")
	sel.rest = rest
	sel.stages = []stage[Rejection]{{first, func(r *Rejection) bool {
		return (q.Dataset == "" || r.DatasetID == q.Dataset) &&
			(q.SubmissionID == "" || r.SubmissionID == q.SubmissionID) && w.holds(r.ReceivedAt)
	}}}
	if q.Dataset != "" {
		w.bounds = append(w.bounds, bound{2, []byte(q.Dataset)})
		sel.skip = func(g *group) bool { return !g.may("data_set_id", []byte(q.Dataset)) }
	}
	return scan(ctx, l, l.rejections, w, sel, func(rows []Rejection) error {
		for i := range rows {
			if err := yield(&rows[i]); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
}
