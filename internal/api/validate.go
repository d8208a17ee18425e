package api

import (
	"strconv"

	"sluice/event"
)

// validate runs the rules and stores nothing.
func (q *request) validate() error {
	body, err := q.body()
	if err != nil {
		return err
	}
	if err := q.startDecoding(max(len(body), fairSize)); err != nil { // it may cost much, and nobody waits for it
		return err
	}
	q.decoder.Explain = true
	defer func() { q.decoder.Explain = false }()
	now := q.server.Now()
	res, err := q.decode(body, event.Any, now)
	if err != nil {
		return err
	}
	if err := q.charge(res, now); err != nil {
		return err
	}
	reserve := func(size int) error { return q.reserve(int64(held*len(body)+size) + overhead) }
	q.out, err = appendValidation(q.out[:0], res, min(maxShown, leastShown+shownFactor*len(body)), reserve)
	return err
}

// Decoded GPP strings are left out of an answer that is longer than leastShown and shownFactor times the body: a
// thousand real ones fit, hostile ones are spelled out forty times as long as they came. maxShown bounds every answer.
const (
	leastShown  = 512 << 10
	shownFactor = 16
	maxShown    = 16 << 20
)

// answerStep is how many bytes of an answer are reserved at once (arbitrary; more than one event with its string
// needs).
const answerStep = 1 << 20

// appendValidation adds the answer of validate: from shown bytes on without decoded GPP strings. reserve is called
// before the answer gets so long.
func appendValidation(b []byte, res *event.Result, shown int, reserve func(size int) error) ([]byte, error) {
	b = append(b, `{"valid":`...)
	b = strconv.AppendBool(b, res.Rejected == 0)
	b = appendCount(b, `,"accepted":`, len(res.Rows))
	b = appendCount(b, `,"rejected":`, res.Rejected)
	b = appendErrors(b, res.Errors, res.ErrorsTruncated, res.Batch, true)
	b = appendWarnings(b, res.Warnings, res.WarningsTruncated, res.Batch)
	b = append(b, `,"events":[`...)
	reserved := 0
	for i := range res.Rows {
		if len(b)+answerStep/2 > reserved {
			reserved = len(b) + answerStep
			if err := reserve(reserved); err != nil {
				return b, err
			}
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = appendEffect(b, &res.Rows[i], &res.Details[i], len(b) <= shown)
	}
	return append(b, "]}"...), nil
}

// appendEffect adds what would become of one valid event, with its GPP string decoded or without.
func appendEffect(b []byte, row *event.Row, d *event.Detail, decoded bool) []byte {
	b = appendCount(b, `{"index":`, int(row.SubmissionIndex))
	b = append(b, `,"event":`...)
	b = event.AppendJSON(b, row)
	b = append(b, `,"privacy":"`...)
	b = append(b, row.Privacy.String()...)
	b = append(b, `","privacy_reasons":[`...)
	for i, reason := range d.Reasons {
		if i > 0 {
			b = append(b, ',')
		}
		b = event.AppendString(b, reason)
	}
	b = append(b, `],"gpp":`...)
	if d.GPP == nil || !decoded {
		b = append(b, "null"...)
	} else {
		b = d.GPP.AppendJSON(b)
	}
	return append(b, '}')
}
