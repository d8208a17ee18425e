package console

import (
	"cmp"
	"math"
	"slices"

	"sluice/internal/lake"
)

// revenue is the money of one currency: purchases minus refunds.
type revenue struct {
	Currency           string
	Purchases, Refunds int64 // events that carry a value
	Purchased          float64
	Refunded           float64 // never negative
}

// Net is the revenue.
func (r revenue) Net() float64 { return r.Purchased - r.Refunded }

// typeValue is what the events of a type that is neither a purchase nor a refund say they are worth. Such values are
// no revenue: a checkout that is followed by a purchase would count twice.
type typeValue struct {
	Type, Currency string
	Events         int64
	Sum            float64
}

// Mean is the value of an event. There is at least one.
func (v typeValue) Mean() float64 { return v.Sum / float64(v.Events) }

// revenue is purchases and refunds in the window by currency, that of the most events first.
//
// Earlier versions of the loader kept refunds with the sign they came with, as one sum (docs/decisions/0041). Of
// that sum the absolute value is taken: right for a dataset whose refunds all have the same sign.
func (s *shelf) revenue(w window) []revenue {
	by := map[string]*revenue{}
	signed := map[string]float64{}
	at := func(currency string) *revenue {
		if by[currency] == nil {
			by[currency] = &revenue{Currency: currency}
		}
		return by[currency]
	}
	for l, t := range s.lines {
		n := t.sum(w)
		switch {
		case n == 0:
		case l.kind == lake.KindValue && l.field == lake.TypePurchase:
			r := at(l.name)
			r.Purchases += n
			r.Purchased += t.value(w)
		case l.kind == lake.KindRefunds:
			r := at(l.name)
			r.Refunds += n
			r.Refunded += t.value(w)
		case l.kind == lake.KindValue && l.field == lake.TypeRefund:
			at(l.name).Refunds += n
			signed[l.name] += t.value(w)
		}
	}
	out := make([]revenue, 0, len(by))
	for currency, r := range by {
		r.Refunded += math.Abs(signed[currency])
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b revenue) int {
		return cmp.Or(cmp.Compare(b.Purchases+b.Refunds, a.Purchases+a.Refunds), cmp.Compare(a.Currency, b.Currency))
	})
	return out
}

// otherValues are the values in the window that are no revenue, by type and currency, those of the most events first.
func (s *shelf) otherValues(w window) []typeValue {
	var out []typeValue
	for l, t := range s.lines {
		if l.kind != lake.KindValue || l.field == lake.TypePurchase || l.field == lake.TypeRefund {
			continue
		}
		if n := t.sum(w); n > 0 {
			out = append(out, typeValue{l.field, l.name, n, t.value(w)})
		}
	}
	slices.SortFunc(out, func(a, b typeValue) int {
		return cmp.Or(cmp.Compare(b.Events, a.Events), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Currency, b.Currency))
	})
	return out
}
