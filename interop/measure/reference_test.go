package measure

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"sluice/event"
	"sluice/internal/measure"
)

// This file says once more what the views hold, from docs/measure.md and without SQL: by loops over all rows.

// impression is a row of an operator's own log. Empty texts are null. The dataset "empty" is the empty text, which is a
// dataset that nobody has.
type impression struct {
	ID      string
	Micros  int64
	Dataset string
	cpID    string
	email   string
	ifa     string
	ip      string
}

// cell is a value of a view: a text, or a number that may differ by a little.
type cell struct {
	text   string
	number float64
	slack  float64 // how much the number may differ
	is     bool    // it is a number
}

func null() cell { return cell{text: "NULL"} }

func text(s string) cell {
	if s == "" {
		return null()
	}
	return cell{text: s}
}

func say(v any) cell { return cell{text: fmt.Sprint(v)} }

// reference is what the views hold.
type reference struct {
	rows     []event.Row
	log      []impression // nil without one
	settings measure.Settings
	zone     *time.Location
}

func lowerHex(s string) bool { return strings.Trim(s, "0123456789abcdefABCDEF") == "" }

// foldIFA is an advertising id as it is compared.
func foldIFA(s string) string {
	parts := strings.Split(s, "-")
	uuid := len(parts) == 5 && lowerHex(strings.Join(parts, "")) && len(parts[0]) == 8 && len(parts[1]) == 4 && len(parts[2]) == 4 && len(parts[3]) == 4 && len(parts[4]) == 12
	if hash := lowerHex(s) && (len(s) == 32 || len(s) == 40 || len(s) == 64); uuid || hash {
		return strings.ToLower(s)
	}
	return s
}

func (f *reference) day(unix int64) cell {
	return say(time.Unix(unix, 0).In(f.zone).Format(time.DateOnly))
}

// typeOf is the type of a row in the views, and whether it is a conversion.
func (f *reference) typeOf(r *event.Row) (string, bool) {
	if named := "custom:" + r.CustomEventName; r.EventType == "custom" && r.CustomEventName != "" && slices.Contains(f.settings.ConversionTypes, named) {
		return named, true
	}
	return r.EventType, slices.Contains(f.settings.ConversionTypes, r.EventType)
}

type conversion struct {
	event.Row
	reports int
	again   []*event.Row // those after the first
}

func sooner(a, b *event.Row) int {
	return cmp.Or(cmp.Compare(a.ReceivedAt, b.ReceivedAt), strings.Compare(a.EventID.String(), b.EventID.String()))
}

func (f *reference) conversions() (out []*conversion) {
	groups := map[[4]string][]*event.Row{}
	for i := range f.rows {
		r := &f.rows[i]
		name, ok := f.typeOf(r)
		if !ok {
			continue
		}
		key := [4]string{r.DatasetID, name, "row", r.EventID.String()}
		if r.SenderEventID != "" {
			key[2], key[3] = "event", r.SenderEventID
		}
		if r.OrderID != "" {
			key[2], key[3] = "order", r.OrderID
		}
		groups[key] = append(groups[key], r)
	}
	for key, group := range groups {
		slices.SortFunc(group, sooner)
		c := &conversion{Row: *group[0], reports: len(group), again: group[1:]}
		c.EventType = key[1]
		for _, r := range group {
			c.OptimizationEligible = c.OptimizationEligible && r.OptimizationEligible
		}
		out = append(out, c)
	}
	return out
}

type refund struct {
	event.Row
	order *conversion
}

func (r *refund) amount() float64 { return math.Abs(r.Value) }

func (f *reference) refunds(all []*conversion) (out []*refund) {
	first := map[[2]string]*event.Row{}
	for i := range f.rows {
		r := &f.rows[i]
		if r.EventType != "refund" {
			continue
		}
		key := [2]string{r.DatasetID, r.SenderEventID}
		if r.SenderEventID == "" {
			key = [2]string{"", r.EventID.String()}
		}
		if had := first[key]; had == nil || sooner(r, had) < 0 {
			first[key] = r
		}
	}
	for _, r := range first {
		x := &refund{Row: *r}
		for _, c := range all {
			if c.EventType == "purchase" && c.DatasetID == r.DatasetID && r.OrderID != "" && c.OrderID == r.OrderID && r.CurrencyCode != "" && c.CurrencyCode == r.CurrencyCode {
				x.order = c
			}
		}
		out = append(out, x)
	}
	return out
}

// sum adds what is plausible.
type sum struct{ total, size float64 }

func (s *sum) add(v float64) {
	if math.Abs(v) <= 1e15 {
		s.total += v
		s.size += math.Abs(v)
	}
}

func (s *sum) cell() cell { return cell{number: s.total, slack: 1e-9 * s.size, is: true} }

func minus(a, b *sum) cell {
	return cell{number: a.total - b.total, slack: 1e-9 * (a.size + b.size), is: true}
}

type counts struct {
	n, late, restricted, suppressed int
	gross, refunded                 sum
}

