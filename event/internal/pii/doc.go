// Package pii finds plaintext personal data in the values of an event.
//
// [Inspect] searches an identifier: the value itself and its decoded views (percent escapes, HTML entities, backslash
// escapes, compatibility characters, base64, hexadecimal). The caller accepts allowed shapes first, so no detector
// reads personal data into the digits of a hash or a UUID. [HoldsEmail] searches every other text for a complete e-mail
// address. [Junk] knows the digests that stand for no value.
//
// Precision comes first: a false alarm costs a sender an event. A detector that needs a weak sign runs on identifiers
// only, and decoded bytes count only where they are text.
package pii

// Finding is what a detector recognised in a value.
type Finding uint8

// The findings. Macro and Placeholder are not personal data, but no identifier either.
const (
	Nothing Finding = iota
	Email
	IPv4
	IPv6
	MAC
	Phone
	SSN
	Card
	Name
	Macro
	Placeholder
	Findings // the number of findings
)
