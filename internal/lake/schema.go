package lake

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/apache/iceberg-go"
)

// The tables, in the order in which a commit reaches them. Events come last: where they are, the others are too.
const (
	rejectionsTable = "rejections"
	hoursTable      = "hours"
	eventsTable     = "events"
)

// layout is what a table looks like to other programs. Field ids never change their meaning; the structs that
// parquet-go writes carry the same ids, which a test holds.
type layout struct {
	name   string
	schema *iceberg.Schema
	day    int   // field id of the timestamp whose day is the partition
	order  []int // field ids the rows of a part are sorted by
	bounds []int // field ids whose least and greatest value a snapshot lists; never one that can name a person
}

const (
	dayField    = 1000 // Iceberg numbers partition fields from here
	sortOrderID = 1    // 0 means unsorted
)

func required(id int, name string, t iceberg.Type) iceberg.NestedField {
	return iceberg.NestedField{ID: id, Name: name, Type: t, Required: true}
}

func optional(id int, name string, t iceberg.Type) iceberg.NestedField {
	return iceberg.NestedField{ID: id, Name: name, Type: t}
}

var types = iceberg.PrimitiveTypes

var eventsLayout = layout{
	name: eventsTable,
	schema: iceberg.NewSchema(
		0,
		required(1, "event_id", types.UUID),
		required(2, "submission_id", types.String),
		required(3, "submission_index", types.Int32),
		required(4, "received_at", types.TimestampTz),
		required(5, "data_set_id", types.String),
		required(6, "event_time", types.TimestampTz),
		required(7, "event_type", types.String),
		optional(8, "custom_event_name", types.String),
		optional(9, "source", types.String),
		optional(10, "cp_id", types.String),
		optional(11, "cp_name", types.String),
		optional(12, "referer", types.String),
		optional(13, "page_url", types.String),
		optional(14, "value", types.Float64),
		optional(15, "currency_code", types.String),
		optional(16, "email_sha256", iceberg.FixedTypeOf(32)),
		optional(17, "ifa", types.String),
		optional(18, "ip_sha256", iceberg.FixedTypeOf(32)),
		optional(19, "partner_id", types.String),
		optional(20, "gpp_string", types.String),
		optional(21, "gpp_sid", &iceberg.ListType{ElementID: 29, Element: types.Int32, ElementRequired: true}),
		optional(22, "us_privacy_string", types.String),
		required(23, "privacy", types.String),
		required(24, "late", types.Bool),
		required(25, "mmt_only", types.Bool),
		required(26, "optimization_eligible", types.Bool),
		optional(27, "custom_data", types.String),
		required(28, "schema_version", types.String),
	),
	day:    4,
	order:  []int{5, 6, 1},
	bounds: []int{1, 4, 5, 6},
}

var rejectionsLayout = layout{
	name: rejectionsTable,
	schema: iceberg.NewSchema(
		0,
		required(1, "received_at", types.TimestampTz),
		required(2, "data_set_id", types.String),
		optional(3, "submission_id", types.String),
		required(4, "error_code", types.String),
		required(5, "field", types.String),
		required(6, "count", types.Int64),
		required(7, "events", types.Int64),
	),
	day:    1,
	order:  []int{2, 1},
	bounds: []int{1, 2},
}

var hoursLayout = layout{
	name: hoursTable,
	schema: iceberg.NewSchema(
		0,
		required(1, "hour", types.TimestampTz),
		required(2, "data_set_id", types.String),
		required(3, "kind", types.String),
		required(4, "name", types.String),
		required(5, "field", types.String),
		required(6, "count", types.Int64),
		required(7, "value", types.Float64),
	),
	day:    1,
	order:  []int{2, 1, 3, 4, 5},
	bounds: []int{1, 2},
}

// spec divides by the day of receipt and nothing else: parts per commit must not grow with the number of
// datasets, and the bounds on data_set_id, by which parts are sorted, prune as well (docs/decisions/0004).
func (l *layout) spec() iceberg.PartitionSpec {
	return iceberg.NewPartitionSpecID(0, iceberg.PartitionField{
		SourceIDs: []int{l.day}, FieldID: dayField, Name: "day", Transform: iceberg.DayTransform{},
	})
}

func (l *layout) bounded(id int) bool { return slices.Contains(l.bounds, id) }

func (l *layout) isText(id int) bool {
	f, _ := l.schema.FindFieldByID(id)
	return f.Type == types.String
}

// compare orders two values in Iceberg's single-value form.
func (l *layout) compare(id int, a, b []byte) int {
	f, _ := l.schema.FindFieldByID(id)
	if f.Type == types.TimestampTz {
		return cmp.Compare(int64(binary.LittleEndian.Uint64(a)), int64(binary.LittleEndian.Uint64(b)))
	}
	return bytes.Compare(a, b) // texts and UUIDs
}
