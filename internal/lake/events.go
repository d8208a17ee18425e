package lake

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"iter"
	"strings"
	"time"

	"sluice/event"
	"sluice/internal/iceberg"
)

// eventColumns is the table of stored events. How each column is encoded was measured (docs/decisions/0004): hashes
// do not shrink, so nobody tries; words that repeat go to a dictionary; times and ids are near their neighbours.
var eventColumns = []iceberg.Column[event.Row]{
	iceberg.UUID(1, "event_id", "", func(r *event.Row) *[16]byte { return (*[16]byte)(&r.EventID) }).Bound(),
	iceberg.Text(2, "submission_id", "dict", func(r *event.Row) *string { return &r.SubmissionID }),
	iceberg.Int32(3, "submission_index", "delta", func(r *event.Row) *int32 { return &r.SubmissionIndex }),
	iceberg.Time(4, "received_at", "dict", func(r *event.Row) *int64 { return &r.ReceivedAt }).Bound(),
	iceberg.Text(5, "data_set_id", "dict", func(r *event.Row) *string { return &r.DatasetID }).Bound(),
	iceberg.Time(6, "event_time", "delta", func(r *event.Row) *int64 { return &r.EventTime }).Bound(),
	iceberg.Text(7, "event_type", "dict", func(r *event.Row) *string { return &r.EventType }),
	iceberg.Text(8, "custom_event_name", "dict", func(r *event.Row) *string { return &r.CustomEventName }).Null(),
	iceberg.Text(9, "source", "dict", func(r *event.Row) *string { return &r.Source }).Null(),
	iceberg.Text(10, "cp_id", "dict", func(r *event.Row) *string { return &r.CampaignID }).Null(),
	iceberg.Text(11, "cp_name", "dict", func(r *event.Row) *string { return &r.CampaignName }).Null(),
	iceberg.Text(12, "referer", "dict", func(r *event.Row) *string { return &r.Referer }).Null(),
	iceberg.Text(13, "page_url", "dict", func(r *event.Row) *string { return &r.PageURL }).Null(),
	iceberg.Float(14, "value", func(r *event.Row) *float64 { return &r.Value }, func(r *event.Row) *bool { return &r.HasValue }),
	iceberg.Text(15, "currency_code", "dict", func(r *event.Row) *string { return &r.CurrencyCode }).Null(),
	iceberg.Hash(16, "email_sha256", "uncompressed", func(r *event.Row) *string { return &r.EmailSHA256 }),
	iceberg.Text(17, "ifa", "", func(r *event.Row) *string { return &r.IFA }).Null(),
	iceberg.Hash(18, "ip_sha256", "uncompressed", func(r *event.Row) *string { return &r.IPSHA256 }),
	iceberg.Text(19, "partner_id", "", func(r *event.Row) *string { return &r.PartnerID }).Null(),
	iceberg.Text(20, "gpp_string", "dict", func(r *event.Row) *string { return &r.GPPString }).Null(),
	iceberg.List(21, 29, "gpp_sid", "dict", func(r *event.Row) *[]int32 { return &r.GPPSID }),
	iceberg.Text(22, "us_privacy_string", "dict", func(r *event.Row) *string { return &r.USPrivacyString }).Null(),
	iceberg.Word(23, "privacy", "dict", func(r *event.Row) string { return r.Privacy.String() }, setPrivacy),
	iceberg.Bool(24, "late", func(r *event.Row) *bool { return &r.Late }),
	iceberg.Bool(25, "mmt_only", func(r *event.Row) *bool { return &r.MeasurementOnly }),
	iceberg.Bool(26, "optimization_eligible", func(r *event.Row) *bool { return &r.OptimizationEligible }),
	iceberg.Text(27, "custom_data", "dict", func(r *event.Row) *string { return &r.CustomData }).Null(),
	iceberg.Text(28, "schema_version", "dict", func(r *event.Row) *string { return &r.SchemaVersion }),
}

type eventTable = iceberg.Table[event.Row]

