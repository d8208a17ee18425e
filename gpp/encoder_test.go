package gpp

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// US is the content of a US section, 7 to 27, in a form to write down. The zero value of every field but ID is of use.
type US struct {
	ID      int
	Version int              // the section's version, 0 for the newest; of 24 to 27 the MspaVersion, 0 or 1
	Values  map[string][]int // by official name, one value for a plain field; a missing field is 0, not applicable
	GPC     *bool            // nil: no GPC subsection
	Headed  bool             // 24 to 27 only: put a section header before the core, as the specification has it
}

// Part is what [Encode] takes: a US, a USPrivacy, or a *Section of a parsed string.
type Part interface {
	part() (id int, text string, err error)
}

// Encode is the other half of [Parse], for tests: it writes a GPP string of the parts, in the order of their ids, padded as
// the official libraries pad. Parsing it gives the parts back.
func Encode(parts ...Part) (string, error) {
	texts := make(map[int]string, len(parts))
	for _, p := range parts {
		id, text, err := p.part()
		if err != nil {
			return "", err
		}
		if _, twice := texts[id]; twice {
			return "", fmt.Errorf("encode %s: it is given twice", SectionName(id))
		}
		texts[id] = text
	}
	ids := slices.Sorted(maps.Keys(texts))
	out := encodeHeader(ids)
	for _, id := range ids {
		out += "~" + texts[id]
	}
	if len(out) > MaxLength {
		return "", errors.New("encode: the string is too long")
	}
	return out, nil
}

// encodeHeader writes ascending ids; ids that follow each other are a group.
func encodeHeader(ids []int) string {
	var items bitWriter
	count, last := 0, 0
	for i := 0; i < len(ids); count++ {
		run := 1
		for i+run < len(ids) && ids[i+run] == ids[i]+run {
			run++
		}
		items.write(uint64(min(run-1, 1)), 1)
		items.fibonacci(ids[i] - last)
		if run > 1 {
			items.fibonacci(run - 1)
		}
		last = ids[i] + run - 1
		i += run
	}
	var w bitWriter
	w.write(3, 6)
	w.write(1, 6)
	w.write(uint64(count), 12)
	w.bits = append(w.bits, items.bits...)
	return w.text()
}

// part is the section as it was.
func (s *Section) part() (int, string, error) { return s.ID(), s.text, nil }

func (p USPrivacy) part() (int, string, error) {
	s := p.String()
	if _, err := ParseUSPrivacy(s); err != nil {
		return 0, "", fmt.Errorf("encode uspv1: %s", uspShape)
	}
	return USPv1, s, nil
}

func (u US) part() (int, string, error) {
	text, err := u.encode()
	if err != nil {
		return 0, "", fmt.Errorf("encode %s: %w", SectionName(u.ID), err)
	}
	return u.ID, text, nil
}

func (u US) encode() (string, error) {
	l, version, err := u.layout()
	if err != nil {
		return "", err
	}
	var core, sub bitWriter
	core.write(uint64(version), 6)
	known := 0
	for i := range l.fields {
		f := &l.fields[i]
		values, given := u.Values[f.name]
		if given {
			known++
		} else if f.name == "MspaCoveredTransaction" {
			return "", errors.New("MspaCoveredTransaction has to be given: it has no value that says not applicable")
		}
		if err := core.slots(f.name, values, f.slots); err != nil {
			return "", err
		}
	}
	if u.GPC != nil {
		if l.extra != gpcSubsection {
			return "", errors.New("it has no GPC subsection")
		}
		sub.write(1, 2)
		sub.write(map[bool]uint64{true: 1}[*u.GPC], 1)
	}
	if values, given := u.Values[sensitiveName]; given && l.extra == sensitiveSubsection {
		known++
		if err := sub.slots(sensitiveName, values, sensitiveSlots); err != nil {
			return "", err
		}
	}
	if known != len(u.Values) {
		return "", errors.New("a field is given that it does not have")
	}
	return u.join(l, core, sub)
}

