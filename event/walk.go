package event

import (
	"strconv"
	"strings"
	"unicode"
)

// segment is one step of a JSON Pointer.
type segment struct {
	name  string
	index int // used when the step is into an array
	array bool
}

// walk reads a value that no rule looks into. It checks the syntax and, unless mute, that no object in it names a
// member twice and that it holds no e-mail address. level is how many containers are open around the value.
func (d *Decoder) walk(level int) bool {
	switch d.peek() {
	case '"':
		raw, escaped, ok := d.str()
		if !ok {
			return false
		}
		if !d.mute {
			d.search(raw, escaped, level)
		}
		return true
	case '{':
		return d.walkObject(level + 1)
	case '[':
		return d.walkArray(level + 1)
	case 't':
		return d.literal("true")
	case 'f':
		return d.literal("false")
	case 'n':
		d.draft.nulls = true
		return d.literal("null")
	}
	_, _, ok := d.number()
	return ok
}

func (d *Decoder) walkObject(level int) bool {
	if !d.descend(level) {
		return false
	}
	if !d.mute {
		d.names.open()
	}
	for n := 0; ; n++ {
		name, st := d.member(n == 0)
		if st != next {
			if !d.mute {
				d.names.close()
			}
			d.draft.members = n
			return st == end
		}
		if !d.mute {
			d.path[level-1] = segment{name: name}
			d.checkName(name, level)
		}
		if !d.walk(level) {
			return false
		}
	}
}

func (d *Decoder) walkArray(level int) bool {
	if !d.descend(level) {
		return false
	}
	for n := 0; ; n++ {
		if st := d.element(n == 0); st != next {
			return st == end
		}
		if !d.mute {
			d.path[level-1] = segment{index: n, array: true}
		}
		if !d.walk(level) {
			return false
		}
	}
}

// descend enters a container, which is the given level.
func (d *Decoder) descend(level int) bool {
	if level > maxLevels {
		return d.fail(d.i, "arrays and objects are nested deeper than 8 levels")
	}
	if level > d.draft.deepest {
		d.draft.deepest = level
	}
	d.i++
	return true
}

// checkName looks at the name of a member that no rule knows. It is the last step of the path.
func (d *Decoder) checkName(name string, level int) {
	if !d.names.add(name) {
		d.duplicate(level)
	}
	if emailIn(name) {
		d.plaintext(level)
	}
}

func (d *Decoder) search(raw string, escaped bool, level int) {
	if escaped {
		raw = d.unescape(raw)
	}
	if emailIn(raw) {
		d.plaintext(level)
	}
}

// emailIn is holdsEmail for text that hardly ever holds one. Every spelling of an address needs one of a few bytes: an
// @, a character beyond ASCII, a percent sign, a backslash, or what an HTML entity has and a query string has not, a
// semicolon or a number sign. It looks for them eight bytes at a time.
func emailIn(s string) bool {
	if len(s) < 8 {
		for i := 0; i < len(s); i++ {
			if c := s[i]; c == '@' || c == '%' || c == '\\' || c == ';' || c == '#' || c >= 0x80 {
				return holdsEmail(s)
			}
		}
		return false
	}
	for i := 0; ; i += 8 {
		// The last eight may overlap the ones before: only whether matters here, not where.
		i = min(i, len(s)-8)
		w := load(s, i)
		if (w|((w^'@'*each)-each)|((w^'%'*each)-each)|((w^'\\'*each)-each)|((w^';'*each)-each)|((w^'#'*each)-each))&highs != 0 {
			return holdsEmail(s)
		}
		if i == len(s)-8 {
			return false
		}
	}
}

// pointer is the JSON Pointer of the first steps of the path. It ends before a name that is not fit to be repeated.
func (d *Decoder) pointer(level int) string {
	var b []byte
	for i := range d.path[:level] {
		s := &d.path[i]
		b = append(b, '/')
		if s.array {
			b = strconv.AppendInt(b, int64(s.index), 10)
			continue
		}
		if !repeatable(s.name) {
			return string(b[:len(b)-1])
		}
		for _, c := range []byte(s.name) {
			switch c {
			case '~':
				b = append(b, "~0"...)
			case '/':
				b = append(b, "~1"...)
			default:
				b = append(b, c)
			}
		}
	}
	return string(b)
}

// Bounds of a name that a sender made up and an answer may repeat. Seven digits keep out telephone numbers, IP
// addresses, ids and hashes, all of which have been seen as member names.
const (
	repeatableBytes  = 128
	repeatableDigits = 7
)

// repeatable says whether an answer may repeat a member name: it must not be a value in disguise.
func repeatable(name string) bool {
	if len(name) > repeatableBytes || emailIn(name) {
		return false
	}
	digits := 0
	for _, r := range name {
		if !unicode.IsPrint(r) {
			return false
		}
		if unicode.IsDigit(r) {
			digits++
		}
	}
	return digits <= repeatableDigits
}

// isBlank says whether a string counts as absent.
func isBlank(s string) bool {
	if s == "" {
		return true
	}
	if c := s[0]; c > ' ' && c < 0x7f {
		return false
	}
	return strings.TrimSpace(s) == ""
}
