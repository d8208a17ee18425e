package api

import (
	"context"
	"errors"
	"strconv"
	"time"
	"unsafe"

	"sluice/event"
	"sluice/internal/stream"
	"sluice/internal/submission"
)

// submit takes events: read, decode and validate, append, answer. The receipt is made last, because the
// submission's id holds the place of its record in the stream.
func (q *request) submit() error {
	if err := q.readIdempotencyKey(); err != nil {
		return err
	}
	if q.key != nil {
		return q.submitKeyed()
	}
	body, err := q.body()
	if err != nil {
		return err
	}
	res, received, err := q.judge(body)
	if err != nil {
		return err
	}
	return q.store(res, received, nil)
}

// judge decodes and validates the body, and says whether its events may be queued. They are received now: a
// slow upload does not make an event older.
func (q *request) judge(body string) (*event.Result, time.Time, error) {
	if err := q.server.Known(); err != nil { // it may have been known when the body began to come
		return nil, time.Time{}, q.unavailable("receive a submission", err)
	}
	received := q.server.arrivals.Enter(q.server.Now)
	q.received, q.under = received, true
	shape := event.Single
	if q.route == routeBatch {
		shape = event.Batch
	}
	all := q.route == routeBatch && strict(q.r.Header["Prefer"])
	if all {
		q.w.Header()["Preference-Applied"] = strictly
	}
	res, err := q.decode(body, shape, received)
	if err != nil {
		return nil, received, err
	}
	if err := q.charge(res, received); err != nil {
		return nil, received, err
	}
	if len(res.Rows) == 0 || all && res.Rejected > 0 {
		return nil, received, none(res)
	}
	return res, received, nil
}

// charge counts the events of a request towards the dataset's limit, valid or not: looking at them is what costs.
func (q *request) charge(res *event.Result, now time.Time) error {
	limit := q.dataset.EventsPerSecond
	if wait := q.usage.events.Take(now, q.server.rate(limit), float64(res.Total)); wait > 0 {
		return limited("events", limit, wait)
	}
	return nil
}

// decode reads the body as this key's dataset may send it.
func (q *request) decode(body string, shape event.Shape, received time.Time) (*event.Result, error) {
	policy := event.Policy{
		DatasetID: q.dataset.ID, SuppressOptOut: q.dataset.SuppressOptOut, Suppression: q.server.Suppression(q.dataset.ID),
	}
	q.step("decode")
	res, bad := q.decoder.Decode(body, shape, policy, received)
	if res != nil {
		q.rejected = res.Total // until they are queued
	}
	if r := whole(res, bad, q.dataset.ID); r != nil {
		return nil, r
	}
	return res, nil
}

// whole says why the request is rejected as a whole, if it is.
func whole(res *event.Result, bad *event.Error, datasetID string) *rejection {
	if bad != nil {
		return &rejection{code: bad.Code, field: bad.Field, message: bad.Message, hint: bad.Hint}
	}
	if res.Foreign {
		const message = "An event names a dataset that this API key does not open."
		return &rejection{
			code: event.DatasetForbidden, message: message, indexed: res.Batch,
			problems: []event.Error{{
				Index: res.ForeignIndex, Code: event.DatasetForbidden, Field: "/data_set_id",
				Message: message, Hint: "This key is for the dataset " + datasetID +
					": send that data_set_id, or use the key of the other dataset. One request, one dataset.",
			}},
		}
	}
	return nil
}

// none says that no event of the request is queued, and why.
func none(res *event.Result) *rejection {
	first := &res.Errors[0]
	r := &rejection{
		code: first.Code, field: first.Field, message: first.Message,
		problems: res.Errors, indexed: res.Batch, truncated: res.ErrorsTruncated, rejections: res.Rejections,
		counted: res.Batch, unknown: res.Unknown,
	}
	if res.Batch && res.Common == "" {
		r.code = event.BatchRejected
		r.message = strconv.Itoa(res.Rejected) + " of " + strconv.Itoa(res.Total) +
			" events are invalid, for different reasons; none was queued."
	}
	return r
}

// leave says that the events are on stable storage, or will not be; or that nobody knows.
func (q *request) leave(err error) {
	switch {
	case !q.under:
	case err == nil || errors.Is(err, stream.ErrExists):
		q.server.arrivals.Leave(q.received)
	default:
		q.server.arrivals.LeaveInDoubt(q.received)
	}
	q.under = false
}

// Oldest is a time, in Unix seconds, before which no event was received that is still to be stored.
func (s *Server) Oldest() int64 { return s.arrivals.Oldest(s.Now) }

