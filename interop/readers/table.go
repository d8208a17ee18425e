// Package readers reads the tables with programs that Sluice did not write and that differ in how they read: hyparquet
// (Parquet, by name), icebird (Iceberg, in JavaScript), DuckDB (Parquet, with statistics), arrow-go (Parquet, by position
// and by name) and the table scan of iceberg-go. All give rows in one form, so that they can be compared with what was
// sent. It also recomputes from the values what footers, page indexes and manifests say about them.
package readers

import (
	"sluice/interop/readers/sent"
)

// Row is a row in the form that all readers are compared in; see [sent.Row].
type Row = sent.Row

// Kind is the type of a column.
type Kind int

// The kinds, with the Go type of a value in a Row.
const (
	Text   Kind = iota // string
	UUID               // string, canonical
	Hash               // string, 64 hexadecimal digits
	Time               // int64, microseconds
	Int32              // int64
	Int64              // int64
	Double             // float64
	Bool               // bool
	Int32s             // []int64
)

// Column is one column of a table.
type Column struct {
	ID       int // field id
	Name     string
	Kind     Kind
	Optional bool
	Element  int // field id of the elements of a list
}

// path is the path of the column's values in a Parquet schema.
func (c *Column) path() string {
	if c.Kind == Int32s {
		return c.Name + ".list.element"
	}
	return c.Name
}

// leaf is the field id of the column's values.
func (c *Column) leaf() int {
	if c.Kind == Int32s {
		return c.Element
	}
	return c.ID
}

// Table is what a table must look like. It is written down here once more: a change of the schema by mistake shows.
type Table struct {
	Name    string
	Columns []Column
	Key     []string // columns that tell rows apart when they are compared
	Sums    []string // columns that are added up over rows with the same key before they are compared
}

// Tables are all tables.
var Tables = []*Table{Events, Rejections, Hours, Days}

// Events is the table of events.
var Events = &Table{
	Name: "events",
	Key:  []string{"event_id"},
	Columns: []Column{
		{ID: 1, Name: "event_id", Kind: UUID},
		{ID: 2, Name: "submission_id"},
		{ID: 3, Name: "submission_index", Kind: Int32},
		{ID: 4, Name: "received_at", Kind: Time},
		{ID: 5, Name: "data_set_id"},
		{ID: 6, Name: "event_time", Kind: Time},
		{ID: 7, Name: "event_type"},
		{ID: 8, Name: "custom_event_name", Optional: true},
		{ID: 9, Name: "source", Optional: true},
		{ID: 10, Name: "cp_id", Optional: true},
		{ID: 11, Name: "cp_name", Optional: true},
		{ID: 12, Name: "referer", Optional: true},
		{ID: 13, Name: "page_url", Optional: true},
		{ID: 14, Name: "value", Kind: Double, Optional: true},
		{ID: 15, Name: "currency_code", Optional: true},
		{ID: 16, Name: "email_sha256", Kind: Hash, Optional: true},
		{ID: 17, Name: "ifa", Optional: true},
		{ID: 18, Name: "ip_sha256", Kind: Hash, Optional: true},
		{ID: 19, Name: "partner_id", Optional: true},
		{ID: 20, Name: "gpp_string", Optional: true},
		{ID: 21, Name: "gpp_sid", Kind: Int32s, Optional: true, Element: 29},
		{ID: 22, Name: "us_privacy_string", Optional: true},
		{ID: 23, Name: "privacy"},
		{ID: 24, Name: "late", Kind: Bool},
		{ID: 25, Name: "mmt_only", Kind: Bool},
		{ID: 26, Name: "optimization_eligible", Kind: Bool},
		{ID: 27, Name: "custom_data", Optional: true},
		{ID: 28, Name: "schema_version"},
		{ID: 30, Name: "sender_event_id", Optional: true},
		{ID: 31, Name: "order_id", Optional: true},
	},
}

// Rejections is the table of rejections.
var Rejections = &Table{
	Name: "rejections",
	Key:  []string{"received_at", "data_set_id", "error_code", "field", "count", "events"},
	Columns: []Column{
		{ID: 1, Name: "received_at", Kind: Time},
		{ID: 2, Name: "data_set_id"},
		{ID: 3, Name: "submission_id", Optional: true},
		{ID: 4, Name: "error_code"},
		{ID: 5, Name: "field"},
		{ID: 6, Name: "count", Kind: Int64},
		{ID: 7, Name: "events", Kind: Int64},
	},
}

// Hours is the table of hourly counts. Rows with the same key may be added up at any time.
var Hours = &Table{
	Name: "hours",
	Key:  []string{"hour", "data_set_id", "kind", "name", "field"},
	Sums: []string{"count", "value"},
	Columns: []Column{
		{ID: 1, Name: "hour", Kind: Time},
		{ID: 2, Name: "data_set_id"},
		{ID: 3, Name: "kind"},
		{ID: 4, Name: "name"},
		{ID: 5, Name: "field"},
		{ID: 6, Name: "count", Kind: Int64},
		{ID: 7, Name: "value", Kind: Double},
	},
}

// Days is the table of sums by day. Each key is there once.
var Days = &Table{
	Name: "days",
	Key:  []string{"day", "data_set_id", "kind", "name", "field"},
	Columns: []Column{
		{ID: 1, Name: "day", Kind: Time},
		{ID: 2, Name: "data_set_id"},
		{ID: 3, Name: "kind"},
		{ID: 4, Name: "name"},
		{ID: 5, Name: "field"},
		{ID: 6, Name: "count", Kind: Int64},
		{ID: 7, Name: "value", Kind: Double},
		{ID: 8, Name: "first_hour", Kind: Time},
		{ID: 9, Name: "last_hour", Kind: Time},
	},
}