// join puts the segments together.
func (u US) join(l *layout, core, sub bitWriter) (string, error) {
	segments := []string{core.text()}
	if len(sub.bits) > 0 {
		segments = append(segments, sub.text())
	}
	if u.Headed {
		if l.version != 0 {
			return "", errors.New("it has no section header")
		}
		var head bitWriter
		head.write(uint64(u.ID), 6)
		head.write(1, 6)
		head.write(uint64(len(segments)-1), 12)
		if len(segments) > 1 {
			head.write(0, 1)
			head.fibonacci(1)
		}
		segments = slices.Insert(segments, 0, head.text())
	}
	return strings.Join(segments, "."), nil
}

// layout finds the layout and the version to write.
func (u US) layout() (*layout, int, error) {
	if u.ID < 0 || u.ID > maxID || layoutOf[u.ID] == nil {
		return nil, 0, errors.New("it is no US section")
	}
	l, version := layoutOf[u.ID], u.Version
	switch {
	case u.ID == USNat && (version == 0 || version == 2):
		return usnatV2, 2, nil
	case u.ID == USNat && version == 1 && len(u.Values[sensitiveName]) == 16:
		return usnatV2, 1, nil // mislabelled, as some strings are
	case version == 0:
		return l, l.version, nil
	case l.version != 0 && version != l.version,
		l.version == 0 && (version < 0 || version > maxID || isNewer(uint8(version), l.newest()) || version >= USMD && version <= USRI):
		return nil, 0, fmt.Errorf("version %d is not known", version)
	}
	return l, version, nil
}

// US is the content of a US section, with every field; ok is false in other sections.
func (s *Section) US() (u US, ok bool) {
	if s.layout == nil {
		return US{}, false
	}
	u = US{ID: int(s.id), Version: int(s.version), Headed: s.headed, Values: make(map[string][]int, len(s.layout.fields)+1)}
	for i := range s.layout.fields {
		f := &s.layout.fields[i]
		u.Values[f.name] = unpack(s.values>>f.shift, f.slots)
	}
	if s.gpc != gpcAbsent {
		u.GPC = new(s.gpc == gpcTrue)
	}
	if s.subbed && s.layout.extra == sensitiveSubsection {
		u.Values[sensitiveName] = unpack(uint64(s.sensitive), sensitiveSlots)
	}
	return u, true
}

// bitWriter collects bits, one in each byte. Encoding need not be fast.
type bitWriter struct{ bits []byte }

func (w *bitWriter) write(v uint64, n int) {
	for n--; n >= 0; n-- {
		w.bits = append(w.bits, byte(v>>n&1))
	}
}

// slots writes two-bit values; none at all means zeros.
func (w *bitWriter) slots(name string, values []int, n int) error {
	if len(values) == 0 {
		w.write(0, 2*n)
		return nil
	}
	if len(values) != n {
		return fmt.Errorf("%s has %s, not %d", name, plural(n, "value"), len(values))
	}
	for _, v := range values {
		if v < 0 || v > 2 {
			return fmt.Errorf("%s: a value is not from 0 to 2", name)
		}
		w.write(uint64(v), 2)
	}
	return nil
}

// fibonacci writes a number from 1 to 63.
func (w *bitWriter) fibonacci(v int) {
	top := 0
	for int(fibonacciWeights[top+1]) <= v {
		top++
	}
	code := make([]byte, top+2)
	code[top+1] = 1
	for i := top; i >= 0; i-- {
		if weight := int(fibonacciWeights[i]); weight <= v {
			v -= weight
			code[i] = 1
		}
	}
	w.bits = append(w.bits, code...)
}

// text pads to whole bytes, then to whole characters.
func (w *bitWriter) text() string {
	bits := w.bits
	for len(bits)%8 != 0 {
		bits = append(bits, 0)
	}
	for len(bits)%6 != 0 {
		bits = append(bits, 0)
	}
	out := make([]byte, 0, len(bits)/6)
	for i := 0; i < len(bits); i += 6 {
		v := 0
		for _, bit := range bits[i : i+6] {
			v = v<<1 | int(bit)
		}
		out = append(out, alphabet[v])
	}
	return string(out)
}
