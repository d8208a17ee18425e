package hours

import (
	"cmp"
	"slices"
	"strings"
)

// Reason is why events were rejected: an error code at a field.
type Reason struct {
	Code, Field string
	Events      int64 // events whose first problem it was
	Problems    int64 // how often it was found at all
	First, Last int64 // hours, in Unix seconds, of the first and the last time in the window

	series *series
}

// AddTo adds the counts of each step of the window to out: events where there are any, else problems.
func (r *Reason) AddTo(out []int64, w Window) { r.series.addTo(out, w) }

// Reasons are why events were rejected in the window. Reasons of the most events come first: to correct the first
// problem of an event is what makes it acceptable, unless it has another.
func (d *Dataset) Reasons(w Window) []Reason {
	type place struct{ code, field string }
	by := map[place]*Reason{}
	for k, s := range d.filled().series {
		if k.Kind != kindRejected && k.Kind != kindProblem {
			continue
		}
		n := s.sum(w)
		if n == 0 {
			continue
		}
		r := by[place{k.Name, k.Field}]
		if r == nil {
			r = &Reason{Code: k.Name, Field: k.Field}
			by[place{k.Name, k.Field}] = r
		}
		if k.Kind == kindRejected {
			r.Events, r.series = n, s
			continue
		}
		r.Problems = n
		r.First, r.Last = s.seen(w)
		if r.series == nil {
			r.series = s
		}
	}
	out := make([]Reason, 0, len(by))
	for _, r := range by {
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b Reason) int {
		return cmp.Or(cmp.Compare(b.Events, a.Events), cmp.Compare(b.Problems, a.Problems), strings.Compare(a.Code, b.Code),
			strings.Compare(a.Field, b.Field))
	})
	return out
}

// Onset is since when events are rejected with this code at this field without a pause of more than a day, as far as
// the dataset goes back: a time in Unix seconds, exact to the hour within a week and to the day before that; 0 when
// there was no such event.
func (d *Dataset) Onset(code, field string) int64 {
	return d.find(kindRejected, code, field).onset()
}

// onset is since when the series counts without a pause of more than a day; 0 for one that has counted nothing.
func (s *series) onset() int64 {
	if s == nil || len(s.days) == 0 {
		if s != nil && len(s.hours) > 0 {
			return s.hours[0].at
		}
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
	return int64(s.days[j].first) * 3600
}

// weakWeight is what an event counts that carries an address hash as its only identifier: a household, not a person,
// and it changes. Arbitrary, and written out wherever the number is shown.
const weakWeight = 0.4

// ReadinessFormula is how Readiness is computed, for people.
const ReadinessFormula = "100 × (events with an e-mail hash or advertising id + 0.4 × events with only an address " +
	"hash) ÷ accepted events"

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
func (d *Dataset) Readiness(w Window) Readiness {
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

// Revenue is purchases and refunds in the window by currency, that of the most events first.
func (d *Dataset) Revenue(w Window) []Revenue {
	by := map[string]*Revenue{}
	at := func(currency string) *Revenue {
		if by[currency] == nil {
			by[currency] = &Revenue{Currency: currency}
		}
		return by[currency]
	}
	for k, s := range d.filled().series {
		n := s.sum(w)
		switch {
		case n == 0:
		case k.Kind == KindValue && k.Field == TypePurchase:
			r := at(k.Name)
			r.Purchases += n
			r.Purchased += s.value(w)
		case k.Kind == KindRefunds:
			r := at(k.Name)
			r.Refunds += n
			r.Refunded += s.value(w)
		}
	}
	out := make([]Revenue, 0, len(by))
	for _, r := range by {
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b Revenue) int {
		return cmp.Or(cmp.Compare(b.Purchases+b.Refunds, a.Purchases+a.Refunds), cmp.Compare(a.Currency, b.Currency))
	})
	return out
}
