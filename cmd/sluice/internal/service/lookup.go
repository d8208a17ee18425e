package service

import (
	"context"
	"errors"

	"sluice/event"
	"sluice/internal/lake"
	"sluice/internal/submission"
)

// lookup lets the API find in the lake what the stream has let go of. The API does not know there is a lake.
type lookup struct{ lake *lake.Lake }

// FindSubmission reads a submission of a dataset back, or returns nil.
func (l lookup) FindSubmission(ctx context.Context, datasetID, submissionID string) (*submission.Submission, error) {
	kind, id, ok := submission.ParseID(submissionID)
	if !ok {
		return nil, nil
	}
	found, err := l.lake.FindSubmission(ctx, datasetID, submissionID)
	if errors.Is(err, lake.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s := &submission.Submission{
		Kind: kind, ID: id, DatasetID: datasetID, ReceivedAt: submission.Time(id).Unix(), Rows: found.Rows,
	}
	if found.Rejected > 0 {
		s.Rejections = []event.Rejection{{Events: int32(found.Rejected)}}
	}
	return s, nil
}
