package lake

import (
	"regexp"
	"strings"
)

// description is what people read of a table: in docs/tables.md, which is made from it, and where an engine describes
// the table. The texts are Markdown.
type description struct {
	text    string
	columns map[string]string
}

var descriptions = map[string]description{
	eventsTable: {"One accepted event", map[string]string{
		"event_id":          "the event. Sluice makes it, and it is the same on every reading",
		"submission_id":     "the request that brought it. `GET /v1/submissions/{submission_id}` shows it",
		"submission_index":  "its position in that request, from 0",
		"received_at":       "when Sluice accepted it",
		"data_set_id":       "the dataset",
		"event_time":        "when it happened, as the sender says",
		"event_type":        "`purchase`, `refund`, `add_to_cart`, …: the list is in [api.md](api.md)",
		"custom_event_name": "the name of an event of type `custom`",
		"source":            "where it comes from, such as `website`, `app`, `offline`",
		"cp_id":             "the campaign. The dataset's id where the sender named none",
		"cp_name":           "the name of the campaign",
		"referer":           "the page before",
		"page_url":          "the page",
		"value": "what it is worth, in `currency_code`, as sent. For refunds see " +
			"[revenue](#what-revenue-means)",
		"currency_code":   "ISO 4217, capital letters",
		"email_sha256":    "SHA-256 of the e-mail address",
		"ifa":             "advertising id; a UUID or hexadecimal digits in lower case",
		"ip_sha256":       "SHA-256 of the IPv4 address",
		"partner_id":      "the sender's own id of the person",
		"sender_event_id": "the sender's own id of what it reports: `id`, else `event_id`, else `custom_data.event_id`",
		"order_id": "the sender's own id of the order: `custom_data.order_id`, else " +
			"`custom_data.transaction_id`",
		"gpp_string":            "consent: the Global Privacy Protocol string",
		"gpp_sid":               "the sections of that string that apply",
		"us_privacy_string":     "consent: the older US string",
		"privacy":               "outcome: `unrestricted`, `measurement_only` or `suppressed` ([privacy.md](privacy.md))",
		"late":                  "it was at least 7 days old when it came",
		"mmt_only":              "the sender asked for measurement only",
		"optimization_eligible": "`privacy` is `unrestricted` and `late` is false",
		"custom_data":           "JSON text, an object",
		"schema_version":        "version of the event format, `1.0`",
	}},
	rejectionsTable: {"One problem in one request, with a count. Rejected events are not stored", map[string]string{
		"received_at":   "when the request came",
		"data_set_id":   "the dataset",
		"submission_id": "the request. Null where the whole request was rejected",
		"error_code":    "the code, such as `MISSING_FIELD`: [api.md](api.md)",
		"field":         "JSON Pointer of the member, such as `/timestamp`. Empty text where the problem has no member",
		"count":         "how often the problem occurred",
		"events":        "events whose first problem it was. These add up to all rejected events",
	}},
	hoursTable: {"One number of one dataset in one hour of receipt. Several rows can have the same `hour`, " +
		"`data_set_id`, `kind`, " +
		"`name` and `field`: always add up `count` and `value`", map[string]string{
		"hour":        "start of the hour in which Sluice accepted the events",
		"data_set_id": "the dataset",
		"kind":        "what is counted: the [kinds](#kinds-of-hours) are in tables.md",
		"name":        "depends on `kind`",
		"field":       "depends on `kind`. Empty text where the kind has none",
		"count":       "how many",
		"value":       "depends on `kind`. 0 where the kind has none",
	}},
	daysTable: {"The sum of `hours` for one number of one dataset in one day of receipt that is over, in UTC. " +
		"Each is there once", map[string]string{
		"day":         "start of the day",
		"data_set_id": "the dataset",
		"kind":        "as in `hours`",
		"name":        "as in `hours`",
		"field":       "as in `hours`",
		"count":       "sum of `count`",
		"value":       "sum of `value`",
		"first_hour":  "the first hour of the day with this number",
		"last_hour":   "the last hour of the day with this number",
	}},
}

// comment is the text of the table without Markdown.
func (d description) comment() string { return withoutMarkdown(d.text) }

// docs are the texts of the columns without Markdown.
func (d description) docs() map[string]string {
	out := map[string]string{}
	for name, text := range d.columns {
		out[name] = withoutMarkdown(text)
	}
	return out
}

var link = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)

// withoutMarkdown is Markdown as an engine shows it: links are their words, and there are no quotes around code.
func withoutMarkdown(markdown string) string {
	return strings.ReplaceAll(link.ReplaceAllString(markdown, "$1"), "`", "")
}
