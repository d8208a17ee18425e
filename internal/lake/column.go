package lake

import (
	"strings"

	"github.com/parquet-go/parquet-go"
)

// column knows how one column of a part becomes one member of a row.
type column[T any] struct {
	name string
	list bool
	// set puts the values of consecutive rows into them. It copies what it keeps.
	set func(rows []T, values []parquet.Value)
}

func textColumn[T any](name string, member func(*T) *string) column[T] {
	return column[T]{name: name, set: func(rows []T, values []parquet.Value) {
		n := 0
		for i := range values {
			n += len(values[i].ByteArray())
		}
		var all strings.Builder // one allocation for all of them
		all.Grow(n)
		last := ""
		for i := range values {
			v := values[i].ByteArray()
			if last != string(v) {
				at := all.Len()
				all.Write(v)
				last = all.String()[at:]
			}
			*member(&rows[i]) = last
		}
	}}
}

func int64Column[T any](name string, member func(*T) *int64) column[T] {
	return column[T]{name: name, set: func(rows []T, values []parquet.Value) {
		for i := range values {
			*member(&rows[i]) = values[i].Int64()
		}
	}}
}

func boolColumn[T any](name string, member func(*T) *bool) column[T] {
	return column[T]{name: name, set: func(rows []T, values []parquet.Value) {
		for i := range values {
			*member(&rows[i]) = values[i].Boolean()
		}
	}}
}

func hashColumn(name string, member func(*eventRow) *hash) column[eventRow] {
	return column[eventRow]{name: name, set: func(rows []eventRow, values []parquet.Value) {
		for i := range values {
			h := member(&rows[i])
			if n := copy(h[:], values[i].ByteArray()); n == 0 {
				*h = hash{}
			}
		}
	}}
}

// eventColumns are all columns of the events table, in its order.
var eventColumns = []column[eventRow]{
	{name: "event_id", set: func(rows []eventRow, values []parquet.Value) {
		for i := range values {
			copy(rows[i].EventID[:], values[i].ByteArray())
		}
	}},
	textColumn("submission_id", func(r *eventRow) *string { return &r.SubmissionID }),
	{name: "submission_index", set: func(rows []eventRow, values []parquet.Value) {
		for i := range values {
			rows[i].SubmissionIndex = values[i].Int32()
		}
	}},
	int64Column("received_at", func(r *eventRow) *int64 { return &r.ReceivedAt }),
	textColumn("data_set_id", func(r *eventRow) *string { return &r.DatasetID }),
	int64Column("event_time", func(r *eventRow) *int64 { return &r.EventTime }),
	textColumn("event_type", func(r *eventRow) *string { return &r.EventType }),
	textColumn("custom_event_name", func(r *eventRow) *string { return &r.CustomEventName }),
	textColumn("source", func(r *eventRow) *string { return &r.Source }),
	textColumn("cp_id", func(r *eventRow) *string { return &r.CampaignID }),
	textColumn("cp_name", func(r *eventRow) *string { return &r.CampaignName }),
	textColumn("referer", func(r *eventRow) *string { return &r.Referer }),
	textColumn("page_url", func(r *eventRow) *string { return &r.PageURL }),
	{name: "value", set: func(rows []eventRow, values []parquet.Value) {
		numbers := make([]float64, len(values))
		for i := range values {
			rows[i].Value = nil
			if !values[i].IsNull() {
				numbers[i] = values[i].Double()
				rows[i].Value = &numbers[i]
			}
		}
	}},
	textColumn("currency_code", func(r *eventRow) *string { return &r.CurrencyCode }),
	hashColumn("email_sha256", func(r *eventRow) *hash { return &r.EmailSHA256 }),
	textColumn("ifa", func(r *eventRow) *string { return &r.IFA }),
	hashColumn("ip_sha256", func(r *eventRow) *hash { return &r.IPSHA256 }),
	textColumn("partner_id", func(r *eventRow) *string { return &r.PartnerID }),
	textColumn("gpp_string", func(r *eventRow) *string { return &r.GPPString }),
	{name: "gpp_sid", list: true, set: setSections},
	textColumn("us_privacy_string", func(r *eventRow) *string { return &r.USPrivacyString }),
	textColumn("privacy", func(r *eventRow) *string { return &r.Privacy }),
	boolColumn("late", func(r *eventRow) *bool { return &r.Late }),
	boolColumn("mmt_only", func(r *eventRow) *bool { return &r.MeasurementOnly }),
	boolColumn("optimization_eligible", func(r *eventRow) *bool { return &r.OptimizationEligible }),
	textColumn("custom_data", func(r *eventRow) *string { return &r.CustomData }),
	textColumn("schema_version", func(r *eventRow) *string { return &r.SchemaVersion }),
}

func setSections(rows []eventRow, values []parquet.Value) {
	numbers := make([]int32, 0, len(values))
	row := -1
	begin := 0
	for i := range values {
		if values[i].RepetitionLevel() == 0 {
			row++
			begin = len(numbers)
			rows[row].GPPSID = nil
		}
		if !values[i].IsNull() {
			numbers = append(numbers, values[i].Int32())
			rows[row].GPPSID = numbers[begin:len(numbers):len(numbers)]
		}
	}
}

var rejectionColumns = []column[rejectionRow]{
	int64Column("received_at", func(r *rejectionRow) *int64 { return &r.ReceivedAt }),
	textColumn("data_set_id", func(r *rejectionRow) *string { return &r.DatasetID }),
	textColumn("submission_id", func(r *rejectionRow) *string { return &r.SubmissionID }),
	textColumn("error_code", func(r *rejectionRow) *string { return &r.Code }),
	textColumn("field", func(r *rejectionRow) *string { return &r.Field }),
	int64Column("count", func(r *rejectionRow) *int64 { return &r.Count }),
	int64Column("events", func(r *rejectionRow) *int64 { return &r.Events }),
}

var hourColumns = []column[hourRow]{
	int64Column("hour", func(r *hourRow) *int64 { return &r.Hour }),
	textColumn("data_set_id", func(r *hourRow) *string { return &r.DatasetID }),
	textColumn("kind", func(r *hourRow) *string { return &r.Kind }),
	textColumn("name", func(r *hourRow) *string { return &r.Name }),
	textColumn("field", func(r *hourRow) *string { return &r.Field }),
	int64Column("count", func(r *hourRow) *int64 { return &r.Count }),
	{name: "value", set: func(rows []hourRow, values []parquet.Value) {
		for i := range values {
			rows[i].Value = values[i].Double()
		}
	}},
}

// split divides columns into the named and the others, both in table order.
func split[T any](columns []column[T], names ...string) (named, others []column[T]) {
	for _, c := range columns {
		found := false
		for _, n := range names {
			found = found || n == c.name
		}
		if found {
			named = append(named, c)
		} else {
			others = append(others, c)
		}
	}
	return named, others
}
