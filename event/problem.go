package event

import (
	"iter"
	"slices"
	"strings"
)

// problem is an Error with its place in the order of the rules.
type problem struct {
	Error
	rank int
}

// problem notes why the event being read is rejected. hint may be empty: then it is the code's remedy.
func (d *Decoder) problem(code Code, pointer, message, hint string) {
	d.broken++
	d.count(code, pointer).Count++
	r := rank(code)
	// Only two codes can occur many times in one event. An answer lists no more than this of each.
	switch code {
	case DuplicateField:
		if d.doubled++; d.doubled > maxErrors {
			return
		}
	case PlaintextPII:
		if d.plain++; d.plain > maxErrors {
			return
		}
	}
	if hint == "" {
		hint = codeTable[r].Remedy
	}
	d.problems = append(d.problems, problem{Error{
		Index: d.index, Code: code, Field: pointer, Message: message,
		Hint: hint,
	}, r})
}

// duplicate notes that the last step of the path names a member for the second time.
func (d *Decoder) duplicate(level int) {
	d.problem(DuplicateField, d.pointer(level), "The object names this member twice.", "")
}

// plaintextAt notes an e-mail address outside of the identifiers.
func (d *Decoder) plaintextAt(pointer string) {
	d.problem(PlaintextPII, pointer, "A plaintext e-mail address was found.",
		"Remove the address; send its SHA-256 as email_sha256 if it identifies the person.")
}

// wrong reads the value of a known member that has the wrong JSON type. The member then counts as neither present nor
// absent, so that one mistake is reported once.
func (d *Decoder) wrong(f field, level int) bool {
	d.draft.faulty |= 1 << f
	name, want := fieldTable[f].Name(), jsonTypes[fieldTable[f].Type]
	if d.scan.Peek() == '[' && parentOf(f.pointer()) == fieldIdentifiers.pointer() {
		want.hint = "Send one " + name + " as a string, not a list of them."
	}
	d.problem(InvalidType, f.pointer(), name+" must be "+want.name+".", want.hint)
	return d.walk(level)
}

var jsonTypes = map[string]struct{ name, hint string }{
	"string":  {"a string", "Send a JSON string, in double quotes."},
	"integer": {"an integer", "Send a JSON integer, without quotes."},
	"number":  {"a number", "Send a JSON number, without quotes."},
	"boolean": {"a boolean", "Send true or false, without quotes."},
	"object":  {"an object", "Send a JSON object, in braces."},
	"array":   {"an array", "Send a JSON array, in brackets."},
}

// warn notes a warning. It is reported only if the event is accepted.
func (d *Decoder) warn(code Code, pointer, message string) {
	d.warnings = append(d.warnings, Warning{d.index, code, pointer, message})
}

// reject closes the event being read, which has problems.
func (d *Decoder) reject() {
	r := &d.result
	slices.SortStableFunc(d.problems, func(a, b problem) int { return a.rank - b.rank })
	first := &d.problems[0]
	d.count(first.Code, first.Field).Events++
	switch {
	case r.Rejected == 0:
		r.Common = first.Code
	case r.Common != first.Code:
		r.Common = ""
	}
	r.Rejected++
	d.reportUnknown()
	n := min(maxErrors-len(r.Errors), len(d.problems))
	for i := range d.problems[:n] {
		r.Errors = append(r.Errors, d.problems[i].Error)
	}
	if n < d.broken {
		r.ErrorsTruncated = true
	}
}

// reportUnknown keeps the warnings about unknown members of an event that is rejected: one of them may be the member
// that is missing, misspelled.
func (d *Decoder) reportUnknown() {
	r := &d.result
	to := &r.Unknown
	if d.Explain {
		to = &r.Warnings
	}
	for _, w := range d.warnings {
		switch {
		case w.Code != UnknownField:
		case len(*to) < maxWarnings:
			*to = append(*to, w)
		default:
			r.WarningsTruncated = r.WarningsTruncated || d.Explain
		}
	}
}

// unknownMembers yields the names of the unknown members that an object of the event has, by its pointer.
func (d *Decoder) unknownMembers(parent string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, w := range d.warnings {
			if w.Code == UnknownField && w.Field != "" && parentOf(w.Field) == parent &&
				!yield(unescapePointer(w.Field[len(parent)+1:])) {
				return
			}
		}
	}
}

// instead says which unknown member of the event may be the field that is missing, "" if none is.
func (d *Decoder) instead(f field) string {
	parent, own := parentOf(f.pointer()), fieldTable[f].Name()
	for name := range d.unknownMembers(parent) {
		if likelyField(name, parent) == own {
			return "The event has the unknown member " + name + ": send it as " + own + "."
		}
	}
	return ""
}

// unknownIdentifiers names the unknown members of identifiers, "" if there is none.
func (d *Decoder) unknownIdentifiers() string {
	parent := fieldIdentifiers.pointer()
	var says []string
	for name := range d.unknownMembers(parent) {
		say := "identifiers has " + name + ", which is not read."
		if near := likelyField(name, parent); near != "" {
			say = "identifiers has " + name + ", which is not read; did you mean " + near + "?"
		}
		if slices.Contains(says, say) {
			continue
		}
		if says = append(says, say); len(says) == 4 { // enough to see what is wrong
			break
		}
	}
	return strings.Join(says, " ")
}

func parentOf(pointer string) string { return pointer[:max(0, strings.LastIndexByte(pointer, '/'))] }

func unescapePointer(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "~1", "/"), "~0", "~")
}

// count is the sum that a problem belongs to.
func (d *Decoder) count(code Code, pointer string) *Rejection {
	r := &d.result
	known := knownPointer(pointer)
	for i := range r.Rejections {
		if c := &r.Rejections[i]; c.Code == code && c.Field == known {
			return c
		}
	}
	r.Rejections = append(r.Rejections, Rejection{Code: code, Field: known})
	return &r.Rejections[len(r.Rejections)-1]
}

// countWarned counts the event at the code of each of its warnings, once.
func (d *Decoder) countWarned() {
	r := &d.result
	for i := range d.warnings {
		code := d.warnings[i].Code
		if slices.ContainsFunc(d.warnings[:i], func(w Warning) bool { return w.Code == code }) {
			continue
		}
		at := slices.IndexFunc(r.Warned, func(w Warned) bool { return w.Code == code })
		if at < 0 {
			at = len(r.Warned)
			r.Warned = append(r.Warned, Warned{Code: code})
		}
		r.Warned[at].Events++
	}
}

// knownPointer is the longest beginning of a pointer that the table of fields has.
func knownPointer(pointer string) string {
	best := ""
	for i := range fieldTable {
		p := fieldTable[i].Pointer
		if len(p) > len(best) && strings.HasPrefix(pointer, p) && (len(pointer) == len(p) || pointer[len(p)] == '/') {
			best = p
		}
	}
	return best
}
