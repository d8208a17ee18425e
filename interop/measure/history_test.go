package measure

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"sluice/event"
	"sluice/internal/measure"
)

// history makes events and settings in which everything that a view decides occurs: reports of one conversion in every form,
// times that are equal or lie at an end of the window, days at a change of clocks, addresses that few and many share.
type history struct {
	*rand.Rand
	settings measure.Settings
	begin    int64 // the first time
	n        uint64
	people   []string // hashes of addresses of e-mail
	devices  []string
	homes    []string     // hashes of IP addresses
	own      []impression // of the log, that rows need
}

// begins are times from which all days and windows lie at a change of clocks of one of the zones.
var begins = []time.Time{
	time.Date(2026, 3, 28, 22, 30, 0, 0, time.UTC), time.Date(2026, 10, 24, 21, 59, 59, 0, time.UTC), time.Date(2026, 11, 1, 4, 0, 0, 0, time.UTC),
}

var zones = []string{"UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Pacific/Apia"}

func newHistory(seed uint64) *history {
	h := &history{Rand: rand.New(rand.NewPCG(seed, 32)), settings: measure.Defaults()}
	h.begin = begins[h.IntN(len(begins))].Unix()
	h.settings.TimeZone = zones[h.IntN(len(zones))]
	if h.IntN(2) == 0 {
		h.settings.Window = []time.Duration{time.Hour, 24 * time.Hour, 3 * time.Second}[h.IntN(3)]
	}
	if h.IntN(2) == 0 {
		h.settings.HouseholdMax = 2
	}
	if h.IntN(2) == 0 {
		h.settings.ConversionTypes = []string{"purchase", "custom:quiz", `custom:it's a \ "name"`, "sign_up"}
	}
	if h.IntN(6) == 0 {
		h.settings.ConversionTypes = []string{"custom:quiz", "sign_up"}
	}
	if h.IntN(2) == 0 {
		h.settings.Impressions = `"my log"`
	}
	for range 3 {
		h.people = append(h.people, h.hash())
		h.homes = append(h.homes, h.hash())
	}
	h.devices = []string{
		"aebe52e7-03ee-455a-b3c4-e57283966239", "AEBE52E7-03EE-455A-B3C4-E57283966239", "97987bca-ae59-4c7d-94ba-ee4f19ab8c21",
		"Shop-Device-1", "shop-device-1", strings.Repeat("aB", 16), strings.Repeat("ab", 16), strings.Repeat("Cd", 20), strings.Repeat("cD", 32),
		strings.Repeat("cd", 32), strings.Repeat("Ee", 13),
	}
	return h
}

func (h *history) hash() string {
	b := make([]byte, 32)
	for i := range b {
		b[i] = byte(h.Uint32())
	}
	return hex.EncodeToString(b)
}

// some is one of the values, or nothing in one of so many cases.
func (h *history) some(nothing int, values ...string) string {
	if nothing > 0 && h.IntN(nothing) == 0 {
		return ""
	}
	return values[h.IntN(len(values))]
}

// time is one of few, of which some are the two sides of the window apart.
func (h *history) time() int64 {
	at := h.begin + []int64{0, 1, 5, 1800, 3599, 3600, 7200, 86399, 86400}[h.IntN(9)]
	window := int64(h.settings.Window / time.Second)
	return at + []int64{0, 0, 0, window, window - 1, window + 1}[h.IntN(6)]
}

func (h *history) id() (id event.ID) {
	h.n++
	for i := range id {
		id[i] = byte(h.Uint32())
	}
	id[15] = byte(h.n)
	return id
}