func currency(r *event.Row) string {
	if !r.HasValue {
		return ""
	}
	return r.CurrencyCode
}

func (f *reference) campaignDays(all []*conversion, refunds []*refund) (out [][]cell) {
	groups := map[[5]string]*counts{}
	at := func(dataset, campaign string, time int64, kind, currency string) *counts {
		key := [5]string{dataset, campaign, f.day(time).text, kind, currency}
		if groups[key] == nil {
			groups[key] = &counts{}
		}
		return groups[key]
	}
	for _, c := range all {
		g := at(c.DatasetID, c.CampaignID, c.EventTime, c.EventType, currency(&c.Row))
		g.n++
		if c.HasValue {
			g.gross.add(c.Value)
		}
		if c.Late {
			g.late++
		}
		switch c.Privacy {
		case event.MeasurementOnly:
			g.restricted++
		case event.Suppressed:
			g.suppressed++
		}
	}
	for _, r := range refunds {
		if !r.HasValue {
			continue
		}
		campaign, when := r.CampaignID, r.EventTime
		if r.order != nil {
			campaign, when = r.order.CampaignID, r.order.EventTime
		}
		at(r.DatasetID, campaign, when, "purchase", r.CurrencyCode).refunded.add(r.amount())
	}
	for k, g := range groups {
		out = append(out, []cell{
			text(k[0]), text(k[1]), text(k[2]), text(k[3]), text(k[4]), say(g.n), g.gross.cell(), g.refunded.cell(), minus(&g.gross, &g.refunded),
			say(g.late), say(g.restricted), say(g.suppressed),
		})
	}
	return out
}

type touch struct {
	impression
	basis, identifier string
	eligible          bool
}

// busy says whether an address comes with too many people in a dataset.
func (f *reference) busy(dataset, ip string) bool {
	people, devices := map[string]bool{}, map[string]bool{}
	for i := range f.rows {
		if r := &f.rows[i]; r.DatasetID == dataset && r.IPSHA256 == ip {
			if r.EmailSHA256 != "" {
				people[r.EmailSHA256] = true
			}
			if r.IFA != "" {
				devices[foldIFA(r.IFA)] = true
			}
		}
	}
	return len(people) > f.settings.HouseholdMax || len(devices) > f.settings.HouseholdMax
}

func (f *reference) touches() (out []touch) {
	add := func(i impression, eligible bool) {
		i.ID = strings.ToLower(i.ID)
		if i.email != "" {
			out = append(out, touch{i, "person", i.email, eligible})
		}
		if i.ifa != "" {
			out = append(out, touch{i, "device", foldIFA(i.ifa), eligible})
		}
		if i.ip != "" && (i.Dataset == "" || !f.busy(i.Dataset, i.ip)) {
			out = append(out, touch{i, "household", i.ip, eligible})
		}
	}
	for _, i := range f.log {
		add(i, true)
	}
	for i := range f.rows {
		r := &f.rows[i]
		if f.log == nil && r.EventType == "ad_impression" && r.Privacy != event.Suppressed {
			add(impression{r.EventID.String(), r.EventTime * 1e6, r.DatasetID, r.CampaignID, r.EmailSHA256, r.IFA, r.IPSHA256}, r.OptimizationEligible)
		}
	}
	return out
}

type attribution struct {
	*conversion
	touch
}

// reaches says whether a touch can get a conversion.
func (f *reference) reaches(t *touch, c *conversion) bool {
	switch {
	case t.Dataset == "" && c.Privacy == event.MeasurementOnly, t.Dataset != "" && t.Dataset != c.DatasetID:
		return false
	case t.basis == "person" && t.identifier != c.EmailSHA256, t.basis == "device" && t.identifier != foldIFA(c.IFA), t.basis == "household" && t.identifier != c.IPSHA256:
		return false
	case t.basis == "household" && f.busy(c.DatasetID, c.IPSHA256):
		return false
	}
	ago := c.EventTime*1e6 - t.Micros
	return ago >= 0 && ago < f.settings.Window.Microseconds()
}

// better compares two touches that reach the same conversion.
func better(a, b *touch) int {
	bit := func(yes bool) int {
		if yes {
			return 1
		}
		return 0
	}
	return cmp.Or(
		cmp.Compare(bit(a.basis == "household"), bit(b.basis == "household")), cmp.Compare(b.Micros, a.Micros),
		strings.Compare(a.ID, b.ID), cmp.Compare(bit(a.basis != "person"), bit(b.basis != "person")),
	)
}

func (f *reference) attributions(all []*conversion, touches []touch) (out []attribution) {
	for _, c := range all {
		if c.Privacy == event.Suppressed {
			continue
		}
		var best *touch
		for i := range touches {
			if t := &touches[i]; f.reaches(t, c) && (best == nil || better(t, best) < 0) {
				best = t
			}
		}
		if best != nil {
			out = append(out, attribution{c, *best})
		}
	}
	return out
}

