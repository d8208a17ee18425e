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
	homes    []string // hashes of IP addresses
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

// rows are the events of a history. crowd adds an address that as many people share as may, and one that one more shares; in
// one of the two by their devices.
func (h *history) rows(n int, crowd bool) (out []event.Row) {
	for range n {
		out = append(out, h.row())
	}
	if !crowd {
		return out
	}
	for i, size := range []int{h.settings.HouseholdMax, h.settings.HouseholdMax + 1, h.settings.HouseholdMax, h.settings.HouseholdMax + 1} {
		home := h.homes[i%len(h.homes)]
		if i == 3 {
			home = h.hash()
			h.homes = append(h.homes, home)
		}
		for k := range size {
			r := h.row()
			r.DatasetID, r.IPSHA256, r.EmailSHA256, r.IFA = "crowd", home, "", ""
			r.Privacy = event.Unrestricted
			if i%2 == 0 {
				r.EmailSHA256 = fmt.Sprintf("%064x", k+1)
			} else {
				r.IFA = fmt.Sprintf("%08X-0000-4000-8000-%012x", k+1, i)
			}
			if k%2 == 0 {
				r.EventType, r.CustomEventName = h.some(0, "ad_impression", "purchase"), ""
			}
			out = append(out, r)
			twice := r // the same person again is no other
			twice.EventID, twice.IFA = h.id(), strings.ToLower(r.IFA)
			out = append(out, twice)
		}
	}
	return out
}

// log is an operator's own impressions.
func (h *history) log(n int) (out []impression) {
	for range n {
		h.n++
		out = append(out, impression{
			ID: h.some(0, "Imp-", "imp-", "A") + fmt.Sprint(h.Uint32()), Micros: h.time()*1e6 + []int64{0, 0, 1, 999_999, -1}[h.IntN(5)],
			Dataset: h.some(2, "shop", "Shop", "crowd"), cpID: h.some(4, "c1", "L"), email: h.some(3, h.people...), ifa: h.some(2, h.devices...), ip: h.some(2, h.homes...),
		})
	}
	return out
}
