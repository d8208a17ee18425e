package lake

import (
	"bytes"
	"cmp"
	"strings"

	"sluice/event"
)

// The tables, in the order in which a commit reaches them. Events come last: where they are, the others are too.
const (
	rejectionsTable = "rejections"
	hoursTable      = "hours"
	eventsTable     = "events"
)

// eventColumns is the table of stored events. How each column is encoded was measured (docs/decisions/0004): hashes
// do not shrink, so nobody tries; words that repeat go to a dictionary; times and ids are near their neighbours.
var eventColumns = []column[event.Row]{
	uuidColumn(1, "event_id", "", func(r *event.Row) *[16]byte { return (*[16]byte)(&r.EventID) }).bound(),
	textColumn(2, "submission_id", "dict", func(r *event.Row) *string { return &r.SubmissionID }),
	int32Column(3, "submission_index", "delta", func(r *event.Row) *int32 { return &r.SubmissionIndex }),
	timeColumn(4, "received_at", "dict", func(r *event.Row) *int64 { return &r.ReceivedAt }).bound(),
	textColumn(5, "data_set_id", "dict", func(r *event.Row) *string { return &r.DatasetID }).bound(),
	timeColumn(6, "event_time", "delta", func(r *event.Row) *int64 { return &r.EventTime }).bound(),
	textColumn(7, "event_type", "dict", func(r *event.Row) *string { return &r.EventType }),
	textColumn(8, "custom_event_name", "dict", func(r *event.Row) *string { return &r.CustomEventName }).null(),
	textColumn(9, "source", "dict", func(r *event.Row) *string { return &r.Source }).null(),
	textColumn(10, "cp_id", "dict", func(r *event.Row) *string { return &r.CampaignID }).null(),
	textColumn(11, "cp_name", "dict", func(r *event.Row) *string { return &r.CampaignName }).null(),
	textColumn(12, "referer", "dict", func(r *event.Row) *string { return &r.Referer }).null(),
	textColumn(13, "page_url", "dict", func(r *event.Row) *string { return &r.PageURL }).null(),
	floatColumn(14, "value", func(r *event.Row) *float64 { return &r.Value }, func(r *event.Row) *bool { return &r.HasValue }),
	textColumn(15, "currency_code", "dict", func(r *event.Row) *string { return &r.CurrencyCode }).null(),
	hashColumn(16, "email_sha256", "uncompressed", func(r *event.Row) *string { return &r.EmailSHA256 }),
	textColumn(17, "ifa", "", func(r *event.Row) *string { return &r.IFA }).null(),
	hashColumn(18, "ip_sha256", "uncompressed", func(r *event.Row) *string { return &r.IPSHA256 }),
	textColumn(19, "partner_id", "", func(r *event.Row) *string { return &r.PartnerID }).null(),
	textColumn(20, "gpp_string", "dict", func(r *event.Row) *string { return &r.GPPString }).null(),
	listColumn(21, 29, "gpp_sid", "dict", func(r *event.Row) *[]int32 { return &r.GPPSID }),
	textColumn(22, "us_privacy_string", "dict", func(r *event.Row) *string { return &r.USPrivacyString }).null(),
	wordColumn(23, "privacy", "dict", func(r *event.Row) string { return r.Privacy.String() }, setPrivacy),
	boolColumn(24, "late", func(r *event.Row) *bool { return &r.Late }),
	boolColumn(25, "mmt_only", func(r *event.Row) *bool { return &r.MeasurementOnly }),
	boolColumn(26, "optimization_eligible", func(r *event.Row) *bool { return &r.OptimizationEligible }),
	textColumn(27, "custom_data", "dict", func(r *event.Row) *string { return &r.CustomData }).null(),
	textColumn(28, "schema_version", "dict", func(r *event.Row) *string { return &r.SchemaVersion }),
}

var eventSchema = newSchema(eventsTable, eventColumns, 4, []int{5, 6, 1}, compareEvents, nil)

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
