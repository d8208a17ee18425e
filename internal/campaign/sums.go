package campaign

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// sumsMax is how many campaigns are added up side by side, and half of it is how many go on when there are more.
// Arbitrary: 16 times what is kept in the end, and some megabytes.
const sumsMax = 16 * Max

// Sums adds up the numbers of the campaigns of one dataset, of any number of hours, in bounded memory: where there are
// too many campaigns, those of the fewest events so far become Other. The zero value is empty.
type Sums struct {
	by     map[key]*Sum
	totals map[string]int64 // events of each campaign
}

type key struct{ kind, name, field string }

// Sum is the sum of a number, and in which hours it was seen first and last, in Unix seconds.
type Sum struct {
	Number
	First, Last int64
}

// Add counts a number.
func (s *Sums) Add(n Sum) {
	if s.by == nil {
		s.by, s.totals = map[key]*Sum{}, map[string]int64{}
	}
	sum := s.by[key{n.Kind, n.Name, n.Field}]
	if sum == nil {
		n.Kind, n.Name, n.Field = strings.Clone(n.Kind), strings.Clone(n.Name), strings.Clone(n.Field)
		s.by[key{n.Kind, n.Name, n.Field}] = &n
	} else {
		sum.fold(&n)
	}
	if n.Kind == KindEvents {
		s.totals[n.Name] += n.Count
		if len(s.totals) > sumsMax {
			s.bound(sumsMax / 2)
		}
	}
}

func (s *Sum) fold(o *Sum) {
	s.Count += o.Count
	s.Value = Fold(s.Kind, s.Value, o.Value)
	s.First, s.Last = min(s.First, o.First), max(s.Last, o.Last)
}

// bound keeps the campaigns of the most events, and makes Other of the others.
func (s *Sums) bound(most int) {
	chosen := Most(s.totals, most)
	if chosen == nil {
		return
	}
	for k, sum := range s.by {
		if chosen[k.name] {
			continue
		}
		delete(s.by, k)
		if k.kind == KindNames {
			continue
		}
		if k.kind == KindEvents {
			s.totals[Other] += sum.Count
		}
		k.name, sum.Name = Other, Other
		if other := s.by[k]; other != nil {
			other.fold(sum)
		} else {
			s.by[k] = sum
		}
	}
	maps.DeleteFunc(s.totals, func(id string, _ int64) bool { return !chosen[id] })
}

// All are the sums of the Max campaigns of the most events, and of what is no campaign, in no order, and of each
// campaign the last name alone. The sums are empty afterwards.
func (s *Sums) All() []*Sum {
	s.bound(Max)
	last := map[string]*Sum{}
	out := make([]*Sum, 0, len(s.by))
	for _, sum := range s.by {
		if sum.Kind != KindNames {
			out = append(out, sum)
		} else if was := last[sum.Name]; was == nil ||
			cmp.Or(cmp.Compare(sum.Value, was.Value), strings.Compare(sum.Field, was.Field)) > 0 {
			last[sum.Name] = sum
		}
	}
	for _, sum := range last {
		out = append(out, sum)
	}
	*s = Sums{}
	return out
}

// Campaign is what was reported of one campaign.
type Campaign struct {
	ID      string             `json:"cp_id"`   // None and Other for what is no campaign
	Name    string             `json:"cp_name"` // last seen
	Events  map[string]int64   `json:"events"`  // by type
	Value   map[string]float64 `json:"value"`   // by currency, without refunds
	Refunds map[string]float64 `json:"refunds"` // by currency, never negative
}

// Total is the number of its events.
func (c *Campaign) Total() (n int64) {
	for _, count := range c.Events {
		n += count
	}
	return n
}

// Campaigns are the Max campaigns of the most events, those of the most first, then None and Other, where there are
// such. The sums are empty afterwards.
func (s *Sums) Campaigns() []Campaign {
	by := map[string]*Campaign{}
	for _, sum := range s.All() {
		id := cmp.Or(sum.Name, None)
		c := by[id]
		if c == nil {
			c = &Campaign{ID: id, Events: map[string]int64{}, Value: map[string]float64{}, Refunds: map[string]float64{}}
			by[id] = c
		}
		switch sum.Kind {
		case KindEvents:
			c.Events[sum.Field] += sum.Count
		case KindValue:
			c.Value[sum.Field] += sum.Value
		case KindRefunds:
			c.Refunds[sum.Field] += sum.Value
		case KindNames:
			c.Name = sum.Field
		}
	}
	out := make([]Campaign, 0, len(by))
	for _, c := range by {
		out = append(out, *c)
	}
	place := map[string]int{None: 1, Other: 2}
	slices.SortFunc(out, func(a, b Campaign) int {
		return cmp.Or(cmp.Compare(place[a.ID], place[b.ID]), cmp.Compare(b.Total(), a.Total()), strings.Compare(a.ID, b.ID))
	})
	return out
}