// Raise lets no event be received before a time, in Unix seconds: what was promised to followers outlives a clock that
// goes back.
func (s *Server) Raise(at int64) { s.arrivals.Raise(at) }

// store appends the submission and writes its receipt. It returns nil only once the events are on stable storage.
func (q *request) store(res *event.Result, received time.Time, digest *[32]byte) error {
	q.step("store")
	q.extra = appendExtra(q.extra[:0], res)
	q.sub = submission.Submission{
		Kind: submission.Single, Base: submission.NewBase(received), ReceivedAt: received.Unix(), DatasetID: q.dataset.ID,
		Rows: res.Rows, Rejections: res.Rejections, Warned: res.Warned,
		Extra: unsafe.String(unsafe.SliceData(q.extra), len(q.extra)),
	}
	if res.Batch {
		q.sub.Kind = submission.Batch
	}
	if digest != nil {
		q.sub.Keyed, q.sub.BodyDigest = true, *digest
	}
	q.record = submission.AppendRecord(grow(q.record[:0], q.recordSize(res)), &q.sub)
	if !q.paced {
		q.stopDecoding()
	}
	pos, err := q.append()
	q.leave(err)
	if now := q.server.Now(); len(q.record) < fairSize {
		q.server.pacing.Small(&q.usage.turn, now, now.Sub(received))
	}
	if err != nil {
		return err
	}
	q.step("stored")
	q.server.IDs.Place(&q.sub, pos.Partition, pos.Seq, pos.Slot)
	q.accepted, q.rejected = len(res.Rows), res.Rejected
	q.out = q.sub.AppendReceipt(q.out[:0])
	q.usage.accepted(q.sub.Counts())
	q.rememberStored(res)
	q.show(&q.sub)
	return nil
}

// recordSize is about how long the record of a large body gets; 0 for a small one. Memory for all of it at once is a
// fifth of what growing to it would use.
func (q *request) recordSize(res *event.Result) int {
	body := len(q.wire)
	if q.compressed() {
		body = len(q.plain)
	}
	if body < fairSize {
		return 0
	}
	return body / res.Total * len(res.Rows)
}

// show gives the live view a copy of a submission, as far as it wants one.
func (q *request) show(sub *submission.Submission) {
	live := q.server.Live
	if live == nil {
		return
	}
	if n := live.Wants(sub.ReceivedAt); n > 0 {
		live.Show(sub.Clone(n))
	}
}

// append waits until the record is durable. A sender that hangs up does not cancel it: by then other requests
// may share the same write.
func (q *request) append() (stream.Position, error) {
	if n := int64(len(q.record)); n >= fairSize {
		q.server.queueing.Acquire(&q.usage.queueing, n, queueLimit)
		defer q.server.queueing.Release(n, queueLimit)
	}
	q.step("append")
	ctx := context.Background()
	var pos stream.Position
	var err error
	if q.key != nil {
		pos, err = q.server.Stream.AppendKeyed(ctx, q.key.name(), q.record)
	} else {
		pos, err = q.server.Stream.Append(ctx, q.record)
	}
	if err == nil {
		q.server.outage.accepted(q.server.Log, q.server.Now)
		return pos, nil
	}
	switch {
	case errors.Is(err, stream.ErrExists):
		return pos, err
	case errors.Is(err, stream.ErrTooManyKeys):
		q.server.counts.keysLimited.Add(1)
		return pos, allKeys()
	case errors.Is(err, stream.ErrTooLarge):
		return pos, reject(event.PayloadTooLarge, "The events together are larger than the queue takes at once.")
	}
	return pos, q.unavailable("append a submission", err)
}

// unavailable says that the outcome is unknown or the stream rejected the record: never a claim that something is
// stored.
func (q *request) unavailable(what string, err error) error {
	s := q.server
	s.counts.shedStream.Add(1)
	s.outage.rejected(s.Log, s.Now(), what, err)
	return reject(event.Unavailable, "The queue did not take the request.")
}

// appendExtra adds what a receipt says beyond its three members: nothing if all is well.
func appendExtra(b []byte, res *event.Result) []byte {
	if res.Rejected == 0 && len(res.Warnings) == 0 {
		return b
	}
	if res.Batch {
		b = appendCount(b, `,"accepted":`, len(res.Rows))
		b = appendCount(b, `,"rejected":`, res.Rejected)
		b = appendErrors(b, res.Errors, res.ErrorsTruncated, res.Batch, false)
	}
	return appendWarnings(b, res.Warnings, res.WarningsTruncated, res.Batch)
}