func (h *history) row() event.Row {
	r := event.Row{
		EventID: h.id(), SubmissionID: "single.x", SubmissionIndex: int32(h.IntN(9)), DatasetID: h.some(0, "shop", "Shop", "other"),
		EventTime: h.time(), SchemaVersion: "1.0", Late: h.IntN(5) == 0, MeasurementOnly: h.IntN(9) == 0,
		EventType: h.some(0, "purchase", "purchase", "purchase", "refund", "refund", "sign_up", "custom", "page_view", "ad_impression", "ad_impression"),
		Source:    h.some(2, "web"), CampaignName: h.some(2, "N"), PageURL: h.some(2, "p"), Referer: h.some(2, "r"),
	}
	r.ReceivedAt = r.EventTime + []int64{0, 1, 1, 3600, 86400}[h.IntN(5)]
	if h.IntN(2) == 0 { // many have the same
		r.ReceivedAt = h.begin + 7200
	}
	if r.EventType == "custom" {
		r.CustomEventName = h.some(0, "quiz", `it's a \ "name"`, "other")
	}
	r.CampaignID = h.some(0, r.DatasetID, "c1", "C1", "c2")
	if h.IntN(5) > 0 {
		r.HasValue, r.Value = true, []float64{0, 10.25, 0.1, -5, 19.99, 1e15, -1e15, 1.5e15, -2e15}[h.IntN(9)]
		r.CurrencyCode = h.some(0, "EUR", "EUR", "USD")
	} else {
		r.CurrencyCode = h.some(2, "EUR")
	}
	r.OrderID = h.some(3, "7", "o1", "O1", "o1 ", "żółć")
	r.SenderEventID = h.some(3, "7", "e1", "E1")
	r.EmailSHA256, r.IFA, r.IPSHA256 = h.some(3, h.people...), h.some(2, h.devices...), h.some(2, h.homes...)
	r.PartnerID, r.CustomData, r.USPrivacyString = h.some(2, "p1"), h.some(2, `{"a":1}`), h.some(3, "1YNN")
	if h.IntN(3) == 0 {
		r.GPPString, r.GPPSID = "DBAA", []int32{7, 8}
	}
	r.Privacy = []event.Outcome{event.Unrestricted, event.Unrestricted, event.Unrestricted, event.MeasurementOnly, event.Suppressed}[h.IntN(5)]
	r.OptimizationEligible = r.Privacy == event.Unrestricted && !r.Late
	if r.Privacy == event.Suppressed {
		own := r.CampaignID == r.DatasetID
		r = event.Row{
			EventID: r.EventID, SubmissionID: r.SubmissionID, SubmissionIndex: r.SubmissionIndex, ReceivedAt: r.ReceivedAt, DatasetID: r.DatasetID,
			EventTime: r.EventTime, EventType: r.EventType, Value: r.Value, HasValue: r.HasValue, CurrencyCode: r.CurrencyCode,
			Privacy: r.Privacy, Late: r.Late, SchemaVersion: "1.0",
		}
		if own {
			r.CampaignID = r.DatasetID
		}
	}
	return r
}

// rows are the events of a history; with edges also some that differ by the least that decides.
func (h *history) rows(n int, edges bool) (out []event.Row) {
	for range n {
		out = append(out, h.row())
	}
	if edges {
		out = append(out, h.keys()...)
		out = append(out, h.windows()...)
		out = append(out, h.crowds()...)
		out = append(out, h.bases()...)
		out = append(out, h.eager()...)
		out = append(out, h.valueless()...)
	}
	return out
}

// report is an event that nothing joins with others but what the caller adds.
func (h *history) report(dataset, kind string, at int64) event.Row {
	r := h.row()
	r.DatasetID, r.EventType, r.EventTime, r.CustomEventName, r.OrderID, r.SenderEventID = dataset, kind, at, "", "", ""
	r.EmailSHA256, r.IFA, r.IPSHA256, r.Privacy = "", "", "", event.Unrestricted
	return r
}

// keys are an event without any, and one whose sender gave it the id of the other: two conversions.
func (h *history) keys() []event.Row {
	a, b := h.report("edge", "purchase", h.begin), h.report("edge", "purchase", h.begin)
	b.SenderEventID = a.EventID.String()
	return []event.Row{a, b}
}

// windows are impressions, each with a purchase at an end of the window.
func (h *history) windows() (out []event.Row) {
	for _, before := range []int64{0, 1} {
		person := h.hash()
		out = append(out, h.impress(impression{Dataset: "edge", Micros: h.begin * 1e6, email: person})...)
		r := h.report("edge", "purchase", h.begin+int64(h.settings.Window/time.Second)-before)
		r.EmailSHA256 = person
		out = append(out, r)
	}
	return out
}

// bases are impressions of a device and of a person, each followed by one of the same household, which is newer and weaker; and
// one of a person and a device, who both buy.
func (h *history) bases() (out []event.Row) {
	for _, device := range []string{"", "5b0f4b6e-0000-4000-8000-00000000000a"} {
		person, home := h.hash(), h.hash()
		if device != "" {
			person = ""
		}
		out = append(out, h.impress(impression{Dataset: "edge", Micros: h.begin * 1e6, email: person, ifa: device})...)
		out = append(out, h.impress(impression{Dataset: "edge", Micros: (h.begin + 1) * 1e6, ip: home})...)
		r := h.report("edge", "purchase", h.begin+2)
		r.EmailSHA256, r.IFA, r.IPSHA256 = person, device, home
		out = append(out, r)
	}
	both := impression{Dataset: "edge", Micros: h.begin * 1e6, email: h.hash(), ifa: "5b0f4b6e-0000-4000-8000-00000000000b"}
	out = append(out, h.impress(both)...)
	r := h.report("edge", "purchase", h.begin)
	r.EmailSHA256, r.IFA = both.email, both.ifa
	return append(out, r)
}

