package readers

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
)

// Report collects what is wrong.
type Report struct {
	counts   map[[3]string]int // who, table, what
	examples map[[3]string]string
}

func (r *Report) add(who, table, what, example string) {
	if r.counts == nil {
		r.counts, r.examples = map[[3]string]int{}, map[[3]string]string{}
	}
	key := [3]string{who, table, what}
	if r.counts[key]++; r.counts[key] == 1 {
		r.examples[key] = example
	}
}

// Empty says that nothing is wrong.
func (r *Report) Empty() bool { return len(r.counts) == 0 }

// Count is how often what was found by who; "" stands for any.
func (r *Report) Count(who, what string) int {
	n := 0
	for key, count := range r.counts {
		if (who == "" || key[0] == who) && (what == "" || strings.HasPrefix(key[2], what)) {
			n += count
		}
	}
	return n
}

// String lists what is wrong, with the number of cases and one example of each.
func (r *Report) String() string {
	var b strings.Builder
	keys := slices.SortedFunc(maps.Keys(r.counts), func(a, b [3]string) int { return slices.Compare(a[:], b[:]) })
	for _, k := range keys {
		fmt.Fprintf(&b, "%s: %s: %s: %d times, first: %s\n", k[0], k[1], k[2], r.counts[k], r.examples[k])
	}
	return b.String()
}

// Compare holds the rows that a reader gave against those that were sent, value by value.
func Compare(report *Report, who string, t *Table, got, want []Row) {
	g, w := grouped(t, got), grouped(t, want)
	for key, rows := range w {
		if len(g[key]) < len(rows) {
			report.add(who, t.Name, "missing row", fmt.Sprintf("%s: got %d, want %d", key, len(g[key]), len(rows)))
		}
		for i := range min(len(rows), len(g[key])) {
			compareRow(report, who, t, key, g[key][i], rows[i])
		}
	}
	for key, rows := range g {
		if len(rows) > len(w[key]) {
			report.add(who, t.Name, "row too many", fmt.Sprintf("%s: got %d, want %d", key, len(rows), len(w[key])))
		}
	}
}

func compareRow(report *Report, who string, t *Table, key string, got, want Row) {
	for i := range t.Columns {
		name := t.Columns[i].Name
		a, inGot := got[name]
		b, inWant := want[name]
		switch {
		case inGot && !inWant:
			report.add(who, t.Name, "value where null was sent: "+name, fmt.Sprintf("%s: got %q", key, fmt.Sprint(a)))
		case !inGot && inWant:
			report.add(who, t.Name, "null where a value was sent: "+name, key)
		case inGot && !same(a, b) && !(slices.Contains(t.Sums, name) && near(a, b)):
			report.add(who, t.Name, "wrong value: "+name, fmt.Sprintf("%s: got %#v, want %#v", key, a, b))
		}
	}
	for name := range got {
		if !slices.ContainsFunc(t.Columns, func(c Column) bool { return c.Name == name }) {
			report.add(who, t.Name, "unknown column", fmt.Sprintf("%q", name))
		}
	}
}

// near says that two sums of numbers differ by no more than the order in which they were added up.
func near(a, b any) bool {
	x, ok1 := a.(float64)
	y, ok2 := b.(float64)
	return ok1 && ok2 && math.Abs(x-y) <= 1e-12*max(math.Abs(x), math.Abs(y))
}

// same tells apart what == does not: zero and minus zero.
func same(a, b any) bool {
	x, ok1 := a.(float64)
	y, ok2 := b.(float64)
	if ok1 && ok2 {
		return math.Float64bits(x) == math.Float64bits(y)
	}
	return reflect.DeepEqual(a, b)
}

// grouped gives the rows by their key, sorted within it, and adds up what is to be added up.
func grouped(t *Table, rows []Row) map[string][]Row {
	out := make(map[string][]Row, len(rows))
	for _, row := range rows {
		parts := make([]string, len(t.Key))
		for i, name := range t.Key {
			parts[i] = fmt.Sprint(row[name])
		}
		key := strings.Join(parts, " ")
		if len(t.Sums) > 0 {
			row = add(t, out[key], row)
			out[key] = []Row{row}
			continue
		}
		out[key] = append(out[key], row)
	}
	for _, same := range out {
		if len(same) > 1 {
			slices.SortFunc(same, func(a, b Row) int { return cmp.Compare(encoded(a), encoded(b)) })
		}
	}
	return out
}

func add(t *Table, before []Row, row Row) Row {
	if len(before) == 0 {
		return row
	}
	sum := maps.Clone(before[0])
	for _, name := range t.Sums {
		switch b := row[name].(type) {
		case int64:
			a, _ := sum[name].(int64)
			sum[name] = a + b
		case float64:
			a, _ := sum[name].(float64)
			sum[name] = a + b
		}
	}
	return sum
}

func encoded(r Row) string {
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Sprint(r)
	}
	return string(b)
}
