package measure

import (
	"fmt"
	"strings"
)

// Dialect is how a program spells what others spell differently. Everything else in the statements is common to all.
type Dialect struct {
	Name string

	create  string // what makes a view, up to its name
	text    string // type of texts
	day     string // %[1]s is a time, %[2]s a zone as a literal
	micros  string // microseconds since 1970 of a time, as an integer
	hex     string // of bytes, in lower case
	anyHex  string // of bytes, or a text that is hex already; the type is known to the program alone
	bytes   string // of a text
	matches string // %[1]s is a text, %[2]s a pattern as a literal
	escape  *strings.Replacer
	// few is up to how many impressions of an identifier are each held against every conversion of it: that takes less
	// than the sort that finds the last one before each. 0 for a program that computes an expression anew wherever it is
	// named. What is true of every group of known then makes DuckDB take that for the smaller side of its join, which it
	// is, and not the conversions.
	few int
}

var dialects = []*Dialect{
	{
		Name: "duckdb", create: "CREATE OR REPLACE VIEW", text: "VARCHAR",
		few: 16, // arbitrary: more than most people see
		// AT TIME ZONE takes ten times as long
		day: "CASE WHEN %[2]s = 'UTC' THEN CAST(make_timestamp(epoch_us(%[1]s)) AS DATE) " +
			"ELSE CAST(%[1]s AT TIME ZONE %[2]s AS DATE) END",
		micros: "epoch_us(%s)",
		hex:    "lower(hex(%s))",
		anyHex: "CASE WHEN typeof(%[1]s) = 'BLOB' THEN lower(hex(CAST(%[1]s AS BLOB))) ELSE lower(CAST(%[1]s AS " +
			"VARCHAR)) END",
		bytes: "encode(%s)", matches: "regexp_full_match(%[1]s, %[2]s)",
		escape: strings.NewReplacer("'", "''"),
	},
	{
		Name: "trino", create: "CREATE OR REPLACE VIEW", text: "VARCHAR",
		day:    "CAST(%[1]s AT TIME ZONE %[2]s AS DATE)",
		micros: "CAST(round(to_unixtime(%s) * 1e6) AS BIGINT)",
		hex:    "lower(to_hex(%s))",
		anyHex: "CASE WHEN typeof(%[1]s) = 'varbinary' THEN lower(to_hex(CAST(%[1]s AS VARBINARY))) " +
			"ELSE lower(from_utf8(CAST(%[1]s AS VARBINARY))) END",
		bytes: "to_utf8(%s)", matches: "regexp_like(%[1]s, %[2]s)",
		escape: strings.NewReplacer("'", "''"),
	},
	{
		Name: "spark", create: "CREATE OR REPLACE TEMPORARY VIEW", text: "STRING",
		day:    "date_add(DATE '1970-01-01', CAST(unix_seconds(from_utc_timestamp(%[1]s, %[2]s)) div 86400 AS INT))",
		micros: "unix_micros(%s)",
		hex:    "lower(hex(%s))",
		anyHex: "CASE WHEN typeof(%[1]s) = 'binary' THEN lower(hex(CAST(%[1]s AS BINARY))) ELSE lower(CAST(%[1]s AS " +
			"STRING)) END",
		bytes: "CAST(%s AS BINARY)", matches: "%[1]s RLIKE %[2]s",
		escape: strings.NewReplacer(`\`, `\\`, "'", `\'`),
	},
	{
		Name: "snowflake", create: "CREATE OR REPLACE VIEW", text: "VARCHAR",
		day:    "CAST(convert_timezone(%[2]s, %[1]s) AS DATE)",
		micros: "date_part(epoch_microsecond, %s)",
		hex:    "hex_encode(%s, 0)",
		anyHex: "hex_encode(to_binary(%[1]s), 0)",
		bytes:  "to_binary(%s, 'UTF-8')", matches: "regexp_like(%[1]s, %[2]s)",
		escape: strings.NewReplacer(`\`, `\\`, "'", "''"),
	},
}

// LookupDialect finds a dialect by its name.
func LookupDialect(name string) (*Dialect, bool) {
	for _, d := range dialects {
		if d.Name == name {
			return d, true
		}
	}
	return nil, false
}

// DialectNames are all dialects.
func DialectNames() (out []string) {
	for _, d := range dialects {
		out = append(out, d.Name)
	}
	return out
}

// literal is a text as a string literal.
func (d *Dialect) literal(text string) string { return "'" + d.escape.Replace(text) + "'" }

// literals are texts with commas between them.
func (d *Dialect) literals(texts []string) string {
	out := make([]string, len(texts))
	for i := range texts {
		out[i] = d.literal(texts[i])
	}
	return strings.Join(out, ", ")
}

// device is the pattern of advertising ids whose case does not matter: UUIDs, and hashes of 32, 40 or 64 digits.
const device = "^([0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}" +
	"|[0-9A-Fa-f]{32}|[0-9A-Fa-f]{40}|[0-9A-Fa-f]{64})$"

// fold is an advertising id as it is compared.
func (d *Dialect) fold(ifa string) string {
	return "CASE WHEN " + fmt.Sprintf(d.matches, ifa, d.literal(device)) + " THEN lower(" + ifa + ") ELSE " + ifa + " END"
}
