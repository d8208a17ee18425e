package gpp

import "strconv"

// Error says where a string is malformed and why. It never repeats content of the string beyond a version number
// or a section id.
type Error struct {
	Where  string // "string", "header", or a section by its name, "usnat"
	Field  string // the official name of the field, "" where it is no single field
	Reason string
}

// Error is one line: where, field, reason.
func (e *Error) Error() string {
	s := e.Where
	switch s {
	case "string", "header":
	default:
		s = "section " + s
	}
	if e.Field != "" {
		s += ", " + e.Field
	}
	return s + ": " + e.Reason
}

// Reasons that several places give.
const (
	truncated = "the text ends before the field does"
	undefined = "holds 3, a value that is not defined"
)

func headerError(reason string) *Error { return &Error{Where: "header", Reason: reason} }

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
