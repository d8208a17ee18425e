package readers

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"sluice/event"
	"sluice/internal/lake"
	"sluice/internal/submission"
)

// maker makes rows with every column present and absent in every way that matters.
type maker struct {
	*rand.Rand
	n int64 // of everything made so far: makes values unique
}

var odd = []string{
	"plain", "żółć", "🛒 \U0001F9FE", "quote \" and ' and , and \t", "line\nbreak", "\u2028", "null", "0", "\x01",
	strings.Repeat("long ", 300), strings.Repeat("same beginning of many texts ", 3),
}

// text is a word from a small set, an odd text, or one that occurs once.
func (m *maker) text(prefix string) string {
	switch m.n++; m.IntN(4) {
	case 0:
		return odd[m.IntN(len(odd))]
	case 1:
		return fmt.Sprint(prefix, m.n)
	}
	return fmt.Sprint(prefix, m.IntN(20))
}

// id is a UUID whose time is at: made from the seed, unlike those of the service.
func (m *maker) id(at time.Time) (id event.ID) {
	binary.BigEndian.PutUint64(id[:], uint64(at.UnixMilli())<<16|0x7000|uint64(m.IntN(0x1000)))
	binary.BigEndian.PutUint64(id[8:], 1<<63|m.Uint64()>>2)
	return id
}

func (m *maker) hash() string {
	b := make([]byte, 32)
	for i := range b {
		b[i] = byte(m.Uint32())
	}
	if m.IntN(20) == 0 {
		clear(b[1:]) // nearly zero
		b[0] = 1
	}
	return hex.EncodeToString(b)
}

// Ways in which an optional column is sparse.
const (
	never = iota
	always
	sometimes
	// runs is what the library's defect needs: in each 64 rows a run of y values that begins at row y.
	runs
	ways
)

// presence says for each row of a file whether a column is there.
func (m *maker) presence(rows int) []bool {
	out := make([]bool, rows)
	way, share, y := m.IntN(ways), m.Float64(), 0
	if m.IntN(2) == 0 {
		way = runs
	}
	if m.IntN(3) == 0 {
		share *= 0.03
	}
	for i := range out {
		if i%64 == 0 {
			y = 1 + m.IntN(min(31, max(1, rows/2)))
		}
		switch way {
		case always:
			out[i] = true
		case sometimes:
			out[i] = m.Float64() < share
		case runs:
			out[i] = i%64 >= y && i%64 < 2*y
		}
	}
	return out
}

// events makes n rows received from at on, over some days, in the order in which the table sorts the rows of a file.
func (m *maker) events(n, datasets, days int, at time.Time) []event.Row {
	rows := make([]event.Row, n)
	for i := range rows {
		received := at.Add(time.Duration(m.IntN(days)) * 24 * time.Hour).Add(time.Duration(m.IntN(3600)) * time.Second)
		base := m.id(received)
		m.n++
		rows[i] = event.Row{
			EventID: submission.EventID(base, int32(m.n%1000)), SubmissionID: submission.FormatID(submission.Batch, base),
			SubmissionIndex: int32(m.n % 1000), ReceivedAt: received.Unix(), DatasetID: fmt.Sprint("shop-", m.IntN(datasets)),
			EventTime: received.Unix() - int64(m.IntN(30*86400)), EventType: []string{"purchase", "refund", "page_view"}[m.IntN(3)],
			Privacy: event.Outcome(m.IntN(3)), Late: m.IntN(2) == 0, MeasurementOnly: m.IntN(2) == 0, OptimizationEligible: m.IntN(2) == 0,
			SchemaVersion: "1.0",
		}
	}
	slices.SortFunc(rows, func(a, b event.Row) int {
		return strings.Compare(order(&a), order(&b))
	})
	for begin := 0; begin < n; {
		end := begin
		for end < n && rows[end].ReceivedAt/86400 == rows[begin].ReceivedAt/86400 {
			end++
		}
		m.members(rows[begin:end])
		begin = end
	}
	return rows
}

// order is a text by which rows are sorted: by day, and as the table sorts them within it.
func order(r *event.Row) string {
	return fmt.Sprintf("%08d %s %012d %s", r.ReceivedAt/86400, r.DatasetID, r.EventTime, r.EventID)
}

