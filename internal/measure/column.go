package measure

import "sluice/event"

// ViewColumn is a column of a view. The type is Iceberg's name for it; "" means that of the column of events by the name Of.
type ViewColumn struct{ Name, Of, Type string }

// Columns are the columns of a view, in their order.
func (v *View) Columns() (out []ViewColumn) {
	if v.Name == "conversions" || v.Name == "refunds" {
		for _, c := range event.Columns() {
			out = append(out, ViewColumn{Name: c.Name, Of: c.Name})
		}
	}
	return append(out, viewColumns[v.Name]...)
}

// as is a column that is one of events.
func as(name string) ViewColumn { return ViewColumn{Name: name, Of: name} }

var (
	day      = ViewColumn{Name: "day", Type: "date"}
	basis    = ViewColumn{Name: "basis", Type: "string"}
	shown    = ViewColumn{Name: "impression_id", Type: "string"}
	shownAt  = ViewColumn{Name: "impression_time", Of: "event_time"}
	eligible = as("optimization_eligible")
)

func count(name string) ViewColumn  { return ViewColumn{Name: name, Type: "long"} }
func number(name string) ViewColumn { return ViewColumn{Name: name, Type: "double"} }

var viewColumns = map[string][]ViewColumn{
	"conversions": {count("reports")},
	"refunds":     {number("amount"), {Name: "order_event_id", Of: "event_id"}, {Name: "order_time", Of: "event_time"}, {Name: "order_cp_id", Of: "cp_id"}},
	"campaign_days": {
		as("data_set_id"), as("cp_id"), day, as("event_type"), as("currency_code"), count("conversions"), number("gross"), number("refunded"), number("net"),
		count("late"), count("restricted"), count("suppressed"),
	},
	"touches": {shown, shownAt, as("data_set_id"), as("cp_id"), basis, {Name: "identifier", Type: "string"}, eligible},
	"attributions": {
		as("event_id"), as("data_set_id"), as("event_type"), as("event_time"), as("value"), as("currency_code"), shown, shownAt, as("cp_id"), basis,
		count("delay_seconds"), eligible,
	},
	"attribution_days": {
		as("data_set_id"), as("cp_id"), day, as("event_type"), basis, as("currency_code"), count("conversions"), number("gross"), number("refunded"), number("net"),
	},
	"quality_days": {
		as("data_set_id"), day, as("event_type"), count("events"), number("email_share"), number("ifa_share"), number("ip_share"), number("partner_share"),
		count("late"), count("restricted"), count("suppressed"), count("sent_again"), count("joined_by_event_id"),
	},
}
