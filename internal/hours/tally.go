package hours

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"unique"

	"sluice/event"
	"sluice/internal/campaign"
	"sluice/internal/lake"
	"sluice/internal/submission"
)

// Kinds of the hours table; those of package campaign are beside them. What Name, Field, Count and Value mean for each:
const (
	// Name is an event type, Field one of the Field constants, Count how many events.
	KindEvents = "events"
	// Name is email, ifa, ip, partner, any (of the first three) or strong (of the first two: they name one person
	// or device, not a household), Count how many accepted events carry it.
	KindIdentifiers = "identifiers"
	// Name is an outcome, Count how many accepted events had it.
	KindPrivacy = "privacy"
	// Name is one of AgeNames, Count how many accepted events were that old when they came.
	KindAge = "age"
	// Name is a currency, Field an event type other than TypeRefund, Count how many events had a value, Value their
	// sum, both without values beyond event.MaxPlausibleValue.
	KindValue = "value"
	// Name is a currency, Count how many refunds had a value, Value the sum of their absolute values: senders write a
	// refund of 5 as 5 or as -5, and a sum of both could not be separated again (docs/decisions/0041).
	KindRefunds = "refunds"
	// Name is an error code, Field a JSON Pointer, Count how many problems, Value how many events had it first.
	// The sum of Value is the number of rejected events.
	KindRejections = "rejections"
	// Name is a warning code, Count how many accepted events had it.
	KindWarnings = "warnings"
	// Name is single or batch, Count how many submissions.
	KindSubmissions = "submissions"
	// Name is an error code and Field FieldRejected, Count how many requests were rejected whole with it; or Name is empty
	// and Field FieldReplayed, Count how many requests were answered with the receipt of an earlier one.
	KindRequests = "requests"
)

// The event types that revenue is made of: purchases minus refunds.
const (
	TypePurchase = "purchase"
	TypeRefund   = "refund"
)

// Fields of KindEvents.
const (
	FieldAccepted   = "accepted"
	FieldLate       = "late"
	FieldRestricted = "restricted"
	FieldSuppressed = "suppressed"
	FieldEligible   = "eligible"
)

// Fields of KindRequests.
const (
	FieldRejected = "rejected"
	FieldReplayed = "replayed"
)

// AgeNames are the classes of KindAge in order; each holds ages below the name of the one after it, and the last
// has no end. "future" is for clocks that run ahead.
var AgeNames = [...]string{"future", "0s", "1m", "10m", "1h", "6h", "1d", "3d", "7d"}

var ageEnds = [...]int64{0, 60, 600, 3600, 6 * 3600, 86400, 3 * 86400, int64(event.LateAge.Seconds())}

func ageClass(age int64) int {
	for i, end := range ageEnds {
		if age < end {
			return i
		}
	}
	return len(ageEnds)
}

// Tally adds up the numbers of the table hours for submissions. It keeps nothing of them. The zero value is empty.
type Tally struct {
	cells map[cellKey]*cell
}

type cellKey struct {
	hour    int64
	dataset string
}

func (k cellKey) compare(o cellKey) int {
	return cmp.Or(strings.Compare(k.dataset, o.dataset), cmp.Compare(k.hour, o.hour))
}

type cell struct {
	types       map[string]*typeCell
	values      map[valueKey]*sum // refunds at their absolute value
	rejections  map[rejectionKey]*sum
	warnings    map[string]int64
	requests    map[string]int64 // by code; "" for those that were answered again
	identifiers [len(identifierNames)]int64
	privacy     [3]int64
	ages        [len(AgeNames)]int64
	submissions [2]int64
	campaigns   campaign.Tally
}

type typeCell struct{ accepted, late, restricted, suppressed, eligible int64 }

type valueKey struct{ currency, eventType string }

type rejectionKey struct{ code, field string }

type sum struct {
	count int64
	value float64
}

var (
	identifierNames = [...]string{"email", "ifa", "ip", "partner", "any", "strong"}
	submissionNames = [...]string{"single", "batch"}
)

// Add counts a submission.
func (t *Tally) Add(s *submission.Submission) {
	key := cellKey{s.ReceivedAt - s.ReceivedAt%3600, s.DatasetID}
	if t.cells == nil {
		t.cells = map[cellKey]*cell{}
	}
	c := t.cells[key]
	if c == nil {
		key.dataset = keep(key.dataset)
		c = &cell{
			types: map[string]*typeCell{}, values: map[valueKey]*sum{}, rejections: map[rejectionKey]*sum{},
			warnings: map[string]int64{}, requests: map[string]int64{},
		}
		t.cells[key] = c
	}
	if s.Kind != submission.Rejected {
		c.submissions[s.Kind]++
	}
	for i := range s.Rows {
		c.row(&s.Rows[i])
	}
	for _, w := range s.Warned {
		c.warnings[keep(string(w.Code))] += int64(w.Events)
	}
	for _, r := range s.Requests {
		c.requests[keep(string(r.Code))] += int64(r.Count)
	}
	for _, r := range s.Rejections {
		k := rejectionKey{string(r.Code), r.Field}
		n := c.rejections[k]
		if n == nil {
			n = &sum{}
			c.rejections[rejectionKey{keep(k.code), keep(k.field)}] = n
		}
		n.count += int64(r.Count)
		n.value += float64(r.Events)
	}
}

