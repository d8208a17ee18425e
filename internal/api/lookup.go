package api

import (
	"errors"
	"strconv"

	"sluice/event"
	"sluice/internal/stream"
	"sluice/internal/submission"
)

// lookUp answers what became of a submission. The id says where its record is in the stream; what
// the stream has let go of is in the store.
func (q *request) lookUp() error {
	missing := reject(event.NotFound, "This dataset has no such submission.")
	include, err := q.parameter("include", "", "events")
	if err != nil {
		return err
	}
	name := q.r.URL.Path[len(submissionPrefix):]
	kind, id, ok := submission.ParseID(name)
	if !ok {
		return missing
	}
	sub, processed, err := q.find(kind, id)
	if err != nil {
		return err
	}
	if sub == nil || sub.DatasetID != q.dataset.ID {
		return missing
	}
	q.out = appendSubmission(q.out[:0], name, sub, processed)
	if include != "" {
		q.out = append(q.out, `,"events":`...)
		q.out = appendOutcomes(q.out, sub.Rows)
	}
	q.out = append(q.out, '}')
	return nil
}

// find reads a submission back: nil if there is none.
func (q *request) find(kind submission.Kind, id event.ID) (sub *submission.Submission, processed bool, err error) {
	ctx, s := q.r.Context(), q.server
	partition, seq, slot, ok := s.IDs.Locate(kind, id)
	if !ok {
		return nil, false, nil
	}
	at := stream.Position{Partition: partition, Seq: seq, Slot: slot}
	record, err := s.Stream.Read(ctx, at)
	if err == nil {
		sub, err = s.IDs.DecodeRecord(string(record), partition, seq, slot)
		if err != nil {
			return nil, false, err
		}
		if sub.Kind == kind && sub.ID == id {
			return sub, s.Processed(at), nil
		}
		sub = nil // the place is another's; the stream may have begun anew
	} else if !errors.Is(err, stream.ErrNotFound) && !errors.Is(err, stream.ErrGone) &&
		!errors.Is(err, stream.ErrDamaged) {
		return nil, false, q.unavailable("read a submission", err)
	}
	sub, err = s.Lookup.FindSubmission(ctx, q.dataset.ID, submission.FormatID(kind, id))
	if err != nil {
		s.Log.Error("look up a submission", "error", err)
		return nil, false, reject(event.Unavailable, "The tables cannot be read now.")
	}
	return sub, true, nil
}

func appendSubmission(b []byte, name string, sub *submission.Submission, processed bool) []byte {
	status := "RECEIVED"
	if processed {
		status = "PROCESSED"
	}
	n := sub.Counts()
	b = append(b, `{"submission_id":"`...)
	b = append(b, name...)
	b = append(b, `","data_set_id":`...)
	b = event.AppendString(b, sub.DatasetID)
	b = append(b, `,"received_at":"`...)
	b = submission.AppendTime(b, sub.ReceivedAt)
	b = append(b, `","status":"`...)
	b = append(b, status...)
	b = appendCount(b, `","accepted":`, n.Accepted)
	b = appendCount(b, `,"rejected":`, n.Rejected)
	b = appendCount(b, `,"late":`, n.Late)
	b = appendCount(b, `,"restricted":`, n.Restricted)
	return appendCount(b, `,"suppressed":`, n.Suppressed)
}

func appendOutcomes(b []byte, rows []event.Row) []byte {
	b = append(b, '[')
	for i := range rows {
		r := &rows[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = appendCount(b, `{"index":`, int(r.SubmissionIndex))
		b = append(b, `,"event_id":"`...)
		b = r.EventID.Append(b)
		b = append(b, `","event_type":`...)
		b = event.AppendString(b, r.EventType)
		b = append(b, `,"late":`...)
		b = strconv.AppendBool(b, r.Late)
		b = append(b, `,"privacy":"`...)
		b = append(b, r.Privacy.String()...)
		b = append(b, `","optimization_eligible":`...)
		b = strconv.AppendBool(b, r.OptimizationEligible)
		b = append(b, '}')
	}
	return append(b, ']')
}