// members gives the rows of one file their optional members.
func (m *maker) members(rows []event.Row) {
	put := func(set func(*event.Row)) {
		for i, has := range m.presence(len(rows)) {
			if has {
				set(&rows[i])
			}
		}
	}
	put(func(r *event.Row) { r.CustomEventName = m.text("name-") })
	put(func(r *event.Row) { r.Source = m.text("source-") })
	put(func(r *event.Row) { r.CampaignID = m.text("campaign-") })
	put(func(r *event.Row) { r.CampaignName = m.text("Campaign ") })
	put(func(r *event.Row) { r.Referer = m.text("https://search.example/?q=") })
	put(func(r *event.Row) { r.PageURL = m.text("https://shop.example/") })
	put(func(r *event.Row) {
		values := []float64{0, math.Copysign(0, -1), -1.5, 1e300, math.SmallestNonzeroFloat64, 0.1, float64(m.IntN(1000)) / 4}
		r.HasValue, r.Value = true, values[m.IntN(len(values))]
	})
	put(func(r *event.Row) { r.CurrencyCode = []string{"EUR", "PLN", "USD"}[m.IntN(3)] })
	put(func(r *event.Row) { r.EmailSHA256 = m.hash() })
	put(func(r *event.Row) { r.IFA = m.text("ifa-") })
	put(func(r *event.Row) { r.IPSHA256 = m.hash() })
	put(func(r *event.Row) { r.PartnerID = m.text("partner-") })
	put(func(r *event.Row) { r.GPPString = m.text("DBAB") })
	put(func(r *event.Row) { r.GPPSID = []int32{7, -1, math.MaxInt32, 8}[:1+m.IntN(4)] })
	put(func(r *event.Row) { r.USPrivacyString = "1YNN" })
	put(func(r *event.Row) { r.SenderEventID = m.text("e ") })
	put(func(r *event.Row) { r.OrderID = m.text("order-") })
	put(func(r *event.Row) { r.CustomData = fmt.Sprintf(`{"order_id":"A-%d","total":%d.50}`, m.n, m.IntN(100)) })
}

// rejections makes rows of the other table; their counts make them unique.
func (m *maker) rejections(n, days int, at time.Time) []lake.Rejection {
	out := make([]lake.Rejection, n)
	for i := range out {
		m.n++
		received := at.Add(time.Duration(m.IntN(days)) * 24 * time.Hour)
		out[i] = lake.Rejection{
			ReceivedAt: received.Unix() + int64(i), DatasetID: "shop-0", Code: "MISSING_FIELD", Field: m.text("/"), Count: m.n, Events: int64(m.IntN(3)),
		}
	}
	for i, has := range m.presence(n) {
		if has {
			out[i].SubmissionID = submission.FormatID(submission.Single, m.id(at))
		}
	}
	return out
}

// hours makes counts whose sums are exact.
func (m *maker) hours(n, datasets, days int, at time.Time) []lake.Hour {
	out := make([]lake.Hour, n)
	for i := range out {
		hour := at.Add(time.Duration(m.IntN(24*days)) * time.Hour).Unix()
		out[i] = lake.Hour{
			Hour: hour - hour%3600, DatasetID: fmt.Sprint("shop-", m.IntN(datasets)), Kind: "value", Name: []string{"EUR", "PLN"}[m.IntN(2)],
			Field: []string{"purchase", ""}[m.IntN(2)], Count: int64(m.IntN(100)), Value: float64(m.IntN(4000)-2000) / 4,
		}
	}
	return out
}

// The rows that must be stored.

func eventRow(r *event.Row) Row {
	out := Row{
		"event_id": r.EventID.String(), "submission_id": r.SubmissionID, "submission_index": int64(r.SubmissionIndex),
		"received_at": r.ReceivedAt * 1e6, "data_set_id": r.DatasetID, "event_time": r.EventTime * 1e6, "event_type": r.EventType,
		"privacy": r.Privacy.String(), "late": r.Late, "mmt_only": r.MeasurementOnly, "optimization_eligible": r.OptimizationEligible,
		"schema_version": r.SchemaVersion,
	}
	for name, text := range map[string]string{
		"custom_event_name": r.CustomEventName, "source": r.Source, "cp_id": r.CampaignID, "cp_name": r.CampaignName, "referer": r.Referer,
		"page_url": r.PageURL, "currency_code": r.CurrencyCode, "email_sha256": r.EmailSHA256, "ifa": r.IFA, "ip_sha256": r.IPSHA256,
		"partner_id": r.PartnerID, "gpp_string": r.GPPString, "us_privacy_string": r.USPrivacyString, "custom_data": r.CustomData,
		"sender_event_id": r.SenderEventID, "order_id": r.OrderID,
	} {
		if text != "" {
			out[name] = text
		}
	}
	if r.HasValue {
		out["value"] = r.Value
	}
	if r.GPPSID != nil {
		list := make([]int64, len(r.GPPSID))
		for i, n := range r.GPPSID {
			list[i] = int64(n)
		}
		out["gpp_sid"] = list
	}
	return out
}

func rejectionRow(r *lake.Rejection) Row {
	out := Row{
		"received_at": r.ReceivedAt * 1e6, "data_set_id": r.DatasetID, "error_code": r.Code, "field": r.Field, "count": r.Count, "events": r.Events,
	}
	if r.SubmissionID != "" {
		out["submission_id"] = r.SubmissionID
	}
	return out
}

func hourRow(h *lake.Hour) Row {
	return Row{
		"hour": h.Hour * 1e6, "data_set_id": h.DatasetID, "kind": h.Kind, "name": h.Name, "field": h.Field, "count": h.Count, "value": h.Value,
	}
}
