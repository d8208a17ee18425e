package event

import (
	"strings"
	"testing"
)

// FuzzIdentifier holds what is true of every value: no panic; what is accepted is accepted again, unchanged; what is
// refused is refused with an identifier code and words that do not change with the value.
func FuzzIdentifier(f *testing.F) {
	for _, path := range corpora {
		for _, c := range readIdentifiers(f, path) {
			if value, ok := c.text(); ok {
				f.Add(uint8(kindNames[c.Field]), value)
			}
		}
	}
	words := allRefusals()
	f.Fuzz(func(t *testing.T, k uint8, value string) {
		kind := identifierKind(k % 4)
		out, warn, code, message, hint := checkIdentifier(kind, value)
		if code != "" {
			if out != "" || warn != "" || code != PlaintextPII && code != InvalidIdentifier {
				t.Fatalf("refused %q with out %q, warning %q, code %q", value, out, warn, code)
			}
			if !words[message] || !words[hint] {
				t.Fatalf("refused %q in words of its own: %q, %q", value, message, hint)
			}
			return
		}
		if message != "" || hint != "" {
			t.Fatalf("accepted %q with message %q, hint %q", value, message, hint)
		}
		if out == "" {
			return
		}
		if !strings.EqualFold(out, value) || kind == kindIFA && out != value || kind == kindPartner && out != value {
			t.Fatalf("accepted %q as %q", value, out)
		}
		again, warn, code, _, _ := checkIdentifier(kind, out)
		if again != out || code != "" || warn == HashCaseNormalized {
			t.Fatalf("%q was accepted as %q, then that as %q with warning %q, code %q", value, out, again, warn, code)
		}
		if strings.Contains(out, "@") || holdsEmail(out) {
			t.Fatalf("accepted %q, which holds an address", value)
		}
	})
}

// allRefusals are the messages and hints that exist.
func allRefusals() map[string]bool {
	words := map[string]bool{}
	for k := range plaintextRefusals {
		for _, r := range plaintextRefusals[k] {
			words[r.message], words[r.hint] = true, true
		}
	}
	delete(words, "")
	for _, r := range namedRefusals {
		words[r.message], words[r.hint] = true, true
	}
	return words
}

var namedRefusals = []*refusal{
	&refuseZeroHash, &refuseMacro, &refusePlaceholder, &refuseHash, &refuseMD5, &refuseSHA1, &refuseSHA224, &refuseSHA384, &refuseSHA512,
	&refuseShortHash, &refuseLongHash, &refuseHashLetter, &refuseHashPrefix, &refuseHashQuote, &refuseHashSpace, &refuseHashHidden,
	&refuseHashList, &refuseBase64, &refuseHashUUID, &refusePassword, &refuseHashSpaces, &refuseIFA, &refuseIFADamaged, &refuseIFAWrapped,
	&refuseIFASpace, &refusePartnerByte,
}

// FuzzHoldsEmail checks the fast path against the slow one: what suspect clears, no decoding makes an address of.
func FuzzHoldsEmail(f *testing.F) {
	for _, s := range []string{"jane@example.com", "jane%40example.com", "https://x.example/?a=b%20c&d=%2F", "logo@2x.png", "a&amp;b", "\\u0040", "\uff20"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if holdsEmail(s) {
			return
		}
		for range maxRounds {
			if findEmail(s) {
				t.Fatalf("an address was missed: %q", s)
			}
			s = decodeText(s)
		}
	})
}
