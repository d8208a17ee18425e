// Package submission is one accepted request: its id, its receipt, its form in the stream.
package submission

import (
	"crypto/rand"
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"sluice/event"
)

// Kind says what a request was.
type Kind uint8

// The kinds of records in the stream.
const (
	Single   Kind = iota // one event
	Batch                // an array of events
	Rejected             // counts of requests that were rejected whole or answered again; no submission
)

var prefixes = [...]string{"single.", "batch."}

// Submission is one accepted request. Rows are finished: whoever reads them back needs no rule and no clock.
type Submission struct {
	Kind       Kind
	Base       event.ID // time and chance; every event id derives from it
	ID         event.ID // known once the record has a place in the stream
	ReceivedAt int64    // Unix seconds
	DatasetID  string
	Keyed      bool     // it came with an Idempotency-Key
	BodyDigest [32]byte // keyed digest of the decoded body, when Keyed; see NewBodyDigest
	Extra      string   // members of the receipt after the first three, when Keyed
	Rows       []event.Row
	Rejections []event.Rejection
	Warned     []event.Warned
	Requests   []Requests
	Erased     Counts // of rows that were taken out of the record, see Without; none of them are Rejected
}

// Requests counts requests that made no submission: rejected ones by the code of their answer, and with no code those
// that were answered with the receipt of an earlier one.
type Requests struct {
	Code  event.Code
	Count int32
}

// NewBase makes the base of a submission received at now: a UUIDv7 whose last 16 bits are free for the
// position of an event in its request. 58 bits of chance per millisecond keep two bases apart.
func NewBase(now time.Time) event.ID {
	var id event.ID
	binary.BigEndian.PutUint64(id[:8], uint64(now.UnixMilli())<<16)
	_, _ = rand.Read(id[6:14]) // never fails: crypto/rand ends the program instead
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return id
}

// EventID is the id of the event at index in its request: the same on every replay.
func EventID(base event.ID, index int32) event.ID {
	binary.BigEndian.PutUint16(base[14:], uint16(index))
	return base
}

// Time is the millisecond in which the submission with this id, or the event with this id, was received.
func Time(id event.ID) time.Time {
	var b [8]byte
	copy(b[2:], id[:6])
	return time.UnixMilli(int64(binary.BigEndian.Uint64(b[:]))).UTC()
}

// Counts is what a submission says of its events.
type Counts struct{ Accepted, Rejected, Late, Restricted, Suppressed int }

// Counts adds the submission up, with what was erased from it.
func (s *Submission) Counts() Counts {
	c := s.Erased
	c.Accepted += len(s.Rows)
	for i := range s.Rows {
		c.Add(&s.Rows[i])
	}
	for _, r := range s.Rejections {
		c.Rejected += int(r.Events)
	}
	return c
}

// Add counts the flags of one stored row.
func (c *Counts) Add(r *event.Row) {
	if r.Late {
		c.Late++
	}
	switch r.Privacy {
	case event.MeasurementOnly:
		c.Restricted++
	case event.Suppressed:
		c.Suppressed++
	}
}

// Clone returns a copy that shares no memory with the submission, with at most so many of its rows.
func (s *Submission) Clone(rows int) *Submission {
	c := *s
	c.DatasetID, c.Extra = strings.Clone(s.DatasetID), strings.Clone(s.Extra)
	c.Rows = slices.Clone(s.Rows[:min(rows, len(s.Rows))])
	for i := range c.Rows {
		r := &c.Rows[i]
		others := [...]*string{&r.SubmissionID, &r.DatasetID, &r.EmailSHA256, &r.IPSHA256}
		texts := textMembers(r)
		for _, p := range slices.Concat(texts[:], others[:]) {
			*p = strings.Clone(*p)
		}
		r.GPPSID = slices.Clone(r.GPPSID)
	}
	c.Rejections = slices.Clone(s.Rejections)
	for i := range c.Rejections {
		c.Rejections[i].Field = strings.Clone(c.Rejections[i].Field)
	}
	c.Warned = slices.Clone(s.Warned)
	c.Requests = slices.Clone(s.Requests)
	return &c
}

// idLength is the longest an id is, as senders see it.
const idLength = 48

// FormatID is the id as senders see it.
func FormatID(kind Kind, id event.ID) string {
	return string(appendID(make([]byte, 0, idLength), kind, id))
}

func appendID(b []byte, kind Kind, id event.ID) []byte {
	return id.Append(append(b, prefixes[kind]...))
}

// ParseID reads an id as senders see it.
func ParseID(s string) (Kind, event.ID, bool) {
	for kind, prefix := range prefixes {
		if rest, ok := strings.CutPrefix(s, prefix); ok {
			id, ok := event.ParseID(rest)
			return Kind(kind), id, ok && id[6]>>4 == 8 && id[8]>>6 == 2
		}
	}
	return 0, event.ID{}, false
}

// AppendReceipt adds the receipt's JSON to b. Call it after IDs.Place.
func (s *Submission) AppendReceipt(b []byte) []byte {
	b = append(b, `{"submission_id":"`...)
	b = appendID(b, s.Kind, s.ID)
	b = append(b, `","received_at":"`...)
	b = AppendTime(b, s.ReceivedAt)
	b = append(b, `","status":"RECEIVED"`...)
	b = append(b, s.Extra...)
	return append(b, '}')
}

// AppendTime adds Unix seconds as the API writes times: UTC, whole seconds.
func AppendTime(b []byte, unix int64) []byte {
	return time.Unix(unix, 0).UTC().AppendFormat(b, "2006-01-02T15:04:05Z")
}
