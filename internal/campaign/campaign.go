// Package campaign adds up events by campaign, as they were reported: nothing is counted once here. Its numbers are
// rows of the tables hours and days, of four kinds. They are bounded where they are written, for some senders put an id
// of their own making into the campaign of each event.
package campaign

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unique"

	"sluice/event"
)

// Kinds of the tables hours and days. The name is a campaign: empty for events without one, and Other for those beyond
// Max.
const (
	// Field is an event type, Count how many events.
	KindEvents = "campaign_events"
	// Field is a currency, Count how many events other than refunds had a value, Value their sum.
	KindValue = "campaign_value"
	// Field is a currency, Count how many refunds had a value, Value the sum of their absolute values.
	KindRefunds = "campaign_refunds"
	// Field is the last name of the campaign, Value when it was last seen, in Unix seconds. Of two such rows the larger
	// Value counts, not the sum.
	KindNames = "campaign_names"
)

// Names of what is no campaign.
const (
	Other = "(other)" // the campaigns beyond Max, as it is written, and those whose own id is Other or None
	None  = "(none)"  // events without a campaign, as it is shown
)

// Max is how many campaigns of a dataset are written in a commit, are kept of a day, and are shown of a window.
const Max = 1000

// candidates is how many campaigns a tally adds up side by side, and half of it is how many go on when there are more.
// Arbitrary: four times what is written, and about a megabyte.
const candidates = 4 * Max

// Is says whether a kind of number is one by campaign.
func Is(kind string) bool { return strings.HasPrefix(kind, "campaign_") }

// Number is one number of a campaign.
type Number struct {
	Kind, Name, Field string
	Count             int64
	Value             float64
}

// Fold adds one value of a kind to another.
func Fold(kind string, a, b float64) float64 {
	if kind == KindNames {
		return max(a, b)
	}
	return a + b
}

// Tally adds up the events of one dataset in one hour, in bounded memory: where there are too many campaigns, those of
// the fewest events so far become Other. One of them that comes again begins anew, so its numbers are too small; the
// sums of all campaigns stay exact. It keeps nothing of the rows. The zero value is empty.
type Tally struct {
	by    map[string]*cell
	other cell // of the campaigns that were given up
}

// cell is what is known of one campaign.
type cell struct {
	total   int64
	numbers []number
	name    string
	seen    int64
}

// number is a Number without the campaign.
type number struct {
	kind, field string
	count       int64
	value       float64
}

// Len is how many campaigns there are.
func (t *Tally) Len() int { return len(t.by) }

// Numbers is how many numbers Each gives, at most.
func (t *Tally) Numbers() int {
	n := len(t.other.numbers)
	for _, c := range t.by {
		n += len(c.numbers) + 1
	}
	return n
}

// Add counts an event.
func (t *Tally) Add(r *event.Row) {
	c := t.by[r.CampaignID]
	if c == nil {
		c = t.open(r.CampaignID)
	}
	c.total++
	c.add(KindEvents, r.EventType, 1, 0)
	if r.HasValue && math.Abs(r.Value) <= event.MaxPlausibleValue {
		if r.EventType == "refund" {
			c.add(KindRefunds, r.CurrencyCode, 1, math.Abs(r.Value))
		} else {
			c.add(KindValue, r.CurrencyCode, 1, r.Value)
		}
	}
	if r.CampaignName != "" && c != &t.other && r.ReceivedAt >= c.seen {
		c.seen = r.ReceivedAt
		if c.name != r.CampaignName {
			c.name = strings.Clone(r.CampaignName)
		}
	}
}

func (t *Tally) open(id string) *cell {
	if id == Other || id == None { // a sender's own id of that spelling is none of events without a campaign
		return &t.other
	}
	if len(t.by) >= candidates && id != "" {
		t.bound(candidates / 2)
	}
	if t.by == nil {
		t.by = map[string]*cell{}
	}
	c := &cell{}
	t.by[strings.Clone(id)] = c
	return c
}

// bound keeps the campaigns of the most events, and makes Other of the others.
func (t *Tally) bound(most int) {
	totals := make(map[string]int64, len(t.by))
	t.Totals(totals)
	chosen := Most(totals, most)
	for id, c := range t.by {
		if chosen != nil && !chosen[id] {
			t.other.fold(c)
			delete(t.by, id)
		}
	}
}

// fold adds what another cell has, but for its name.
func (c *cell) fold(o *cell) {
	c.total += o.total
	for i := range o.numbers {
		n := &o.numbers[i]
		c.add(n.kind, n.field, n.count, n.value)
	}
}

func (c *cell) add(kind, field string, count int64, value float64) {
	for i := range c.numbers {
		if n := &c.numbers[i]; n.field == field && n.kind == kind {
			n.count += count
			n.value += value
			return
		}
	}
	c.numbers = append(c.numbers, number{kind, unique.Make(field).Value(), count, value})
}

// Totals adds the number of events of each campaign to out.
func (t *Tally) Totals(out map[string]int64) {
	for id, c := range t.by {
		out[id] += c.total
	}
}

// Each hands the numbers to put. Those of campaigns that are not chosen are added up as Other; nil chooses all.
func (t *Tally) Each(chosen map[string]bool, put func(Number)) {
	var other cell
	other.fold(&t.other)
	for id, c := range t.by {
		if chosen == nil || chosen[id] {
			c.each(id, put)
		} else {
			other.fold(c)
		}
	}
	other.each(Other, put)
}

func (c *cell) each(id string, put func(Number)) {
	for _, n := range c.numbers {
		put(Number{n.kind, id, n.field, n.count, n.value})
	}
	if c.name != "" && id != Other {
		put(Number{KindNames, id, c.name, 0, float64(c.seen)})
	}
}

// Most are the campaigns of the most events, at most so many; nil where that is all of them. Events without a campaign
// and Other are none of them, and always chosen.
func Most(totals map[string]int64, most int) map[string]bool {
	type total struct {
		id string
		n  int64
	}
	all := make([]total, 0, len(totals))
	for id, n := range totals {
		if id != "" && id != Other {
			all = append(all, total{id, n})
		}
	}
	if len(all) <= most {
		return nil
	}
	slices.SortFunc(all, func(a, b total) int { return cmp.Or(cmp.Compare(b.n, a.n), strings.Compare(a.id, b.id)) })
	out := map[string]bool{"": true, Other: true}
	for i := range all[:most] {
		out[all[i].id] = true
	}
	return out
}
