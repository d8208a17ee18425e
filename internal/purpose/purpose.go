// Package purpose says what a row may be used for.
package purpose

import "sluice/event"

// Purpose says what rows are used for, which decides who is in them. 0 is nothing.
type Purpose uint8

// The purposes. A row that may be used for optimization may be used for measurement, too.
const (
	Measurement  Purpose = iota + 1 // every row that is not suppressed
	Optimization                    // rows that are eligible for optimization
)

// Parse reads the name of a purpose.
func Parse(name string) (Purpose, bool) {
	switch name {
	case "measurement":
		return Measurement, true
	case "optimization":
		return Optimization, true
	}
	return 0, false
}

// Of is the most that a row may be used for. An outcome that this program does not know is taken for the most
// restrictive one.
func Of(r *event.Row) Purpose {
	switch {
	case r.Privacy != event.Unrestricted && r.Privacy != event.MeasurementOnly:
		return 0
	case r.OptimizationEligible && r.Privacy == event.Unrestricted && !r.Late:
		return Optimization
	}
	return Measurement
}