var eventSchema = iceberg.NewSchema(iceberg.Definition[event.Row]{
	Name: eventsTable, Columns: eventColumns, Day: "received_at", Order: []string{"data_set_id", "event_time", "event_id"},
	Time: func(r *event.Row) int64 { return r.ReceivedAt }, Compare: compareEvents,
})

// setPrivacy takes an outcome that a later version may have added for the most restrictive one.
func setPrivacy(r *event.Row, word string) {
	outcome, ok := event.ParseOutcome(word)
	if !ok {
		outcome = event.Suppressed
	}
	r.Privacy = outcome
}

// compareEvents is the order of the rows in a file.
func compareEvents(a, b *event.Row) int {
	if c := strings.Compare(a.DatasetID, b.DatasetID); c != 0 {
		return c
	}
	if c := cmp.Compare(a.EventTime, b.EventTime); c != 0 {
		return c
	}
	return bytes.Compare(a.EventID[:], b.EventID[:])
}

// Query chooses events. A zero member does not restrict.
type Query struct {
	Dataset      string
	From, To     time.Time // received at From or later, before To
	SubmissionID string
	EventID      event.ID
	Columns      []string // which columns to read, spelled as in the table; nil reads all

	EventFrom, EventTo time.Time // happened at EventFrom or later, before EventTo
	EventType          string
	Identifier         Predicate // carries this identifier
}

// query is the question in the table's own terms. Files are sorted by dataset, so that comes first.
func (q *Query) query() iceberg.Query[event.Row] {
	out := iceberg.Query[event.Row]{From: q.From, To: q.To, Columns: q.Columns}
	if q.Dataset != "" {
		match := func(r *event.Row) bool { return r.DatasetID == q.Dataset }
		out.Conditions = append(out.Conditions, condition("data_set_id", match, []byte(q.Dataset)))
	}
	if q.EventID != (event.ID{}) {
		match := func(r *event.Row) bool { return r.EventID == q.EventID }
		out.Conditions = append(out.Conditions, condition("event_id", match, q.EventID[:]))
	}
	if q.SubmissionID != "" {
		match := func(r *event.Row) bool { return r.SubmissionID == q.SubmissionID }
		out.Conditions = append(out.Conditions, condition("submission_id", match, nil))
	}
	if w := (span{q.EventFrom, q.EventTo}); w != (span{}) {
		out.Conditions = append(out.Conditions, condition("event_time", func(r *event.Row) bool { return w.holds(r.EventTime) }, nil))
	}
	if q.EventType != "" {
		out.Conditions = append(out.Conditions, condition("event_type", func(r *event.Row) bool { return r.EventType == q.EventType }, nil))
	}
	if q.Identifier != (Predicate{}) {
		c, err := q.Identifier.condition()
		if err != nil { // nothing carries what cannot be an identifier
			c = condition("event_type", func(*event.Row) bool { return false }, nil)
		}
		out.Conditions = append(out.Conditions, c)
	}
	return out
}

// span is a time from one moment up to another; a zero end is open.
type span struct{ from, to time.Time }

func (s span) holds(unix int64) bool {
	at := time.Unix(unix, 0)
	return (s.from.IsZero() || !at.Before(s.from)) && (s.to.IsZero() || at.Before(s.to))
}

// condition is one on a single column; equal, if not nil, is the only value that meets it.
func condition[T any](column string, match func(*T) bool, equal []byte) iceberg.Condition[T] {
	return iceberg.Condition[T]{Columns: []string{column}, Match: match, Equal: equal}
}

var errEnough = errors.New("enough")

// Scan reads events in order of days of receipt, and inside a file by dataset and event time. A row is valid
// until the next one. An error ends the sequence; ErrDamaged comes after everything that can be read.
//
// A day is read as it is when the scan reaches it: commits and erasures that come later do not show in it.
func (l *Lake) Scan(ctx context.Context, q Query) iter.Seq2[*event.Row, error] {
	return func(yield func(*event.Row, error) bool) {
		err := l.events.Scan(ctx, q.query(), func(rows []event.Row) error {
			for i := range rows {
				if !yield(&rows[i], nil) {
					return errEnough
				}
			}
			return ctx.Err()
		})
		if err != nil && !errors.Is(err, errEnough) {
			yield(nil, err)
		}
	}
}
