package api

import (
	"encoding/json"
	"errors"
	"time"

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
	n := sub.Counts()
	found := foundSubmission{
		name, sub.DatasetID, time.Unix(sub.ReceivedAt, 0).UTC(), "RECEIVED", n.Accepted, n.Rejected, n.Late, n.Restricted,
		n.Suppressed, nil,
	}
	if processed {
		found.Status = "PROCESSED"
	}
	if include != "" {
		found.Events = make([]foundEvent, len(sub.Rows))
	}
	for i := range found.Events {
		r := &sub.Rows[i]
		found.Events[i] = foundEvent{
			r.SubmissionIndex, r.EventID.String(), r.EventType, r.Late, r.Privacy.String(), r.OptimizationEligible,
		}
	}
	out, err := json.Marshal(found)
	q.out = append(q.out[:0], out...)
	return err
}

// foundSubmission is what the answer says of a submission.
type foundSubmission struct {
	ID         string       `json:"submission_id"`
	DatasetID  string       `json:"data_set_id"`
	ReceivedAt time.Time    `json:"received_at"` // whole seconds
	Status     string       `json:"status"`
	Accepted   int          `json:"accepted"`
	Rejected   int          `json:"rejected"`
	Late       int          `json:"late"`
	Restricted int          `json:"restricted"`
	Suppressed int          `json:"suppressed"`
	Events     []foundEvent `json:"events,omitzero"`
}

type foundEvent struct {
	Index                int32  `json:"index"`
	ID                   string `json:"event_id"`
	Type                 string `json:"event_type"`
	Late                 bool   `json:"late"`
	Privacy              string `json:"privacy"`
	OptimizationEligible bool   `json:"optimization_eligible"`
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
			return sub, s.Processed != nil && s.Processed(at), nil
		}
		sub = nil // the place is another's; the stream may have begun anew
	} else if !errors.Is(err, stream.ErrNotFound) && !errors.Is(err, stream.ErrGone) &&
		!errors.Is(err, stream.ErrDamaged) {
		return nil, false, q.unavailable("read a submission", err)
	}
	if s.Lookup == nil {
		return nil, false, nil
	}
	sub, err = s.Lookup.FindSubmission(ctx, q.dataset.ID, submission.FormatID(kind, id))
	if err != nil {
		s.Log.Error("look up a submission", "error", err)
		return nil, false, reject(event.Unavailable, "The tables cannot be read now.")
	}
	return sub, true, nil
}