func (f *reference) attributionDays(all []attribution, refunds []*refund) (out [][]cell) {
	groups := map[[6]string]*counts{}
	at := func(a *attribution, currency string) *counts {
		key := [6]string{a.DatasetID, a.cpID, f.day(a.EventTime).text, a.EventType, a.basis, currency}
		if groups[key] == nil {
			groups[key] = &counts{}
		}
		return groups[key]
	}
	for i := range all {
		a := &all[i]
		g := at(a, currency(&a.Row))
		g.n++
		if a.HasValue {
			g.gross.add(a.Value)
		}
		for _, r := range refunds {
			if r.order == a.conversion && r.HasValue {
				at(a, r.CurrencyCode).refunded.add(r.amount())
			}
		}
	}
	for k, g := range groups {
		out = append(out, []cell{
			text(k[0]), text(k[1]), text(k[2]), text(k[3]), text(k[4]), text(k[5]), say(g.n), g.gross.cell(), g.refunded.cell(), minus(&g.gross, &g.refunded),
		})
	}
	return out
}

func (f *reference) qualityDays(all []*conversion) (out [][]cell) {
	type tally struct {
		n, email, ifa, ip, partner, late, restricted, suppressed, again, joined int
	}
	groups := map[[3]string]*tally{}
	at := func(r *event.Row) *tally {
		name, _ := f.typeOf(r)
		key := [3]string{r.DatasetID, f.day(r.ReceivedAt).text, name}
		if groups[key] == nil {
			groups[key] = &tally{}
		}
		return groups[key]
	}
	one := func(n *int, yes bool) {
		if yes {
			*n++
		}
	}
	for i := range f.rows {
		r := &f.rows[i]
		g := at(r)
		g.n++
		one(&g.email, r.EmailSHA256 != "")
		one(&g.ifa, r.IFA != "")
		one(&g.ip, r.IPSHA256 != "")
		one(&g.partner, r.PartnerID != "")
		one(&g.late, r.Late)
		one(&g.restricted, r.Privacy == event.MeasurementOnly)
		one(&g.suppressed, r.Privacy == event.Suppressed)
		name, converts := f.typeOf(r)
		one(&g.joined, converts && r.OrderID != "" && r.SenderEventID != "" && slices.ContainsFunc(all, func(c *conversion) bool {
			return c.DatasetID == r.DatasetID && c.EventType == name && c.OrderID == "" && c.SenderEventID == r.SenderEventID
		}))
	}
	for _, c := range all {
		for _, r := range c.again {
			at(r).again++
		}
	}
	for k, g := range groups {
		share := func(n int) cell { return cell{number: float64(n) / float64(g.n), slack: 1e-12, is: true} }
		out = append(out, []cell{
			text(k[0]), text(k[1]), text(k[2]), say(g.n), share(g.email), share(g.ifa), share(g.ip), share(g.partner),
			say(g.late), say(g.restricted), say(g.suppressed), say(g.again), say(g.joined),
		})
	}
	return out
}

// stored are the columns of a stored row as an export spells them.
func stored(r *event.Row) (out []cell) {
	for _, c := range event.Columns() {
		if c.Number != nil && *c.Has(r) {
			out = append(out, cell{number: *c.Number(r), is: true})
			continue
		}
		out = append(out, text(string(c.AppendText(nil, r))))
	}
	return out
}

// views are the rows of all views.
func (f *reference) views() map[string][][]cell {
	out := map[string][][]cell{}
	all := f.conversions()
	refunds, touches := f.refunds(all), f.touches()
	attributions := f.attributions(all, touches)
	for _, c := range all {
		out["conversions"] = append(out["conversions"], append(stored(&c.Row), say(c.reports)))
	}
	for _, r := range refunds {
		amount, order := null(), []cell{null(), null(), null()}
		if r.HasValue {
			amount = cell{number: r.amount(), is: true}
		}
		if r.order != nil {
			order = []cell{say(r.order.EventID), say(r.order.EventTime * 1e6), text(r.order.CampaignID)}
		}
		out["refunds"] = append(out["refunds"], append(append(stored(&r.Row), amount), order...))
	}
	for _, t := range touches {
		out["touches"] = append(out["touches"], []cell{say(t.ID), say(t.Micros), text(t.Dataset), text(t.cpID), say(t.basis), say(t.identifier), say(t.eligible)})
	}
	for _, a := range attributions {
		value := null()
		if a.HasValue {
			value = cell{number: a.Value, is: true}
		}
		out["attributions"] = append(out["attributions"], []cell{
			say(a.EventID), text(a.DatasetID), say(a.EventType), say(a.EventTime * 1e6), value, text(a.CurrencyCode),
			say(a.ID), say(a.Micros), text(a.cpID), say(a.basis), say((a.EventTime*1e6 - a.Micros) / 1e6), say(a.OptimizationEligible && a.eligible),
		})
	}
	out["campaign_days"] = f.campaignDays(all, refunds)
	out["attribution_days"] = f.attributionDays(attributions, refunds)
	out["quality_days"] = f.qualityDays(all)
	return out
}
