package event

import (
	"strings"
	"testing"

	"sluice/event/internal/pii"
)

// FuzzIdentifier holds what is true of every value: no panic; what is accepted is accepted again, unchanged; what is
// rejected is rejected with an identifier code and words that do not change with the value.
func FuzzIdentifier(f *testing.F) {
	for _, path := range corpora {
		for _, c := range readIdentifiers(f, path) {
			if value, ok := c.text(); ok {
				f.Add(uint8(kindNames[c.Field]), value)
			}
		}
	}
	words := allFaults()
	f.Fuzz(func(t *testing.T, k uint8, value string) {
		kind := identifierKind(k % 4)
		out, warn, code, message, hint := checkIdentifier(kind, value)
		if code != "" {
			if out != "" || warn != "" || code != PlaintextPII && code != InvalidIdentifier {
				t.Fatalf("rejected %q with out %q, warning %q, code %q", value, out, warn, code)
			}
			if !words[message] || !words[hint] {
				t.Fatalf("rejected %q in words of its own: %q, %q", value, message, hint)
			}
			return
		}
		if message != "" || hint != "" {
			t.Fatalf("accepted %q with message %q, hint %q", value, message, hint)
		}
		if out == "" {
			return
		}
		if !strings.EqualFold(out, value) || kind == kindIFA && out != FoldIFA(value) || kind == kindPartner && out != value {
			t.Fatalf("accepted %q as %q", value, out)
		}
		again, warn, code, _, _ := checkIdentifier(kind, out)
		if again != out || code != "" || warn == HashCaseNormalized {
			t.Fatalf("%q was accepted as %q, then that as %q with warning %q, code %q", value, out, again, warn, code)
		}
		if strings.Contains(out, "@") || pii.HoldsEmail(out) {
			t.Fatalf("accepted %q, which holds an address", value)
		}
	})
}

// allFaults are the messages and hints that exist.
func allFaults() map[string]bool {
	words := map[string]bool{}
	for k := range findingFaults {
		for _, r := range findingFaults[k] {
			if r != nil {
				words[r.message], words[r.hint] = true, true
			}
		}
	}
	delete(words, "")
	for _, r := range namedFaults {
		words[r.message], words[r.hint] = true, true
	}
	return words
}

var namedFaults = []*fault{
	&faultZeroHash, &faultMacro, &faultPlaceholder, &faultHash, &faultMD5, &faultSHA1, &faultSHA224, &faultSHA384, &faultSHA512,
	&faultShortHash, &faultLongHash, &faultHashLetter, &faultHashPrefix, &faultHashQuote, &faultHashSpace, &faultHashHidden,
	&faultHashList, &faultBase64, &faultHashUUID, &faultPassword, &faultHashSpaces, &faultIFA, &faultIFADamaged, &faultIFAWrapped,
	&faultIFASpace, &faultPartnerByte, &faultHashPairs, &faultIFAPairs,
}
