package console

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"
	"unique"

	"sluice/internal/lake"
)

// How long numbers are kept in memory. The table keeps hours for 13 months; by the hour we show a week of them.
const (
	hoursKept = 8 * 24 * time.Hour
	daysKept  = 400 * 24 * time.Hour
)

// linesMax bounds what one dataset can put into memory; what comes after is left out of the parts list, never out
// of the totals. Arbitrary, and above 45 types, 35 codes at their fields and 170 currencies together.
const linesMax = 1024

// book holds the hourly numbers of the lake in memory, by the hour for a week and by the day for 13 months.
//
// It costs 16 bytes per number and hour or day: a dataset that is busy around the clock with 30 different numbers
// takes about 280 KB, a thousand of them 280 MB.
type book struct {
	mu   sync.RWMutex
	all  *shelf
	sets map[string]*shelf
}

// line names one number: a kind, and what of that kind.
type line struct{ kind, name, field string }

// own is the line with strings that are shared with all others of the same spelling, and hold no part's pages.
func (l line) own() line {
	return line{unique.Make(l.kind).Value(), unique.Make(l.name).Value(), unique.Make(l.field).Value()}
}

// shelf is one dataset's numbers, or everybody's.
type shelf struct {
	lines map[line]*tape
	last  int64 // the latest hour in which anything was accepted
}

// tape is one number over time.
type tape struct {
	hours, days []cell
	values      map[int64]float64 // sums of money by day and, negative, by hour; nil for most
	first, last int64             // hours of the first and the last count ever seen
	room        [2]cell           // where hours and days begin: saves the collector two of three objects to look at
}

type cell struct {
	at    int64 // Unix seconds, start of the hour or day
	count int64
}

func newBook() *book { return &book{all: newShelf(), sets: map[string]*shelf{}} }

func newShelf() *shelf { return &shelf{lines: map[line]*tape{}} }

// add counts rows in. The same row must not be added twice.
func (b *book) add(rows []Hour, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.addLocked(rows, now)
}

// replace puts rows in the place of everything that is known of a day.
func (b *book) replace(day int32, rows []Hour, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropLocked(day)
	b.addLocked(rows, now)
}

// drop forgets a day.
func (b *book) drop(day int32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropLocked(day)
}

func (b *book) dropLocked(day int32) {
	from := int64(day) * 86400
	b.all.drop(from)
	for _, s := range b.sets {
		s.drop(from)
	}
}

func (s *shelf) drop(from int64) {
	inside := func(c cell) bool { return c.at >= from && c.at < from+86400 }
	for _, t := range s.lines {
		t.hours = slices.DeleteFunc(t.hours, inside)
		t.days = slices.DeleteFunc(t.days, inside)
		delete(t.values, from)
		for h := from; t.values != nil && h < from+86400; h += 3600 {
			delete(t.values, -h)
		}
	}
}

func (b *book) addLocked(rows []Hour, now time.Time) {
	oldest := now.Add(-hoursKept).Unix()
	for i := range rows {
		r := &rows[i]
		set := b.sets[r.DatasetID]
		if set == nil {
			set = newShelf()
			b.sets[strings.Clone(r.DatasetID)] = set
		}
		for _, s := range [...]*shelf{set, b.all} {
			if r.Kind != lake.KindRejections {
				s.add(line{r.Kind, r.Name, r.Field}, r, oldest)
				continue
			}
			s.add(line{kindProblem, r.Name, r.Field}, &Hour{Hour: r.Hour, Count: r.Count}, oldest)
			if r.Value > 0 {
				s.add(line{kindRefused, r.Name, r.Field}, &Hour{Hour: r.Hour, Count: int64(r.Value)}, oldest)
			}
		}
	}
}

// add counts a row in on a line; of the row only hour, count and value matter.
func (s *shelf) add(l line, r *Hour, oldest int64) {
	t := s.lines[l]
	if t == nil && len(s.lines) >= linesMax {
		l.name = "other" // the fields of a kind are few, its names may not be
		t = s.lines[l]
	}
	if t == nil {
		t = &tape{first: r.Hour}
		t.hours, t.days = t.room[0:0:1], t.room[1:1:2]
		s.lines[l.own()] = t
	}
	day := r.Hour - r.Hour%86400
	t.days = addCell(t.days, day, r.Count)
	if r.Hour >= oldest {
		t.hours = addCell(t.hours, r.Hour, r.Count)
	}
	t.first, t.last = min(t.first, r.Hour), max(t.last, r.Hour)
	if r.Value != 0 {
		if t.values == nil {
			t.values = map[int64]float64{}
		}
		t.values[day] += r.Value
		if r.Hour >= oldest {
			t.values[-r.Hour] += r.Value
		}
	}
	if accepted(l) {
		s.last = max(s.last, r.Hour)
	}
}

// addCell keeps the cells in order of time; nearly always it is the last one that grows.
func addCell(cells []cell, at, count int64) []cell {
	i := len(cells)
	for i > 0 && cells[i-1].at > at {
		i--
	}
	if i > 0 && cells[i-1].at == at {
		cells[i-1].count += count
		return cells
	}
	return slices.Insert(cells, i, cell{at, count})
}

// prune forgets what is too old to be shown.
func (b *book) prune(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	hour, day := now.Add(-hoursKept).Unix(), now.Add(-daysKept).Unix()
	b.all.prune(hour, day)
	for id, s := range b.sets {
		if s.prune(hour, day); len(s.lines) == 0 {
			delete(b.sets, id)
		}
	}
}

