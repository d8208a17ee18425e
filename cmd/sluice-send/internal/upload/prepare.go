package upload

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"
	"slices"
	"strings"
	"time"

	"sluice/client"
	"sluice/cmd/sluice-send/internal/input"
	"sluice/event"
)

// Problem is one reason why a row was rejected. It holds no value of the row.
type Problem struct {
	Code    event.Code `json:"error_code"`
	Field   string     `json:"field"`
	Message string     `json:"message"`
	Hint    string     `json:"hint,omitempty"`
	Column  string     `json:"column,omitempty"` // of a delimited file, where the problem is in one
}

// RejectedRow is a rejected row: its first Problem, and all of them if there are more.
type RejectedRow struct {
	Line int64 `json:"line"`
	Problem
	Errors []Problem `json:"errors,omitempty"`

	raw []byte // the row itself, where it is kept
}

func reject(line int64, ps ...Problem) RejectedRow {
	r := RejectedRow{Line: line, Problem: ps[0]}
	if len(ps) > 1 {
		r.Errors = ps
	}
	return r
}

// Problems are all reasons why the row was rejected.
func (r *RejectedRow) Problems() []Problem {
	if len(r.Errors) == 0 {
		return []Problem{r.Problem}
	}
	return r.Errors
}

func problemsOf(errs ...event.Error) []Problem {
	var ps []Problem
	for _, e := range errs {
		ps = append(ps, Problem{Code: e.Code, Field: e.Field, Message: e.Message, Hint: e.Hint})
	}
	return ps
}

// explain puts a problem into the words of the file that the row came from.
func (p *Preparer) explain(ps []Problem) []Problem {
	if p.Mapping == nil {
		return ps
	}
	for i := range ps {
		ps[i].Column = p.Mapping.Column(ps[i].Field)
		if hint := p.Mapping.Hint(ps[i].Code, ps[i].Field); hint != "" {
			ps[i].Hint = hint
		}
	}
	return ps
}

// Preparer turns batches into requests: it converts, validates, and puts the valid rows into a body. One goroutine
// at a time.
type Preparer struct {
	Mapping *input.Mapping // nil: rows are JSON
	Policy  event.Policy
	Fill    string // data_set_id for JSON rows that have none
	Now     func() time.Time

	decoder  event.Decoder
	splitter input.Splitter
	event    []byte // a row with the dataset put into it

	// The batch at hand as events, one behind the other, both as bytes to send and as one string to validate: a string for
	// each row would cost an allocation for each.
	data      []byte
	text      string
	events    []converted
	converted []byte // memory for data
}

// converted is where a row's event lies, or why there is none.
type converted struct {
	from, to int
	fault    *event.Error
}

// Request is what is sent of a batch.
type Request struct {
	Body  []byte
	Lines []int64 // of the rows in it
}

// Prepared is a batch ready to send. Most have one request, a batch without a valid row none.
type Prepared struct {
	Requests []Request
	Rejected []RejectedRow
	Warnings map[event.Code]int
}

// Prepare turns a batch into requests, and says why the other rows are rejected.
func (p *Preparer) Prepare(b *input.Batch) *Prepared {
	out := &Prepared{Warnings: map[event.Code]int{}}
	now := p.Now()
	p.load(b)
	cur := Request{Body: make([]byte, 0, len(p.data)+len(b.Spans)+2), Lines: make([]int64, 0, len(b.Spans))}
	flush := func() {
		if len(cur.Lines) > 0 {
			cur.Body = append(cur.Body, ']')
			out.Requests = append(out.Requests, cur)
			cur = Request{}
		}
	}
	for i := range b.Spans {
		line := b.Spans[i].Line
		raw, ps := p.check(i, now, out.Warnings)
		if len(ps) > 0 {
			out.Rejected = append(out.Rejected, reject(line, ps...))
			continue
		}
		if len(cur.Lines) > 0 && (len(cur.Body)+len(raw)+2 > client.MaxBytes || len(cur.Lines) == client.MaxEvents) {
			flush()
		}
		sep := byte(',')
		if len(cur.Lines) == 0 {
			sep = '['
		}
		cur.Body = append(append(cur.Body, sep), raw...)
		cur.Lines = append(cur.Lines, line)
	}
	flush()
	return out
}

