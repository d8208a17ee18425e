package hours

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"
)

// Window is a stretch of time in equal steps of whole hours or whole days. The times are Unix seconds.
type Window struct {
	From  int64 // start of the first step
	Step  int64 // seconds; below a day the numbers are taken by the hour, which an index keeps for a week
	Steps int
}

// fine says whether the numbers of the window are taken by the hour.
func (w Window) fine() bool { return w.Step < 86400 }

// NewWindow is the window of so many steps that ends with the step that is running at now.
func NewWindow(step time.Duration, steps int, now time.Time) Window {
	s := int64(step / time.Second)
	end := now.Unix() - now.Unix()%s
	return Window{From: end - int64(steps-1)*s, Step: s, Steps: steps}
}

// To is the end of the last step.
func (w Window) To() int64 { return w.From + int64(w.Steps)*w.Step }

// points are those of a series inside the window, at its resolution.
func (s *series) points(w Window) []point {
	all := s.days
	if w.fine() {
		all = s.hours
	}
	i, _ := slices.BinarySearchFunc(all, w.From, comparePoint)
	j, _ := slices.BinarySearchFunc(all, w.To(), comparePoint)
	return all[i:j]
}

func (s *series) sum(w Window) (n int64) {
	for _, p := range s.points(w) {
		n += p.count
	}
	return n
}

// seen are the first and the last hour of the window with a count.
func (s *series) seen(w Window) (first, last int64) {
	for _, p := range s.points(w) {
		if p.count == 0 {
			continue
		}
		if first == 0 {
			first = int64(p.first) * 3600
		}
		last = int64(p.last) * 3600
	}
	return first, last
}

func (s *series) value(w Window) (v float64) {
	for at, x := range s.values {
		if w.fine() && at < 0 && -at >= w.From && -at < w.To() || !w.fine() && at >= 0 && at >= w.From && at < w.To() {
			v += x
		}
	}
	return v
}

// addTo adds the counts of each step of the window to out.
func (s *series) addTo(out []int64, w Window) {
	for _, p := range s.points(w) {
		out[(p.at-w.From)/w.Step] += p.count
	}
}

// Totals are numbers of events. Late, Restricted and Suppressed are among the accepted ones.
type Totals struct{ Accepted, Rejected, Late, Restricted, Suppressed int64 }

// Received are all events of the totals.
func (t Totals) Received() int64 { return t.Accepted + t.Rejected }

// Add adds other totals.
func (t *Totals) Add(o Totals) {
	t.Accepted += o.Accepted
	t.Rejected += o.Rejected
	t.Late += o.Late
	t.Restricted += o.Restricted
	t.Suppressed += o.Suppressed
}

func (t *Totals) at(total int) *int64 {
	return [totalCount]*int64{&t.Accepted, &t.Rejected, &t.Late, &t.Restricted, &t.Suppressed}[total]
}

// Last is the latest hour, in Unix seconds, in which an event was accepted; 0 when there is none.
func (d *Dataset) Last() int64 { return d.last }

// Totals are the sums of the window.
func (d *Dataset) Totals(w Window) (sum Totals) {
	d.eachTotal(w, func(total, _ int, count int64) { *sum.at(total) += count })
	return sum
}

// TotalsBy are the totals of each step of the window.
func (d *Dataset) TotalsBy(w Window) []Totals {
	out := make([]Totals, w.Steps)
	d.eachTotal(w, func(total, step int, count int64) { *out[step].at(total) += count })
	return out
}

// Count is the number of one kind and name without a field, such as KindIdentifiers and "email".
func (d *Dataset) Count(kind, name string, w Window) int64 {
	if s := d.find(kind, name, ""); s != nil {
		return s.sum(w)
	}
	return 0
}

// Group is what has one name: its count, and its sum of money where the kind has one.
type Group struct {
	Name   string
	Count  int64
	Value  float64
	series []*series
}

// AddTo adds the counts of each step of the window to out.
func (g *Group) AddTo(out []int64, w Window) {
	for _, s := range g.series {
		s.addTo(out, w)
	}
}

// Groups are the names of a kind with their counts in the window, the largest first.
func (d *Dataset) Groups(kind string, w Window) []Group {
	return groups(maps.Values(d.filled().series), w, func(k seriesKey) bool { return k.Kind == kind })
}

// Types are the types of the accepted events in the window, the largest first.
func (d *Dataset) Types(w Window) []Group {
	return groups(maps.Values(d.filled().series), w, seriesKey.accepted)
}

// groups are the chosen series by their names.
func groups(all iter.Seq[*series], w Window, chosen func(seriesKey) bool) []Group {
	by := map[string]*Group{}
	for s := range all {
		k := s.key
		if !chosen(k) {
			continue
		}
		n := s.sum(w)
		if n == 0 {
			continue
		}
		if by[k.Name] == nil {
			by[k.Name] = &Group{Name: k.Name}
		}
		g := by[k.Name]
		g.Count, g.Value, g.series = g.Count+n, g.Value+s.value(w), append(g.series, s)
	}
	out := make([]Group, 0, len(by))
	for _, g := range by {
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// AcceptedBy are the accepted events of each step of the window.
func (d *Dataset) AcceptedBy(w Window) []int64 { return d.by(w, totalAccepted) }

// RejectedBy are the rejected events of each step of the window.
func (d *Dataset) RejectedBy(w Window) []int64 { return d.by(w, totalRejected) }

func (d *Dataset) by(w Window, total int) []int64 {
	out := make([]int64, w.Steps)
	d.eachTotal(w, func(t, step int, count int64) {
		if t == total {
			out[step] += count
		}
	})
	return out
}

// eachTotal hands the counts of the totals in the window to yield, with the step they are in.
func (d *Dataset) eachTotal(w Window, yield func(total, step int, count int64)) {
	if d.packed == nil {
		for total := range d.totals {
			for _, p := range d.totals[total].points(w) {
				yield(total, int((p.at-w.From)/w.Step), p.count)
			}
		}
		return
	}
	if !w.fine() { // days are not packed
		return
	}
	in := unpacker{b: d.packed}
	for total := range d.totals {
		in.points(3600, func(hour, count int64) {
			if hour >= w.From && hour < w.To() {
				yield(total, int((hour-w.From)/w.Step), count)
			}
		})
	}
	for s := range d.pending {
		if total := s.key.total(); total >= 0 {
			for _, p := range s.points(w) {
				yield(total, int((p.at-w.From)/w.Step), p.count)
			}
		}
	}
}
