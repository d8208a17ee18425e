package main

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"
	"strings"
	"time"

	"sluice/client"
	"sluice/event"
)

// problem is one reason why a row was refused. It holds no value of the row.
type problem struct {
	Code    event.Code `json:"error_code"`
	Field   string     `json:"field"`
	Message string     `json:"message"`
	Hint    string     `json:"hint,omitempty"`
}

// refusal is a refused row: its first problem, and all of them if there are more.
type refusal struct {
	Line int64 `json:"line"`
	problem
	Errors []problem `json:"errors,omitempty"`
}

func refuse(line int64, ps ...problem) refusal {
	r := refusal{Line: line, problem: ps[0]}
	if len(ps) > 1 {
		r.Errors = ps
	}
	return r
}

func problemOf(e event.Error) problem { return problem{e.Code, e.Field, e.Message, e.Hint} }

// preparer turns batches into requests: it converts, validates, and puts the valid rows into a body. One goroutine
// at a time.
type preparer struct {
	mapping *mapping // nil: rows are JSON
	policy  event.Policy
	fill    string // data_set_id for JSON rows that have none
	now     func() time.Time

	decoder event.Decoder
	fields  [][]byte
	scratch []byte
	event   []byte // a row with the dataset put into it

	// The batch at hand as events, one behind the other, both as bytes to send and as one string to validate: a string for
	// each row would cost an allocation for each.
	data      []byte
	text      string
	events    []converted
	converted []byte // room for data
}

// converted is where a row's event lies, or why there is none.
type converted struct {
	from, to int
	fault    *rowFault
}

// request is what is sent of a batch.
type request struct {
	body  []byte
	lines []int64 // of the rows in it
}

// prepared is a batch ready to send. Most have one request, a batch without a valid row none.
type prepared struct {
	requests []request
	refused  []refusal
	warnings map[event.Code]int
}

func (p *preparer) prepare(b *batch) *prepared {
	out := &prepared{warnings: map[event.Code]int{}}
	now := p.now()
	p.load(b)
	cur := request{body: make([]byte, 0, len(p.data)+len(b.spans)+2), lines: make([]int64, 0, len(b.spans))}
	flush := func() {
		if len(cur.lines) > 0 {
			cur.body = append(cur.body, ']')
			out.requests = append(out.requests, cur)
			cur = request{}
		}
	}
	for i := range b.spans {
		line := b.spans[i].line
		raw, ps := p.check(i, now, out.warnings)
		if len(ps) > 0 {
			out.refused = append(out.refused, refuse(line, ps...))
			continue
		}
		if len(cur.lines) > 0 && (len(cur.body)+len(raw)+2 > client.MaxBytes || len(cur.lines) == client.MaxEvents) {
			flush()
		}
		sep := byte(',')
		if len(cur.lines) == 0 {
			sep = '['
		}
		cur.body = append(append(cur.body, sep), raw...)
		cur.lines = append(cur.lines, line)
	}
	flush()
	return out
}

// load turns the rows of b into events.
func (p *preparer) load(b *batch) {
	p.events = p.events[:0]
	if p.mapping == nil {
		p.data = b.data
	} else {
		p.data = p.converted[:0]
	}
	for i, span := range b.spans {
		c := converted{from: span.from, to: span.to}
		switch {
		case span.fault != "":
			c.fault = tooLong(span.fault)
		case p.mapping != nil:
			c.from = len(p.data)
			p.data, c.fault = p.convert(p.data, b.row(i))
			c.to = len(p.data)
		}
		if c.to-c.from > maxRow {
			c.fault = tooLong(longRow)
		}
		p.events = append(p.events, c)
	}
	if p.mapping != nil {
		p.converted = p.data
	}
	p.text = string(p.data)
}

func tooLong(message string) *rowFault {
	return &rowFault{event.PayloadTooLarge, "", message, "Look for a missing line break or quote."}
}

// check gives row i of the batch that was loaded as the event to send, or says why it is refused.
func (p *preparer) check(i int, now time.Time, warned map[event.Code]int) ([]byte, []problem) {
	c := p.events[i]
	if c.fault != nil {
		return nil, []problem{{c.fault.code, c.fault.field, c.fault.message, c.fault.hint}}
	}
	raw := p.data[c.from:c.to]
	result, refusal := p.decoder.Decode(p.text[c.from:c.to], event.Single, p.policy, now)
	if refusal == nil && p.fill != "" && p.mapping == nil && lacksDataset(result) {
		raw = p.splice(raw)
		result, refusal = p.decoder.Decode(string(raw), event.Single, p.policy, now)
	}
	switch {
	case refusal != nil:
		return nil, []problem{problemOf(*refusal)}
	case result.Foreign:
		return nil, []problem{{event.DatasetForbidden, "/data_set_id", "The row names another dataset than the one this upload is for.", "Upload each dataset's rows with its own key."}}
	case result.Rejected > 0:
		ps := make([]problem, len(result.Errors))
		for i, e := range result.Errors {
			ps[i] = problemOf(e)
		}
		return nil, ps
	}
	for _, w := range result.Warnings {
		warned[w.Code]++
	}
	return raw, nil
}

// convert adds a record to out as an event.
func (p *preparer) convert(out, record []byte) ([]byte, *rowFault) {
	var err error
	p.fields, p.scratch, err = splitRecord(p.fields[:0], p.scratch, record, p.mapping.delimiter)
	if err != nil {
		hint := "Write a quote inside a field twice, and put the field into quotes."
		if err == errUTF8 {
			hint = "Save the file as UTF-8."
		}
		return out, &rowFault{malformedRow, "", sentence(err), hint}
	}
	return p.mapping.appendEvent(out, p.fields)
}

// sentence is an error in the form of the messages of the rules.
func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

func lacksDataset(r *event.Result) bool {
	for _, e := range r.Errors {
		if e.Code == event.MissingField && e.Field == "/data_set_id" {
			return true
		}
	}
	return false
}

// splice puts the upload's dataset into a JSON row that names none. A row that holds null there keeps it and is then
// refused for the doubled name: it is the sender's to mend.
func (p *preparer) splice(raw []byte) []byte {
	out := append(p.event[:0], `{"data_set_id":`...)
	out = appendString(out, p.fill)
	rest := raw[1:]
	for len(rest) > 0 && (rest[0] == ' ' || rest[0] == '\t' || rest[0] == '\n' || rest[0] == '\r') {
		rest = rest[1:]
	}
	if len(rest) > 0 && rest[0] != '}' {
		out = append(out, ',')
	}
	p.event = append(out, rest...)
	return p.event
}

// keyOf is the Idempotency-Key of one request of a batch. It depends on what the file is, where the batch lies in it
// and what is sent, and on nothing else: an uploader that was killed sends the same key again, and the service
// stores the rows once.
func keyOf(id identity, salt string, b *batch, part int, body []byte) string {
	h := sha256.New()
	io.WriteString(h, "sluice-send 1\n"+id.Sample+"\n"+salt+"\n")
	var n [8]byte
	for _, v := range []int64{id.Size, b.start.Offset, b.end.Offset, int64(part)} {
		binary.BigEndian.PutUint64(n[:], uint64(v))
		h.Write(n[:])
	}
	sum := sha256.Sum256(body)
	h.Write(sum[:])
	return "send-" + hex.EncodeToString(h.Sum(nil)[:20])
}