// load turns the rows of b into events.
func (p *Preparer) load(b *input.Batch) {
	p.events = p.events[:0]
	if p.Mapping == nil {
		p.data = b.Data
	} else {
		p.data = p.converted[:0]
	}
	for i, span := range b.Spans {
		c := converted{from: span.From, to: span.To}
		switch {
		case span.Fault != "":
			c.fault = tooLong(span.Fault)
		case p.Mapping != nil:
			c.from = len(p.data)
			p.data, c.fault = p.Mapping.AppendEvent(p.data, b.Row(i), &p.splitter)
			c.to = len(p.data)
		}
		if c.to-c.from > input.MaxRow {
			c.fault = tooLong(input.LongRow)
		}
		p.events = append(p.events, c)
	}
	if p.Mapping != nil {
		p.converted = p.data
	}
	p.text = string(p.data)
}

func tooLong(message string) *event.Error {
	return &event.Error{Code: event.PayloadTooLarge, Message: message, Hint: "Look for a missing line break or quote."}
}

// check gives row i of the batch that was loaded as the event to send, or says why it is rejected.
func (p *Preparer) check(i int, now time.Time, warned map[event.Code]int) ([]byte, []Problem) {
	c := p.events[i]
	if c.fault != nil {
		return nil, problemsOf(*c.fault)
	}
	raw := p.data[c.from:c.to]
	result, whole := p.decoder.Decode(p.text[c.from:c.to], event.Single, p.Policy, now)
	if whole == nil && p.Fill != "" && p.Mapping == nil && lacksDataset(result) {
		raw = p.splice(raw)
		result, whole = p.decoder.Decode(string(raw), event.Single, p.Policy, now)
	}
	switch {
	case whole != nil:
		return nil, problemsOf(*whole)
	case result.Foreign:
		return nil, []Problem{{
			Code: event.DatasetForbidden, Field: "/data_set_id",
			Message: "The row names another dataset than the one this upload is for.",
			Hint:    "Upload each dataset's rows with its own key.",
		}}
	case result.Rejected > 0:
		return nil, p.explain(problemsOf(result.Errors...))
	}
	for _, w := range result.Warnings {
		warned[w.Code]++
	}
	return raw, nil
}

func lacksDataset(r *event.Result) bool {
	return slices.ContainsFunc(r.Errors, func(e event.Error) bool {
		return e.Code == event.MissingField && e.Field == "/data_set_id"
	})
}

// splice puts the upload's dataset into a JSON row that names none. A row that holds null there keeps it and is then
// rejected for the doubled name: the sender has to correct it.
func (p *Preparer) splice(raw []byte) []byte {
	out := append(p.event[:0], `{"data_set_id":`...)
	out = event.AppendString(out, p.Fill)
	rest := bytes.TrimLeft(raw[1:], " \t\n\r")
	if len(rest) > 0 && rest[0] != '}' {
		out = append(out, ',')
	}
	p.event = append(out, rest...)
	return p.event
}

// keyOf is the Idempotency-Key of one request of a batch. It depends on the salt of the upload, what the file is, where
// the batch lies in it and what is sent, and on nothing else: an uploader that was killed sends the same key again, and
// the service stores the rows once.
func keyOf(id identity, salt string, b *input.Batch, part int, body []byte) string {
	h := sha256.New()
	io.WriteString(h, "sluice-send 1\n"+id.Sample+"\n"+salt+"\n")
	var n [8]byte
	for _, v := range []int64{id.Size, b.Start.Offset, b.End.Offset, int64(part)} {
		binary.BigEndian.PutUint64(n[:], uint64(v))
		h.Write(n[:])
	}
	sum := sha256.Sum256(body)
	h.Write(sum[:])
	return "send-" + hex.EncodeToString(h.Sum(nil)[:20])
}

// Dataset finds the dataset of the first row of b that an event can be made of, "" if there is none.
func (p *Preparer) Dataset(b *input.Batch) string {
	now := p.Now()
	p.load(b)
	for i := range b.Spans {
		raw, ps := p.check(i, now, map[event.Code]int{})
		if len(ps) > 0 {
			continue
		}
		if r, _ := p.decoder.Decode(string(raw), event.Single, p.Policy, now); r != nil && len(r.Rows) == 1 {
			return strings.Clone(r.Rows[0].DatasetID)
		}
	}
	return ""
}
