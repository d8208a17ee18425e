package event

import (
	"slices"
	"strconv"
	"time"
)

// Column is one column of a stored event: its name, and where its value is in a Row. One of the functions is set, and
// says which type the column has; Has comes with Number. What is absent from a row is null in a table and in JSON.
type Column struct {
	Name     string
	Optional bool // it may be absent

	ID      func(*Row) *ID
	Text    func(*Row) *string // "" is absent
	Hash    func(*Row) *string // a SHA-256 as 64 hex digits; "" is absent
	JSON    func(*Row) *string // an object; "" is absent
	Index   func(*Row) *int32
	Time    func(*Row) *int64   // Unix seconds
	Number  func(*Row) *float64 // absent unless Has
	Has     func(*Row) *bool
	List    func(*Row) *[]int32 // an empty one is absent
	Outcome func(*Row) *Outcome
	Flag    func(*Row) *bool
}

// columns is the one list of what a stored event has. JSON and CSV are made from it; internal/lake adds how each column
// lies in a Parquet file; internal/submission has a wire format of its own that a test holds against it. The order is
// that of the table: a new column comes last.
var columns = []Column{
	{Name: "event_id", ID: func(r *Row) *ID { return &r.EventID }},
	{Name: "submission_id", Text: func(r *Row) *string { return &r.SubmissionID }},
	{Name: "submission_index", Index: func(r *Row) *int32 { return &r.SubmissionIndex }},
	{Name: "received_at", Time: func(r *Row) *int64 { return &r.ReceivedAt }},
	{Name: "data_set_id", Text: func(r *Row) *string { return &r.DatasetID }},
	{Name: "event_time", Time: func(r *Row) *int64 { return &r.EventTime }},
	{Name: "event_type", Text: func(r *Row) *string { return &r.EventType }},
	{Name: "custom_event_name", Optional: true, Text: func(r *Row) *string { return &r.CustomEventName }},
	{Name: "source", Optional: true, Text: func(r *Row) *string { return &r.Source }},
	{Name: "cp_id", Optional: true, Text: func(r *Row) *string { return &r.CampaignID }},
	{Name: "cp_name", Optional: true, Text: func(r *Row) *string { return &r.CampaignName }},
	{Name: "referer", Optional: true, Text: func(r *Row) *string { return &r.Referer }},
	{Name: "page_url", Optional: true, Text: func(r *Row) *string { return &r.PageURL }},
	{Name: "value", Optional: true, Number: func(r *Row) *float64 { return &r.Value }, Has: func(r *Row) *bool {
		return &r.HasValue
	}},
	{Name: "currency_code", Optional: true, Text: func(r *Row) *string { return &r.CurrencyCode }},
	{Name: "email_sha256", Optional: true, Hash: func(r *Row) *string { return &r.EmailSHA256 }},
	{Name: "ifa", Optional: true, Text: func(r *Row) *string { return &r.IFA }},
	{Name: "ip_sha256", Optional: true, Hash: func(r *Row) *string { return &r.IPSHA256 }},
	{Name: "partner_id", Optional: true, Text: func(r *Row) *string { return &r.PartnerID }},
	{Name: "gpp_string", Optional: true, Text: func(r *Row) *string { return &r.GPPString }},
	{Name: "gpp_sid", Optional: true, List: func(r *Row) *[]int32 { return &r.GPPSID }},
	{Name: "us_privacy_string", Optional: true, Text: func(r *Row) *string { return &r.USPrivacyString }},
	{Name: "privacy", Outcome: func(r *Row) *Outcome { return &r.Privacy }},
	{Name: "late", Flag: func(r *Row) *bool { return &r.Late }},
	{Name: "mmt_only", Flag: func(r *Row) *bool { return &r.MeasurementOnly }},
	{Name: "optimization_eligible", Flag: func(r *Row) *bool { return &r.OptimizationEligible }},
	{Name: "custom_data", Optional: true, JSON: func(r *Row) *string { return &r.CustomData }},
	{Name: "schema_version", Text: func(r *Row) *string { return &r.SchemaVersion }},
	{Name: "sender_event_id", Optional: true, Text: func(r *Row) *string { return &r.SenderEventID }},
	{Name: "order_id", Optional: true, Text: func(r *Row) *string { return &r.OrderID }},
}

// Columns are the columns of a stored event, in the order of the table.
func Columns() []Column { return slices.Clone(columns) }

// AppendText adds the value of a row as exports spell it, without quotes; nothing where it is absent.
func (c *Column) AppendText(b []byte, r *Row) []byte {
	switch {
	case c.Text != nil:
		return append(b, *c.Text(r)...)
	case c.Hash != nil:
		return append(b, *c.Hash(r)...)
	case c.JSON != nil:
		return appendLine(b, *c.JSON(r))
	case c.Index != nil:
		return strconv.AppendInt(b, int64(*c.Index(r)), 10)
	case c.Time != nil:
		return time.Unix(*c.Time(r), 0).UTC().AppendFormat(b, time.RFC3339)
	case c.Number != nil && *c.Has(r):
		return appendNumber(b, *c.Number(r))
	case c.List != nil:
		return appendNumbers(b, *c.List(r))
	case c.Outcome != nil:
		return append(b, c.Outcome(r).String()...)
	case c.Flag != nil:
		return strconv.AppendBool(b, *c.Flag(r))
	case c.ID != nil && *c.ID(r) != ID{}:
		return c.ID(r).Append(b)
	}
	return b
}

// appendJSON adds the value of a row, null where it is absent.
func (c *Column) appendJSON(b []byte, r *Row) []byte {
	from := len(b)
	switch {
	case c.Text != nil && *c.Text(r) != "": // the one kind that has to be escaped
		return AppendString(b, *c.Text(r))
	case c.ID != nil, c.Hash != nil, c.Time != nil, c.Outcome != nil:
		b = append(c.AppendText(append(b, '"'), r), '"')
		if len(b) > from+len(`""`) {
			return b
		}
	default:
		if b = c.AppendText(b, r); len(b) > from {
			return b
		}
	}
	return append(b[:from], "null"...)
}
