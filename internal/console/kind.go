package console

import (
	"sluice/internal/lake"
)

// Hour is one number of one dataset in one hour of receipt, as the loader wrote it.
type Hour = lake.Hour

// What the loader writes as one row with a count and a value becomes two lines here.
const (
	kindRefused = "refused" // events, at the code and field of their first problem: they add up to all refused events
	kindProblem = "problem" // all problems of refused events
)

// accepted are the lines that add up to all accepted events, one for each type.
func accepted(l line) bool { return l.kind == lake.KindEvents && l.field == lake.FieldAccepted }

// of are the lines of a kind, whatever their name and field.
func of(kind string) func(line) bool { return func(l line) bool { return l.kind == kind } }
