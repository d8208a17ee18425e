package lake

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// Reason is why events were rejected: an error code at a field.
type Reason struct {
	Code, Field string
	Events      int64 // events whose first problem it was
	Problems    int64 // how often it was found at all
	First, Last int64 // hours, in Unix seconds, of the first and the last time ever seen, in the window or not

	series *series
}

// AddTo adds the counts of each step of the window to out: events where there are any, else problems.
func (r *Reason) AddTo(out []int64, w Window) { r.series.addTo(out, w) }

// Reasons are why events were rejected in the window. Reasons of the most events come first: to correct the first problem of
// an event is what makes it acceptable, unless it has another.
func (d *DatasetHours) Reasons(w Window) []Reason {
	type place struct{ code, field string }
	by := map[place]*Reason{}
	for k, s := range d.each() {
		if k.kind != kindRejected && k.kind != kindProblem {
			continue
		}
		n := s.sum(w)
		if n == 0 {
			continue
		}
		r := by[place{k.name, k.field}]
		if r == nil {
			r = &Reason{Code: k.name, Field: k.field}
			by[place{k.name, k.field}] = r
		}
		if k.kind == kindRejected {
			r.Events, r.series = n, s
		} else if r.Problems = n; r.series == nil {
			r.series = s
		}
	}
	out := make([]Reason, 0, len(by))
	for _, r := range by {
		r.First, r.Last = r.series.first, r.series.last
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b Reason) int {
		return cmp.Or(cmp.Compare(b.Events, a.Events), cmp.Compare(b.Problems, a.Problems), strings.Compare(a.Code, b.Code), strings.Compare(a.Field, b.Field))
	})
	return out
}

// Rejected are the events of the window whose first problem was this code at this field, and the hour of the first one ever
// seen.
func (d *DatasetHours) Rejected(code, field string, w Window) (events, first int64) {
	s := d.find(kindRejected, code, field)
	if s == nil {
		return 0, 0
	}
	return s.sum(w), s.first
}

// Onset is since when events are rejected with this code at this field without a pause of more than a day: a time in Unix
// seconds, exact to the hour within a week and to the day before that; 0 when there was no such event.
func (d *DatasetHours) Onset(code, field string) int64 {
	s := d.find(kindRejected, code, field)
	if s == nil || len(s.days) == 0 {
		return 0
	}
	i := len(s.hours) - 1
	for i > 0 && s.hours[i].at-s.hours[i-1].at <= 86400 {
		i--
	}
	if i > 0 {
		return s.hours[i].at
	}
	j := len(s.days) - 1
	for j > 0 && s.days[j].at-s.days[j-1].at <= 86400 {
		j--
	}
	if i == 0 && s.days[j].at+86400 > s.hours[0].at {
		return s.hours[0].at
	}
	return max(s.days[j].at, s.first)
}

// weakWeight is what an event counts that carries an address hash as its only identifier: a household, not a person, and it
// changes. Arbitrary, and written out wherever the number is shown.
const weakWeight = 0.4

// ReadinessFormula is how Readiness is computed, for people.
const ReadinessFormula = "100 × (events with an e-mail hash or advertising id + 0.4 × events with only an address hash) ÷ accepted events"

// Readiness says how well accepted events can be matched to persons. Rejected events are no part of it.
type Readiness struct {
	Strong   int64 // events with an e-mail hash or an advertising id
	Weak     int64 // events with an address hash alone
	Accepted int64
}

// Points are 0 to 100 by ReadinessFormula; 0 when nothing was accepted.
func (r Readiness) Points() float64 {
	if r.Accepted == 0 {
		return 0
	}
	return 100 * (float64(r.Strong) + weakWeight*float64(r.Weak)) / float64(r.Accepted)
}

// Readiness is that of the window.
func (d *DatasetHours) Readiness(w Window) Readiness {
	strong := d.Count(KindIdentifiers, "strong", w)
	return Readiness{Strong: strong, Weak: d.Count(KindIdentifiers, "any", w) - strong, Accepted: d.Totals(w).Accepted}
}

// Revenue is the money of one currency: purchases minus refunds.
type Revenue struct {
	Currency           string
	Purchases, Refunds int64 // events that carry a value
	Purchased          float64
	Refunded           float64 // never negative
}

// Net is the revenue.
func (r Revenue) Net() float64 { return r.Purchased - r.Refunded }

// TypeValue is the value of events of a type that is neither a purchase nor a refund. Such values are no revenue: a checkout
// that is followed by a purchase would count twice.
type TypeValue struct {
	Type, Currency string
	Events         int64
	Sum            float64
}

// Mean is the value of an event. There is at least one.
func (v TypeValue) Mean() float64 { return v.Sum / float64(v.Events) }

// Revenue is purchases and refunds in the window by currency, that of the most events first.
//
// Earlier versions of the loader kept refunds with the sign they came with, as one sum (docs/decisions/0041). Of
// that sum the absolute value is taken: right for a dataset whose refunds all have the same sign.
func (d *DatasetHours) Revenue(w Window) []Revenue {
	by := map[string]*Revenue{}
	signed := map[string]float64{}
	at := func(currency string) *Revenue {
		if by[currency] == nil {
			by[currency] = &Revenue{Currency: currency}
		}
		return by[currency]
	}
	for k, s := range d.each() {
		n := s.sum(w)
		switch {
		case n == 0:
		case k.kind == KindValue && k.field == TypePurchase:
			r := at(k.name)
			r.Purchases += n
			r.Purchased += s.value(w)
		case k.kind == KindRefunds:
			r := at(k.name)
			r.Refunds += n
			r.Refunded += s.value(w)
		case k.kind == KindValue && k.field == TypeRefund:
			at(k.name).Refunds += n
			signed[k.name] += s.value(w)
		}
	}
	out := make([]Revenue, 0, len(by))
	for currency, r := range by {
		r.Refunded += math.Abs(signed[currency])
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b Revenue) int {
		return cmp.Or(cmp.Compare(b.Purchases+b.Refunds, a.Purchases+a.Refunds), cmp.Compare(a.Currency, b.Currency))
	})
	return out
}

// OtherValues are the values in the window that are no revenue, by type and currency, those of the most events first.
func (d *DatasetHours) OtherValues(w Window) []TypeValue {
	var out []TypeValue
	for k, s := range d.each() {
		if k.kind != KindValue || k.field == TypePurchase || k.field == TypeRefund {
			continue
		}
		if n := s.sum(w); n > 0 {
			out = append(out, TypeValue{k.field, k.name, n, s.value(w)})
		}
	}
	slices.SortFunc(out, func(a, b TypeValue) int {
		return cmp.Or(cmp.Compare(b.Events, a.Events), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Currency, b.Currency))
	})
	return out
}
