package main

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/event"
	"sluice/internal/lake"
)

// columns are the columns of a CSV export, in the order of a stored row.
var columns = []struct {
	name string
	text func(*event.Row) string
}{
	{"event_id", func(r *event.Row) string { return r.EventID.String() }},
	{"submission_id", func(r *event.Row) string { return r.SubmissionID }},
	{"submission_index", func(r *event.Row) string { return strconv.Itoa(int(r.SubmissionIndex)) }},
	{"received_at", func(r *event.Row) string { return timeText(r.ReceivedAt) }},
	{"data_set_id", func(r *event.Row) string { return r.DatasetID }},
	{"event_time", func(r *event.Row) string { return timeText(r.EventTime) }},
	{"event_type", func(r *event.Row) string { return r.EventType }},
	{"custom_event_name", func(r *event.Row) string { return r.CustomEventName }},
	{"source", func(r *event.Row) string { return r.Source }},
	{"cp_id", func(r *event.Row) string { return r.CampaignID }},
	{"cp_name", func(r *event.Row) string { return r.CampaignName }},
	{"referer", func(r *event.Row) string { return r.Referer }},
	{"page_url", func(r *event.Row) string { return r.PageURL }},
	{"value", valueText},
	{"currency_code", func(r *event.Row) string { return r.CurrencyCode }},
	{"email_sha256", func(r *event.Row) string { return r.EmailSHA256 }},
	{"ifa", func(r *event.Row) string { return r.IFA }},
	{"ip_sha256", func(r *event.Row) string { return r.IPSHA256 }},
	{"partner_id", func(r *event.Row) string { return r.PartnerID }},
	{"gpp_string", func(r *event.Row) string { return r.GPPString }},
	{"gpp_sid", sidText},
	{"us_privacy_string", func(r *event.Row) string { return r.USPrivacyString }},
	{"privacy", func(r *event.Row) string { return r.Privacy.String() }},
	{"late", func(r *event.Row) string { return strconv.FormatBool(r.Late) }},
	{"mmt_only", func(r *event.Row) string { return strconv.FormatBool(r.MeasurementOnly) }},
	{"optimization_eligible", func(r *event.Row) string { return strconv.FormatBool(r.OptimizationEligible) }},
	{"custom_data", func(r *event.Row) string { return r.CustomData }},
	{"schema_version", func(r *event.Row) string { return r.SchemaVersion }},
}

// writeCSV writes a header and a line a row. What is absent is empty; custom_data is JSON, gpp_sid a JSON array.
func writeCSV(cmd *cobra.Command, l *lake.Lake, q lake.Query, w io.Writer) (rows int64, err error) {
	out := csv.NewWriter(w)
	cells := make([]string, len(columns))
	for i := range columns {
		cells[i] = columns[i].name
	}
	if err := out.Write(cells); err != nil {
		return 0, err
	}
	for row, err := range l.Scan(cmd.Context(), q) {
		if err != nil {
			return rows, err
		}
		for i := range columns {
			cells[i] = harmless(columns[i].name, columns[i].text(row))
		}
		if err := out.Write(cells); err != nil {
			return rows, err
		}
		rows++
	}
	out.Flush()
	return rows, out.Error()
}

// harmless puts an apostrophe before a cell that a spreadsheet would run. Numbers are left alone.
func harmless(column, cell string) string {
	if cell == "" || column == "value" || !strings.ContainsRune("=+-@\t\r", rune(cell[0])) {
		return cell
	}
	return "'" + cell
}

func timeText(unix int64) string { return time.Unix(unix, 0).UTC().Format(time.RFC3339) }

func valueText(r *event.Row) string {
	if !r.HasValue {
		return ""
	}
	return strconv.FormatFloat(r.Value, 'f', -1, 64)
}

func sidText(r *event.Row) string {
	if len(r.GPPSID) == 0 {
		return ""
	}
	ids := make([]string, len(r.GPPSID))
	for i, id := range r.GPPSID {
		ids[i] = strconv.Itoa(int(id))
	}
	return "[" + strings.Join(ids, ",") + "]"
}