func (s *shelf) prune(hour, day int64) {
	for l, t := range s.lines {
		t.hours = cut(t.hours, hour)
		t.days = cut(t.days, day)
		for at := range t.values {
			if at < 0 && -at < hour || at >= 0 && at < day {
				delete(t.values, at)
			}
		}
		if len(t.days) == 0 {
			delete(s.lines, l)
		}
	}
}

func cut(cells []cell, from int64) []cell {
	i, _ := slices.BinarySearchFunc(cells, from, func(c cell, at int64) int { return cmp.Compare(c.at, at) })
	if i == 0 {
		return cells
	}
	return slices.Clone(cells[i:])
}

// shelf is a dataset's numbers, everybody's for "". The caller holds the read lock.
func (b *book) shelf(datasetID string) *shelf {
	if datasetID == "" {
		return b.all
	}
	if s := b.sets[datasetID]; s != nil {
		return s
	}
	return newShelf()
}

// window is a stretch of time cut into steps.
type window struct {
	name, say string
	step      int64 // seconds
	steps     int
	from      int64 // start of the first step
}

// spans are the windows a page offers.
var spans = []struct {
	name, label, say string
	step             int64
	steps            int
}{
	{"hour", "Hour", "in the last hour, by the minute", 60, 60},
	{"day", "Day", "in the last 24 hours", 3600, 24},
	{"week", "Week", "in the last 7 days", 3600, 7 * 24},
	{"month", "Month", "in the last 30 days", 86400, 30},
	{"year", "13 months", "in the last 13 months", 86400, 396},
}

// newWindow is the span by this name that ends with the step that is running now.
func newWindow(name string, now time.Time) (window, bool) {
	for _, s := range spans {
		if s.name == name {
			end := now.Unix() - now.Unix()%s.step
			return window{s.name, s.say, s.step, s.steps, end - int64(s.steps-1)*s.step}, true
		}
	}
	return window{}, false
}

func (w window) to() int64 { return w.from + int64(w.steps)*w.step }

// cells are the tape's cells inside the window, at its resolution.
func (t *tape) cells(w window) []cell {
	all := t.days
	if w.step < 86400 {
		all = t.hours
	}
	at := func(c cell, at int64) int { return cmp.Compare(c.at, at) }
	i, _ := slices.BinarySearchFunc(all, w.from, at)
	j, _ := slices.BinarySearchFunc(all, w.to(), at)
	return all[i:j]
}

func (t *tape) sum(w window) (n int64) {
	for _, c := range t.cells(w) {
		n += c.count
	}
	return n
}

func (t *tape) value(w window) (v float64) {
	for at, x := range t.values {
		if w.step < 86400 && at < 0 && -at >= w.from && -at < w.to() || w.step >= 86400 && at >= 0 && at >= w.from && at < w.to() {
			v += x
		}
	}
	return v
}

// spread puts the tape's counts into the window's steps, on top of what is in out.
func (t *tape) spread(w window, out []int64) {
	for _, c := range t.cells(w) {
		out[(c.at-w.from)/w.step] += c.count
	}
}

// totals are the five numbers that every page begins with.
type totals struct{ Accepted, Rejected, Late, Restricted, Suppressed int64 }

func (t totals) received() int64 { return t.Accepted + t.Rejected }

func (t *totals) add(o totals) {
	t.Accepted += o.Accepted
	t.Rejected += o.Rejected
	t.Late += o.Late
	t.Restricted += o.Restricted
	t.Suppressed += o.Suppressed
}

// at is the member of the totals that a line counts into, or nil. Rejected events are counted where their first
// problem is, so that they add up.
func (t *totals) at(l line) *int64 {
	switch {
	case l.kind == kindRefused:
		return &t.Rejected
	case l.kind != lake.KindEvents:
		return nil
	}
	switch l.field {
	case lake.FieldAccepted:
		return &t.Accepted
	case lake.FieldLate:
		return &t.Late
	case lake.FieldRestricted:
		return &t.Restricted
	case lake.FieldSuppressed:
		return &t.Suppressed
	}
	return nil
}

func (s *shelf) totals(w window) (sum totals) {
	for l, t := range s.lines {
		if p := sum.at(l); p != nil {
			*p += t.sum(w)
		}
	}
	return sum
}

// totalsBy are the totals of every step of the window.
func (s *shelf) totalsBy(w window) []totals {
	out := make([]totals, w.steps)
	for l, t := range s.lines {
		if (&totals{}).at(l) == nil {
			continue
		}
		for _, c := range t.cells(w) {
			*out[(c.at-w.from)/w.step].at(l) += c.count
		}
	}
	return out
}

// named is one part of a whole.
type named struct {
	name  string
	count int64
	value float64
	tapes []*tape
}

// parts are the names of the chosen lines with their counts in the window, the largest first.
func (s *shelf) parts(w window, chosen func(line) bool) []named {
	by := map[string]*named{}
	for l, t := range s.lines {
		if !chosen(l) {
			continue
		}
		n := t.sum(w)
		if n == 0 {
			continue
		}
		if by[l.name] == nil {
			by[l.name] = &named{name: l.name}
		}
		p := by[l.name]
		p.count, p.value, p.tapes = p.count+n, p.value+t.value(w), append(p.tapes, t)
	}
	out := make([]named, 0, len(by))
	for _, p := range by {
		out = append(out, *p)
	}
	slices.SortFunc(out, func(a, b named) int { return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.name, b.name)) })
	return out
}

func (s *shelf) count(kind, name string, w window) int64 {
	if t := s.lines[line{kind, name, ""}]; t != nil {
		return t.sum(w)
	}
	return 0
}
