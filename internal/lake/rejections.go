package lake

import (
	"cmp"
	"context"
	"strings"
	"time"

	"sluice/internal/iceberg"
	"sluice/internal/parquetfile"
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

var rejectionColumns = []parquetfile.Column[Rejection]{
	parquetfile.Time(1, "received_at", "delta", func(r *Rejection) *int64 { return &r.ReceivedAt }).Bound(),
	parquetfile.Text(2, "data_set_id", "dict", func(r *Rejection) *string { return &r.DatasetID }).Bound(),
	parquetfile.Text(3, "submission_id", "dict", func(r *Rejection) *string { return &r.SubmissionID }).Null(),
	parquetfile.Text(4, "error_code", "dict", func(r *Rejection) *string { return &r.Code }),
	parquetfile.Text(5, "field", "dict", func(r *Rejection) *string { return &r.Field }),
	parquetfile.Int64(6, "count", "dict", func(r *Rejection) *int64 { return &r.Count }),
	parquetfile.Int64(7, "events", "dict", func(r *Rejection) *int64 { return &r.Events }),
}

type rejectionTable = iceberg.Table[Rejection]

var rejectionSchema = iceberg.NewSchema(iceberg.Definition[Rejection]{
	Name: rejectionsTable, Comment: descriptions[rejectionsTable].comment(), Docs: descriptions[rejectionsTable].docs(),
	Columns: rejectionColumns, Day: "received_at", Order: []string{"data_set_id", "received_at"},
	Time: func(r *Rejection) int64 { return r.ReceivedAt }, Compare: compareRejections,
})

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
	out := iceberg.Query[Rejection]{From: q.From, To: q.To, Conditions: ofDataset(q.Dataset, rejectionDataset)}
	of := func(r *Rejection) string { return r.SubmissionID }
	out.Conditions = equals(out.Conditions, "submission_id", q.SubmissionID, of, false)
	return l.rejections.Scan(ctx, out, each(ctx, yield))
}

// each hands rows over one by one, until the context ends.
func each[T any](ctx context.Context, yield func(*T) error) func([]T) error {
	return func(rows []T) error {
		for i := range rows {
			if err := yield(&rows[i]); err != nil {
				return err
			}
		}
		return ctx.Err()
	}
}
