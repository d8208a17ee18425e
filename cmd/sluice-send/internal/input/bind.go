package input

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"sluice/client"
	"sluice/event"
)

// binding is a mapping on its way to a header.
type binding struct {
	m      *Mapping
	header []string
	taken  map[Member]string // by which column
	used   []bool            // columns of the header
	wrong  []string
}

// bind fits the mapping to a header and says everything that is wrong with it at once.
func (m *Mapping) bind(header []string) error {
	m.width = len(header)
	b := &binding{m: m, header: header, taken: map[Member]string{}, used: make([]bool, len(header))}
	b.named(m.Hash, "--hash", true)
	b.named(m.Map, "--map", false)
	for i, name := range header {
		if mem, known := MemberOf(name); known && !b.used[i] && b.taken[mem] == "" {
			b.put(column{Member: mem, at: i, header: name, label: label(name)}, name)
		}
	}
	b.constants()
	for i, name := range header {
		if !b.used[i] {
			m.Unused = append(m.Unused, name)
		}
	}
	b.missing()
	if len(b.wrong) > 0 {
		return &FileError{1, strings.Join(b.wrong, "; ")}
	}
	// The columns of one group come together, so that a row is written in one pass.
	groups := []string{"", "identifiers", "privacy", "custom_data"}
	slices.SortStableFunc(m.columns, func(a, b column) int {
		return slices.Index(groups, a.Group) - slices.Index(groups, b.Group)
	})
	return nil
}

func label(name string) string { return "column " + strconv.Quote(name) }

func (b *binding) fail(format string, args ...any) {
	b.wrong = append(b.wrong, fmt.Sprintf(format, args...))
}

// put gives a column its place, unless another has it.
func (b *binding) put(c column, field string) {
	if by, twice := b.taken[c.Member]; twice {
		b.fail("%s would be filled twice, by %s and by %s", field, by, c.label)
		return
	}
	b.taken[c.Member] = c.label
	c.key = append(event.AppendString(nil, c.Name), ':')
	if c.at >= 0 {
		b.used[c.at] = true
	}
	b.m.columns = append(b.m.columns, c)
}

// named takes the columns that flags name.
func (b *binding) named(pairs map[string]string, flag string, hash bool) {
	index := map[string]int{}
	for i, name := range b.header {
		index[name] = i
	}
	for _, name := range slices.Sorted(maps.Keys(pairs)) {
		field := pairs[name]
		at, there := index[name]
		mem, known := MemberOf(field)
		c := column{Member: mem, at: at, header: name, label: label(name)}
		switch {
		case !there:
			b.fail("%s names the column %q, which is not in the header", flag, name)
			continue
		case !known:
			b.fail("%s names the field %q, which an event does not have", flag, field)
			continue
		case hash && mem.Name == "email_sha256":
			c.hash = client.HashEmail
		case hash && mem.Name == "ip":
			c.hash = client.HashIPv4
		case hash:
			b.fail("--hash fills email_sha256 and ip only, not %q", field)
			continue
		}
		b.put(c, field)
	}
}

// constants takes what is the same in every row.
func (b *binding) constants() {
	for _, field := range slices.Sorted(maps.Keys(b.m.Set)) {
		mem, known := MemberOf(field)
		if !known {
			b.fail("--set names the field %q, which an event does not have", field)
			continue
		}
		b.put(column{Member: mem, at: -1, value: []byte(b.m.Set[field]), label: "--set"}, field)
	}
	if dataset := members["data_set_id"]; b.m.Dataset != "" && b.taken[dataset] == "" {
		b.put(column{Member: dataset, at: -1, value: []byte(b.m.Dataset), label: "--dataset"}, "data_set_id")
	}
}

// missing says what an event needs and no column gives.
func (b *binding) missing() {
	for _, field := range []string{"data_set_id", "timestamp", "event_type"} {
		if b.taken[members[field]] == "" {
			hint := "--map COLUMN=" + field
			if field != "timestamp" {
				hint += " or --set " + field + "=…"
			}
			b.fail("no column fills %s (%s)", field, hint)
		}
	}
	if b.taken[members["email_sha256"]] == "" && b.taken[members["ifa"]] == "" && b.taken[members["ip"]] == "" {
		hint := ""
		for _, name := range b.m.Unused {
			if strings.Contains(strings.ToLower(name), "mail") {
				hint = fmt.Sprintf(" (--hash %s=email_sha256)", name)
			}
		}
		b.fail("no column fills an identifier: email_sha256, ifa or ip%s", hint)
	}
	for mem := range b.taken {
		if mem.Group == "custom_data" && b.taken[members["custom_data"]] != "" {
			b.fail("custom_data comes both whole and by its members")
			return
		}
	}
}
