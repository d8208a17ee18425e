package measure

import "sluice/event"

// ViewColumn is a column of a view. The type is Iceberg's name for it; "" means that of the column of events by the
// name Of. So does a Doc of "": what the column means is what that column means.
type ViewColumn struct{ Name, Of, Type, Doc string }

// Doc says what one row of a view is.
func Doc(view string) string { return viewDocs[view] }

var viewDocs = map[string]string{
	"conversions":   "One conversion: the first report of its key, with all columns of events",
	"refunds":       "One refund: its first report with all columns of events, and the order that it takes back",
	"campaign_days": "A dataset, a campaign as the sender names it, a day of event_time, an event type, a currency",
	"touches":       "One impression and one identifier of it",
	"attributions":  "One conversion and the impression that gets it",
	"attribution_days": "A dataset, a campaign of impressions, a day of the conversion, an event type, a basis, a " +
		"currency",
	"quality_days": "A dataset, a day of receipt, an event type",
}

// Columns are the columns of a view, in their order.
func (v *View) Columns() (out []ViewColumn) {
	if v.Name == "conversions" || v.Name == "refunds" {
		for _, c := range event.Columns() {
			out = append(out, as(c.Name))
		}
	}
	return append(out, viewColumns[v.Name]...)
}

// as is a column that is one of events.
func as(name string) ViewColumn { return ViewColumn{Name: name, Of: name} }

var (
	day   = ViewColumn{Name: "day", Type: "date", Doc: "the day, in the time zone of the views"}
	basis = ViewColumn{
		Name: "basis", Type: "string",
		Doc: "person (email_sha256), device (ifa) or household (ip_sha256)",
	}
	campaign = ViewColumn{Name: "cp_id", Of: "cp_id", Doc: "the campaign of the impression"}
	currency = ViewColumn{Name: "currency_code", Of: "currency_code", Doc: "ISO 4217; null where there is no value"}
	shown    = ViewColumn{Name: "impression_id", Type: "string", Doc: "the impression, as lower-case text"}
	shownAt  = ViewColumn{Name: "impression_time", Of: "event_time", Doc: "when the impression was shown"}

	converted  = count("conversions", "how many conversions")
	gross      = number("gross", "sum of their values, but for values beyond 1e15")
	refunded   = number("refunded", "sum of the refunds of these orders")
	net        = number("net", "gross - refunded")
	late       = count("late", "how many of them are late")
	restricted = count("restricted", "how many of them are for measurement only")
	suppressed = count("suppressed", "how many of them are suppressed")
)

func count(name, doc string) ViewColumn  { return ViewColumn{Name: name, Type: "long", Doc: doc} }
func number(name, doc string) ViewColumn { return ViewColumn{Name: name, Type: "double", Doc: doc} }

var viewColumns = map[string][]ViewColumn{
	"conversions": {count("reports", "how many rows of events it stands for")},
	"refunds": {
		number("amount", "the absolute value"),
		{
			Name: "order_event_id", Of: "event_id",
			Doc: "the purchase of the same dataset, order and currency; null where there is none",
		},
		{Name: "order_time", Of: "event_time", Doc: "when that purchase happened"},
		{Name: "order_cp_id", Of: "cp_id", Doc: "the campaign of that purchase"},
	},
	"campaign_days": {
		as("data_set_id"), as("cp_id"), day, as("event_type"), currency, converted, gross,
		number("refunded", "sum of refunds, on the day and campaign of the order; without an order, of the refund"), net,
		late, restricted, suppressed,
	},
	"touches": {
		shown, shownAt, as("data_set_id"), campaign, basis,
		{Name: "identifier", Type: "string", Doc: "its value, hashes as lower-case hex"},
		{Name: "optimization_eligible", Of: "optimization_eligible", Doc: "of the impression"},
	},
	"attributions": {
		as("event_id"), as("data_set_id"), as("event_type"), as("event_time"), as("value"), as("currency_code"), shown,
		shownAt, campaign, basis,
		count("delay_seconds", "from the impression to the conversion, rounded down"),
		{
			Name: "optimization_eligible", Of: "optimization_eligible",
			Doc: "true if it is for the conversion and for the impression",
		},
	},
	"attribution_days": {
		as("data_set_id"), campaign, day, as("event_type"), basis, currency, converted, gross, refunded, net,
	},
	"quality_days": {
		as("data_set_id"), day, as("event_type"), count("events", "how many rows of events"),
		number("email_share", "share with email_sha256, from 0 to 1"),
		number("ifa_share", "share with ifa, from 0 to 1"), number("ip_share", "share with ip_sha256, from 0 to 1"),
		number("partner_share", "share with partner_id, from 0 to 1"), late, restricted, suppressed,
		count("sent_again", "rows beyond the first report of a conversion"),
		count("joined_by_event_id",
			"rows with an order_id, and a sender_event_id that another conversion without order_id has"),
	},
}
