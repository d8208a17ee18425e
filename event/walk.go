package event

import (
	"strconv"
	"strings"
	"unicode"

	"sluice/event/internal/jsonscan"
	"sluice/event/internal/pii"
)

// segment is one step of a JSON Pointer.
type segment struct {
	name  string
	index int // used when the step is into an array
	array bool
}

// walk reads a value that no rule looks into. It checks the syntax and, unless mute, that no object in it names a
// member twice, that it holds no e-mail address and, unless nameless, no consent signal. level is how many containers
// are open around the value.
func (d *Decoder) walk(level int) bool {
	switch d.scan.Peek() {
	case '"':
		text, ok := d.scan.Text()
		if !ok {
			return false
		}
		if !d.mute {
			d.search(text, level)
		}
		return true
	case '{':
		return d.walkObject(level + 1)
	case '[':
		return d.walkArray(level + 1)
	case 't':
		return d.scan.Literal("true")
	case 'f':
		return d.scan.Literal("false")
	case 'n':
		d.draft.walked.nulls = true
		return d.scan.Literal("null")
	}
	_, _, ok := d.scan.Number()
	return ok
}

func (d *Decoder) walkObject(level int) bool {
	if !d.descend(level) {
		return false
	}
	if !d.mute {
		d.names.Open()
	}
	for n := 0; ; n++ {
		name, st := d.scan.Member(n == 0)
		if st != jsonscan.Next {
			if !d.mute {
				d.names.Close()
			}
			d.draft.walked.members = n
			return st == jsonscan.End
		}
		if !d.mute {
			d.path[level-1] = segment{name: name}
			d.checkName(name, level)
		}
		if !d.walkMember(name, level) {
			return false
		}
	}
}

// walkMember reads the value of the member at the end of the path.
func (d *Decoder) walkMember(name string, level int) bool {
	switch {
	case d.inCustom && level == 2:
		if f := customID(name); f != fieldUnknown {
			return d.readCustomID(f, level)
		}
	case !d.mute && !d.nameless:
		if place, consent := consentPlace(name); consent {
			return d.walkConsent(place, level)
		}
	}
	return d.walk(level)
}

func (d *Decoder) walkArray(level int) bool {
	if !d.descend(level) {
		return false
	}
	for n := 0; ; n++ {
		if st := d.scan.Element(n == 0); st != jsonscan.Next {
			return st == jsonscan.End
		}
		if !d.mute {
			d.path[level-1] = segment{index: n, array: true}
		}
		if d.scan.Peek() == 'n' {
			d.draft.walked.arrayNulls = true
		}
		if !d.walk(level) {
			return false
		}
	}
}

// descend enters a container, which is the given level.
func (d *Decoder) descend(level int) bool {
	if level > jsonscan.MaxLevels {
		return d.scan.Fail(d.scan.Pos, "arrays and objects are nested deeper than 8 levels")
	}
	d.draft.walked.deepest = max(d.draft.walked.deepest, level)
	d.scan.Pos++
	return true
}

// checkName looks at the name of a member that no rule knows. It is the last step of the path.
func (d *Decoder) checkName(name string, level int) {
	if !d.names.Add(name) {
		d.duplicate(level)
	}
	d.search(name, level)
}

// search looks for plaintext in a text at the end of the path.
func (d *Decoder) search(text string, level int) {
	if pii.HoldsEmail(text) {
		d.plaintextAt(d.pointer(level))
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
		b = append(b, pointerEscapes.Replace(s.name)...)
	}
	return string(b)
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// Bounds of a name that a sender made up and an answer may repeat. Seven digits keep out telephone numbers, IP
// addresses, ids and hashes, all of which have been seen as member names.
const (
	repeatableBytes  = 128
	repeatableDigits = 7
)

// repeatable says whether an answer may repeat a member name. A name can be a value, such as an address.
func repeatable(name string) bool {
	if len(name) > repeatableBytes || pii.HoldsEmail(name) {
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
