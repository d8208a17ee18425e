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
	"sluice/internal/identifier"
	"sluice/internal/parquetfile"
)

// eventStorage says how the columns of an event lie in a table. A field id never changes its meaning; 29 is that of the
// elements of gpp_sid. How each column is encoded was measured (docs/decisions/0004): hashes do not shrink, so nobody
// tries; words that repeat go to a dictionary; times and ids are near their neighbours.
var eventStorage = map[string]struct {
	id       int
	encoding string
	bound    bool // snapshots list its least and greatest value
}{
	"event_id":              {1, "", true},
	"submission_id":         {2, "dict", false},
	"submission_index":      {3, "delta", false},
	"received_at":           {4, "dict", true},
	"data_set_id":           {5, "dict", true},
	"event_time":            {6, "delta", true},
	"event_type":            {7, "dict", false},
	"custom_event_name":     {8, "dict", false},
	"source":                {9, "dict", false},
	"cp_id":                 {10, "dict", false},
	"cp_name":               {11, "dict", false},
	"referer":               {12, "dict", false},
	"page_url":              {13, "dict", false},
	"value":                 {14, "", false},
	"currency_code":         {15, "dict", false},
	"email_sha256":          {16, "uncompressed", false},
	"ifa":                   {17, "", false},
	"ip_sha256":             {18, "uncompressed", false},
	"partner_id":            {19, "", false},
	"gpp_string":            {20, "dict", false},
	"gpp_sid":               {21, "dict", false},
	"us_privacy_string":     {22, "dict", false},
	"privacy":               {23, "dict", false},
	"late":                  {24, "", false},
	"mmt_only":              {25, "", false},
	"optimization_eligible": {26, "", false},
	"custom_data":           {27, "dict", false},
	"schema_version":        {28, "dict", false},
	"sender_event_id":       {30, "", false},
	"order_id":              {31, "", false},
}

const gppSIDElement = 29

// eventColumns is the table of stored events: the columns of event.Columns.
func eventColumns() (columns []parquetfile.Column[event.Row]) {
	for _, c := range event.Columns() {
		s, known := eventStorage[c.Name]
		if !known {
			panic("lake: a column of events has no storage: " + c.Name)
		}
		var column parquetfile.Column[event.Row]
		switch {
		case c.ID != nil:
			column = parquetfile.UUID(s.id, c.Name, s.encoding, func(r *event.Row) *[16]byte { return (*[16]byte)(c.ID(r)) })
		case c.Text != nil:
			column = parquetfile.Text(s.id, c.Name, s.encoding, c.Text)
		case c.JSON != nil:
			column = parquetfile.Text(s.id, c.Name, s.encoding, c.JSON)
		case c.Hash != nil:
			column = parquetfile.Hash(s.id, c.Name, s.encoding, c.Hash)
		case c.Index != nil:
			column = parquetfile.Int32(s.id, c.Name, s.encoding, c.Index)
		case c.Time != nil:
			column = parquetfile.Time(s.id, c.Name, s.encoding, c.Time)
		case c.Number != nil:
			column = parquetfile.Float(s.id, c.Name, c.Number, c.Has)
		case c.List != nil:
			column = parquetfile.List(s.id, gppSIDElement, c.Name, s.encoding, c.List)
		case c.Outcome != nil:
			column = parquetfile.Enum(s.id, c.Name, s.encoding, func(r *event.Row) string { return c.Outcome(r).String() },
				setPrivacy)
		case c.Flag != nil:
			column = parquetfile.Bool(s.id, c.Name, c.Flag)
		}
		if c.Optional {
			column = column.Null()
		}
		if s.bound {
			column = column.Bound()
		}
		columns = append(columns, column)
	}
	return columns
}

type eventTable = iceberg.Table[event.Row]

var eventSchema = iceberg.NewSchema(iceberg.Definition[event.Row]{
	Name: eventsTable, Comment: descriptions[eventsTable].comment(), Docs: descriptions[eventsTable].docs(),
	Columns: eventColumns(), Day: "received_at", Order: []string{"data_set_id", "event_time", "event_id"},
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
	Identifier         identifier.ID // carries this identifier
}

// query is the question in the table's own terms. Files are sorted by dataset, so that comes first.
func (q *Query) query() iceberg.Query[event.Row] {
	all := ofDataset(q.Dataset, eventDataset)
	if q.EventID != (event.ID{}) {
		match := func(r *event.Row) bool { return r.EventID == q.EventID }
		all = append(all, condition{Columns: []string{"event_id"}, Match: match, Equal: q.EventID[:]})
	}
	all = equals(all, "submission_id", q.SubmissionID, func(r *event.Row) string { return r.SubmissionID }, false)
	if w := (span{q.EventFrom, q.EventTo}); w != (span{}) {
		match := func(r *event.Row) bool { return w.holds(r.EventTime) }
		all = append(all, condition{Columns: []string{"event_time"}, Match: match})
	}
	all = equals(all, "event_type", q.EventType, func(r *event.Row) string { return r.EventType }, false)
	if q.Identifier != (identifier.ID{}) {
		all = append(all, condition{Columns: []string{string(q.Identifier.Kind)}, Match: q.Identifier.In})
	}
	return iceberg.Query[event.Row]{From: q.From, To: q.To, Columns: q.Columns, Conditions: all}
}

// span is a time from one moment up to another; a zero end is open.
type span struct{ from, to time.Time }

func (s span) holds(unix int64) bool {
	at := time.Unix(unix, 0)
	return (s.from.IsZero() || !at.Before(s.from)) && (s.to.IsZero() || at.Before(s.to))
}

// condition is one on events.
type condition = iceberg.Condition[event.Row]

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
