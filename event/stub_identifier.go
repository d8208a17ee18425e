package event

// This file stands in for identifier.go and its neighbours until they land: whoever lands them deletes it.

import "strings"

type identifierKind uint8

const (
	kindEmail identifierKind = iota
	kindIFA
	kindIP
	kindPartner
)

func checkIdentifier(kind identifierKind, value string) (out string, warn, code Code, message, hint string) {
	return value, "", "", "", ""
}
func holdsEmail(s string) bool                    { return strings.IndexByte(s, '@') > 0 }
func activeCurrency(s string) bool                { return s == "USD" }
func nearestType(s string) (string, bool)         { return "", false }
func nearestField(name string, c []string) string { return "" }
