package main

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"
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
	event   []byte
	text    string
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
	cur := request{body: make([]byte, 0, len(b.data)+len(b.data)/4+len(b.spans)+2)}
	flush := func() {
		if len(cur.lines) > 0 {
			cur.body = append(cur.body, ']')
			out.requests = append(out.requests, cur)
			cur = request{}
		}
	}
	p.load(b)
	for i := range b.spans {
		line := b.spans[i].line
		raw, ps := p.check(b, i, now, out.warnings)
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

// load makes ready for the rows of b.
func (p *preparer) load(b *batch) {
	p.text = ""
	if p.mapping == nil {
		p.text = string(b.data) // one copy for all its rows
	}
}

// check gives row i of the batch that was loaded as the event to send, or says why it is refused.
func (p *preparer) check(b *batch, i int, now time.Time, warned map[event.Code]int) ([]byte, []problem) {
	if fault := b.spans[i].fault; fault != "" {
		return nil, []problem{{event.PayloadTooLarge, "", fault, "Look for a missing line break or quote."}}
	}
	raw, text := b.row(i), ""
	if p.mapping == nil {
		text = p.text[b.spans[i].from:b.spans[i].to]
	} else {
		var fault *rowFault
		if raw, fault = p.convert(raw); fault != nil {
			return nil, []problem{{fault.code, fault.field, fault.message, fault.hint}}
		}
		text = string(raw)
	}
	result, refusal := p.decoder.Decode(text, event.Single, p.policy, now)
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

func (p *preparer) convert(record []byte) ([]byte, *rowFault) {
	var err error
	p.fields, p.scratch, err = splitRecord(p.fields[:0], p.scratch, record, p.mapping.delimiter)
	if err != nil {
		hint := "Write a quote inside a field twice, and put the field into quotes."
		if err == errUTF8 {
			hint = "Save the file as UTF-8."
		}
		return nil, &rowFault{malformedRow, "", err.Error(), hint}
	}
	var fault *rowFault
	p.event, fault = p.mapping.appendEvent(p.event[:0], p.fields)
	return p.event, fault
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
