package gpp

import "errors"

// USPrivacy is a us_privacy string of version 1. Each member is 'Y', 'N' or '-'. The
// zero value is no signal at all.
type USPrivacy struct {
	Notice      byte // the person was given notice and the opportunity to opt out
	OptOutSale  byte // the person opted out of the sale of personal data
	LspaCovered byte // the transaction is under the Limited Service Provider Agreement
}

const uspShape = "it is not a 1 followed by three of Y, N and -"

var errUSPrivacy = errors.New("us_privacy string: " + uspShape)

// ParseUSPrivacy reads a us_privacy string: the legacy signal, alone or as section uspv1.
func ParseUSPrivacy(s string) (USPrivacy, error) {
	if len(s) != 4 || s[0] != '1' || !ynDash(s[1]) || !ynDash(s[2]) || !ynDash(s[3]) {
		return USPrivacy{}, errUSPrivacy
	}
	return USPrivacy{s[1], s[2], s[3]}, nil
}

func ynDash(c byte) bool { return c == 'Y' || c == 'N' || c == '-' }

// String is the four characters.
func (p USPrivacy) String() string {
	return string([]byte{'1', p.Notice, p.OptOutSale, p.LspaCovered})
}

// Outcome is what the string allows, with the field that decides, "" if it is unrestricted.
func (p USPrivacy) Outcome() (Outcome, string) {
	switch {
	case p == (USPrivacy{}):
		return Unrestricted, ""
	case p.OptOutSale == 'Y':
		return MeasurementOnly, "OptOutSale"
	case p.Notice == 'N':
		return MeasurementOnly, "Notice"
	case p.OptOutSale != 'N' && (p.Notice != '-' || p.LspaCovered != '-'):
		return MeasurementOnly, "OptOutSale" // the law applies, yet the choice it asks for is missing
	default:
		return Unrestricted, ""
	}
}