// eager are people with as many impressions as the views hold against each of their purchases, and with more, at the same times.
// They buy before, between and at the times of their impressions.
func (h *history) eager() (out []event.Row) {
	for _, impressions := range []int64{16, 17, 18} {
		person := h.hash()
		for k := range impressions {
			out = append(out, h.impress(impression{Dataset: "edge", Micros: (h.begin + k/2*10) * 1e6, email: person})...)
		}
		for _, at := range []int64{-1, 0, 31, 50, 12 * 10} {
			r := h.report("edge", "purchase", h.begin+at)
			r.EmailSHA256 = person
			out = append(out, r)
		}
	}
	return out
}

// valueless is a purchase without a value, and a refund of it.
func (h *history) valueless() []event.Row {
	person := h.hash()
	out := h.impress(impression{Dataset: "edge", Micros: h.begin * 1e6, email: person})
	for _, kind := range []string{"purchase", "refund"} {
		r := h.report("edge", kind, h.begin+1)
		r.OrderID, r.EmailSHA256, r.CurrencyCode = "valueless", person, "EUR"
		r.HasValue, r.Value = kind == "refund", 0
		if r.HasValue {
			r.Value = 5
		}
		out = append(out, r)
	}
	return out
}

// impress adds an impression: to the log where there is one, else as an event.
func (h *history) impress(i impression) []event.Row {
	h.n++
	if i.ID, i.cpID = fmt.Sprint("own-", h.n), "c1"; h.settings.Impressions != "" {
		h.own = append(h.own, i)
		return nil
	}
	r := h.report(i.Dataset, "ad_impression", i.Micros/1e6)
	r.EmailSHA256, r.IFA, r.IPSHA256 = i.email, i.ifa, i.ip
	return []event.Row{r}
}

// crowds are addresses that as many people share as may, and one more, by their e-mail and by their devices. In those that are
// not too many each comes twice; in the others there is not one event more than needed.
func (h *history) crowds() (out []event.Row) {
	for _, devices := range []bool{false, true} {
		for more := range 2 {
			home := h.hash()
			h.homes = append(h.homes, home)
			out = append(out, h.crowd(home, h.settings.HouseholdMax+more, devices, more == 0)...)
		}
	}
	return out
}

func (h *history) crowd(home string, size int, devices, twice bool) (out []event.Row) {
	for k := range size {
		r := h.report("crowd", h.some(0, "purchase", "page_view", "ad_impression"), h.begin+int64(k))
		switch k { // a match of two people by their household alone
		case 0:
			r.EventType = "ad_impression"
		case 1:
			r.EventType = "purchase"
		}
		r.IPSHA256 = home
		if devices {
			r.IFA = fmt.Sprintf("%08X-0000-4000-8000-%s", k+1, home[:12])
		} else {
			r.EmailSHA256 = fmt.Sprintf("%04x%s", k+1, home[4:])
		}
		if out = append(out, r); twice {
			r.EventID, r.IFA = h.id(), strings.ToLower(r.IFA) // the same person is no other
			out = append(out, r)
		}
	}
	if h.settings.Impressions != "" {
		h.impress(impression{Dataset: h.some(2, "crowd"), Micros: h.begin * 1e6, ip: home})
	}
	return out
}

// log is an operator's own impressions. Each comes once more, a little later, for a dataset that nobody has.
func (h *history) log(n int) (out []impression) {
	out = append(out, h.own...)
	for range n {
		h.n++
		i := impression{
			ID: h.some(0, "Imp-", "imp-", "A") + fmt.Sprint(h.Uint32()), Micros: h.time()*1e6 + []int64{0, 0, 1, 999_999, -1}[h.IntN(5)],
			Dataset: h.some(2, "shop", "Shop", "crowd"), cpID: h.some(4, "c1", "L"), email: h.some(3, h.people...), ifa: h.some(2, h.devices...), ip: h.some(2, h.homes...),
		}
		nobody := i
		nobody.ID, nobody.Micros, nobody.Dataset = i.ID+"-nobody", i.Micros+1, "empty"
		out = append(out, i, nobody)
	}
	return out
}