func (c *cell) row(r *event.Row) {
	t := c.types[r.EventType]
	if t == nil {
		t = &typeCell{}
		c.types[keep(r.EventType)] = t
	}
	t.accepted++
	t.late += one(r.Late)
	t.restricted += one(r.Privacy == event.MeasurementOnly)
	t.suppressed += one(r.Privacy == event.Suppressed)
	t.eligible += one(r.OptimizationEligible)
	for i, has := range [...]bool{
		r.EmailSHA256 != "", r.IFA != "", r.IPSHA256 != "", r.PartnerID != "",
		r.EmailSHA256 != "" || r.IFA != "" || r.IPSHA256 != "", r.EmailSHA256 != "" || r.IFA != "",
	} {
		c.identifiers[i] += one(has)
	}
	if int(r.Privacy) < len(c.privacy) {
		c.privacy[r.Privacy]++
	}
	c.ages[ageClass(r.ReceivedAt-r.EventTime)]++
	c.campaigns.Add(r)
	if r.HasValue && math.Abs(r.Value) <= event.MaxPlausibleValue {
		k := valueKey{r.CurrencyCode, r.EventType}
		n := c.values[k]
		if n == nil {
			n = &sum{}
			c.values[valueKey{keep(k.currency), keep(k.eventType)}] = n
		}
		n.count++
		if r.EventType == TypeRefund {
			n.value += math.Abs(r.Value)
		} else {
			n.value += r.Value
		}
	}
}

// keep is a text in memory of its own. Texts of a submission are parts of its frame: a tally of a thousand datasets
// that kept them would keep a thousand frames.
func keep(text string) string { return unique.Make(text).Value() }

func one(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// CampaignNumbers is how many numbers of campaigns the tally has, in all datasets and hours.
func (t *Tally) CampaignNumbers() (n int) {
	for _, c := range t.cells {
		n += c.campaigns.Numbers()
	}
	return n
}

// Hours are tallies as the rows of one commit, of each dataset at most campaign.Max campaigns. Those of an hour of a
// dataset follow each other, and these are in order: the table sorts them in a fraction of the time.
func Hours(tallies ...*Tally) []lake.Hour {
	most := 0
	campaigns := map[string]int{}
	keys := map[cellKey]bool{}
	for _, t := range tallies {
		for key, c := range t.cells {
			keys[key] = true
			most += 5*len(c.types) + len(c.identifiers) + len(c.privacy) + len(c.ages) + len(c.values) + len(c.rejections) +
				len(c.warnings) + len(c.requests) + len(c.submissions) + c.campaigns.Numbers()
			campaigns[key.dataset] += c.campaigns.Len()
		}
	}
	chosen := map[string]map[string]bool{}
	for id, n := range campaigns {
		if n > campaign.Max {
			chosen[id] = mostCampaigns(id, tallies)
		}
	}
	out := make([]lake.Hour, 0, most)
	for _, key := range slices.SortedFunc(maps.Keys(keys), cellKey.compare) {
		for _, t := range tallies {
			if c := t.cells[key]; c != nil {
				out = c.appendTo(out, key, chosen[key.dataset])
			}
		}
	}
	return out
}

// mostCampaigns chooses campaigns of a dataset.
func mostCampaigns(id string, tallies []*Tally) map[string]bool {
	totals := map[string]int64{}
	for _, t := range tallies {
		for key, c := range t.cells {
			if key.dataset == id {
				c.campaigns.Totals(totals)
			}
		}
	}
	return campaign.Most(totals, campaign.Max)
}

// appendTo appends the rows of a cell; nil chooses all campaigns.
func (c *cell) appendTo(out []lake.Hour, key cellKey, chosen map[string]bool) []lake.Hour {
	put := func(kind, name, field string, count int64, value float64) {
		if count != 0 || value != 0 {
			out = append(out, lake.Hour{
				Hour: key.hour, DatasetID: key.dataset, Kind: kind, Name: name, Field: field, Count: count, Value: value,
			})
		}
	}
	for name, n := range c.types {
		put(KindEvents, name, FieldAccepted, n.accepted, 0)
		put(KindEvents, name, FieldLate, n.late, 0)
		put(KindEvents, name, FieldRestricted, n.restricted, 0)
		put(KindEvents, name, FieldSuppressed, n.suppressed, 0)
		put(KindEvents, name, FieldEligible, n.eligible, 0)
	}
	for i, n := range c.identifiers {
		put(KindIdentifiers, identifierNames[i], "", n, 0)
	}
	for i, n := range c.privacy {
		put(KindPrivacy, event.Outcome(i).String(), "", n, 0)
	}
	for i, n := range c.ages {
		put(KindAge, AgeNames[i], "", n, 0)
	}
	for k, n := range c.values {
		if k.eventType == TypeRefund {
			put(KindRefunds, k.currency, "", n.count, n.value)
		} else {
			put(KindValue, k.currency, k.eventType, n.count, n.value)
		}
	}
	for k, n := range c.rejections {
		put(KindRejections, k.code, k.field, n.count, n.value)
	}
	for code, n := range c.warnings {
		put(KindWarnings, code, "", n, 0)
	}
	for code, n := range c.requests {
		if code == "" {
			put(KindRequests, "", FieldReplayed, n, 0)
		} else {
			put(KindRequests, code, FieldRejected, n, 0)
		}
	}
	for i, n := range c.submissions {
		put(KindSubmissions, submissionNames[i], "", n, 0)
	}
	c.campaigns.Each(chosen, func(n campaign.Number) { put(n.Kind, n.Name, n.Field, n.Count, n.Value) })
	return out
}
