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
	q.decoder.Explain = true
	defer func() { q.decoder.Explain = false }()
	res, err := q.decode(body, event.Any, q.server.Now())
	if err != nil {
		return err
	}
	q.out = appendValidation(q.out[:0], res)
	return q.reserve(int64(len(body)+len(q.out)) + overhead)
}

func appendValidation(b []byte, res *event.Result) []byte {
	b = append(b, `{"valid":`...)
	b = strconv.AppendBool(b, res.Rejected == 0)
	b = append(b, `,"accepted":`...)
	b = strconv.AppendInt(b, int64(len(res.Rows)), 10)
	b = append(b, `,"rejected":`...)
	b = strconv.AppendInt(b, int64(res.Rejected), 10)
	b = appendProblems(b, res)
	b = appendRemarks(b, res)
	b = append(b, `,"events":[`...)
	for i := range res.Rows {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendEffect(b, &res.Rows[i], &res.Details[i])
	}
	return append(b, "]}"...)
}

// maxShown is from how many bytes of an answer on the decoded GPP strings are left out. A thousand real ones are half of
// it; hostile ones, whose vendors are forty times as long spelled out, would be some hundred megabytes.
const maxShown = 16 << 20

// appendEffect adds what would become of one valid event.
func appendEffect(b []byte, row *event.Row, d *event.Detail) []byte {
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, int64(row.SubmissionIndex), 10)
	b = append(b, `,"event":`...)
	b = event.AppendJSON(b, row)
	b = append(b, `,"privacy":"`...)
	b = append(b, row.Privacy.String()...)
	b = append(b, `","privacy_reasons":[`...)
	for i, reason := range d.Reasons {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, reason)
	}
	b = append(b, `],"gpp":`...)
	if d.GPP == nil || len(b) > maxShown {
		b = append(b, "null"...)
	} else {
		b = d.GPP.AppendJSON(b)
	}
	return append(b, '}')
}
