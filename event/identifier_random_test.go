package event

import (
	"encoding/base64"
	"encoding/hex"
	"flag"
	"fmt"
	"html"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sluice/event/internal/pii"
)

const (
	nanoAlphabet = "useandom-26T198340PX75pxJACKVERYMINDBUSHWOLF_GQZbfghjklqvwyzrict"
	crockford    = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
)

func draw(r *rand.Rand, alphabet string, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[r.IntN(len(alphabet))]
	}
	return string(b)
}

// opaque are the makers of ids that people really use as keys of their customers.
var opaque = map[string]func(r *rand.Rand) string{
	"uuid":      func(r *rand.Rand) string { return randomID(r).String() },
	"UUID":      func(r *rand.Rand) string { return strings.ToUpper(randomID(r).String()) },
	"user-uuid": func(r *rand.Rand) string { return "user-" + randomID(r).String() },
	"uuid:n":    func(r *rand.Rand) string { return randomID(r).String() + ":" + strconv.Itoa(r.IntN(1e6)) },
	"uuid-uuid": func(r *rand.Rand) string { return randomID(r).String() + "-" + randomID(r).String() },
	"sha256":    func(r *rand.Rand) string { return draw(r, hexDigits, 64) },
	"md5":       func(r *rand.Rand) string { return draw(r, hexDigits, 32) },
	"hex16":     func(r *rand.Rand) string { return draw(r, hexDigits, 16) },
	"hex-sha":   func(r *rand.Rand) string { return "u_" + draw(r, hexDigits, 40) },
	"ulid":      func(r *rand.Rand) string { return draw(r, crockford, 26) },
	"nanoid":    func(r *rand.Rand) string { return draw(r, nanoAlphabet, 21) },
	"nanoid-8":  func(r *rand.Rand) string { return draw(r, nanoAlphabet, 8) },
	"base64":    func(r *rand.Rand) string { return base64.StdEncoding.EncodeToString(randomBytes(r, 8+r.IntN(24))) },
	"base64url": func(r *rand.Rand) string { return base64.RawURLEncoding.EncodeToString(randomBytes(r, 8+r.IntN(24))) },
	"stripe":    func(r *rand.Rand) string { return "cus_" + draw(r, nanoAlphabet[:40], 14) },
	"google": func(r *rand.Rand) string {
		return fmt.Sprintf("GA1.%d.%d.%d", 1+r.IntN(3), r.Uint32(), 1.7e9+r.IntN(1e8))
	},
	"client":    func(r *rand.Rand) string { return fmt.Sprintf("%d.%d", r.Uint32(), int(1.7e9)+r.IntN(1e8)) },
	"meta":      func(r *rand.Rand) string { return fmt.Sprintf("fb.1.%d.%d", int(1.7e12)+r.IntN(1e11), r.Uint32()) },
	"snowflake": func(r *rand.Rand) string { return strconv.FormatUint(r.Uint64()>>1, 10) },
	"number":    func(r *rand.Rand) string { return strconv.Itoa(1 + r.IntN(1e12)) },
	"market": func(r *rand.Rand) string {
		return fmt.Sprintf("%03d-%07d-%07d", r.IntN(1000), r.IntN(1e7), r.IntN(1e7))
	},
	"order": func(r *rand.Rand) string { return fmt.Sprintf("ORD-%d-%06d", 2020+r.IntN(8), r.IntN(1e6)) },
	"version": func(r *rand.Rand) string {
		return fmt.Sprintf("v%d.%d.%d.%d", r.IntN(9), r.IntN(99), r.IntN(99), r.IntN(999))
	},
	"time": func(r *rand.Rand) string {
		return fmt.Sprintf("2026-%02d-%02dT%02d:%02d:%02dZ", 1+r.IntN(12), 1+r.IntN(28), r.IntN(24), r.IntN(60), r.IntN(60))
	},
	"date-n": func(r *rand.Rand) string {
		return fmt.Sprintf("2026%02d%02d-%04d", 1+r.IntN(12), 1+r.IntN(28), r.IntN(1e4))
	},
	"jwt": func(r *rand.Rand) string {
		claims := fmt.Sprintf(`{"sub":"%d","iat":%d,"jti":"%s"}`, r.Uint64(), int(1.7e9)+r.IntN(1e8), randomID(r))
		enc := base64.RawURLEncoding.EncodeToString
		return enc([]byte(`{"alg":"RS256","kid":"k1"}`)) + "." + enc([]byte(claims)) + "." + enc(randomBytes(r, 64))
	},
}

func randomBytes(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func randomID(r *rand.Rand) (id ID) {
	copy(id[:], randomBytes(r, 16))
	return id
}

// TestOpaque draws many ids of every make. None may be rejected: a false alarm costs its sender an event.
func TestOpaque(t *testing.T) {
	for name, make := range opaque {
		r := rand.New(rand.NewPCG(1, 2))
		for range 3000 {
			value := make(r)
			out, warn, code, message, _ := checkIdentifier(kindPartner, value)
			if out != value || warn != "" || code != "" {
				t.Errorf("%s: %q: got %q, warning %q, code %q, %s", name, value, out, warn, code, message)
			}
		}
	}
}

// ids is how many random ids TestFalseAlarms draws. docs/decisions/0011-identifiers.md has the figures of a million:
// go test ./event -run TestFalseAlarms -v -ids 1000000
var ids = flag.Int("ids", 100_000, "random ids that TestFalseAlarms draws")

// numeric are makers of ids that look like other numbers by chance. They are counted by themselves.
var numeric = map[string]func(r *rand.Rand) string{
	"16 digits": func(r *rand.Rand) string { return strconv.Itoa(1e15 + r.IntN(9e15)) },
	"11 digits": func(r *rand.Rand) string { return strconv.Itoa(1e10 + r.IntN(9e10)) },
	"3-3-4 digits": func(r *rand.Rand) string {
		return fmt.Sprintf("%03d-%03d-%04d", r.IntN(1000), r.IntN(1000), r.IntN(1e4))
	},
	"numbers, hyphen": func(r *rand.Rand) string {
		return fmt.Sprintf("%d-%d-%d-%d", r.IntN(1000), r.IntN(1000), r.IntN(1000), r.IntN(1000))
	},
	"letters, 8": func(r *rand.Rand) string { return draw(r, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_", 8) },
	"base32":     func(r *rand.Rand) string { return draw(r, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 32) },
}

// TestFalseAlarms measures how many random opaque ids are rejected as partner_id, and how many of those that have the
// shape of an ifa. Ids in the groups of telephone numbers look like them; all others may hardly ever be rejected.
func TestFalseAlarms(t *testing.T) {
	count := func(makers map[string]func(r *rand.Rand) string, limit func(name string) int) {
		for _, name := range slices.Sorted(maps.Keys(makers)) {
			r := rand.New(rand.NewPCG(7, 11))
			n := max(*ids/len(makers), 1)
			partner, ifa := 0, 0
			for range n {
				value := makers[name](r)
				if _, _, code, _, _ := checkIdentifier(kindPartner, value); code != "" {
					partner++
				}
				if _, _, code, _, _ := checkIdentifier(kindIFA, value); code == PlaintextPII && describeIFA(value) == nil {
					ifa++
				}
			}
			t.Logf("%-16s %8d ids: %d rejected as partner_id, %d of an accepted shape rejected as ifa", name, n, partner, ifa)
			if most := limit(name); partner*1_000_000 > most*n {
				t.Errorf("%s: %d of %d rejected as partner_id, want at most %d of a million", name, partner, n, most)
			}
		}
	}
	count(opaque, func(string) int { return 0 })
	count(numeric, func(name string) int {
		switch name {
		case "3-3-4 digits": // the form of North American telephone numbers
			return 600_000
		case "numbers, hyphen": // one in thirty has four parts up to 255, two of them of three digits
			return 10_000
		}
		return 100
	})
}

// disguises are ways in which personal data gets into an identifier.
var disguises = map[string]func(s string) string{
	"plain":          func(s string) string { return s },
	"prefix":         func(s string) string { return "u:" + s },
	"percent":        url.QueryEscape,
	"percent twice":  func(s string) string { return url.QueryEscape(url.QueryEscape(s)) },
	"percent all":    func(s string) string { return percentAll(s) },
	"percent all 3x": func(s string) string { return percentAll(percentAll(percentAll(s))) },
	"entity":         func(s string) string { return entities(s, "&#%d;") },
	"entity hex":     func(s string) string { return entities(s, "&#x%x;") },
	"entity escaped": func(s string) string { return html.EscapeString(entities(s, "&#%d;")) },
	"backslash u":    func(s string) string { return entities(s, `\u%04x`) },
	"wide":           wide,
	"invisible":      func(s string) string { return strings.Join(strings.Split(s, ""), "\u200b") },
	"base64":         func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
	"base64 raw url": func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) },
	"base64 prefix":  func(s string) string { return "id:" + base64.StdEncoding.EncodeToString([]byte(s)) },
	"base64 twice": func(s string) string {
		return base64.StdEncoding.EncodeToString([]byte(base64.StdEncoding.EncodeToString([]byte(s))))
	},
	"base64 percent": func(s string) string { return url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(s + "\n"))) },
	"hex":            func(s string) string { return hex.EncodeToString([]byte(s)) },
	"hex upper":      func(s string) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) },
	"jwt": func(s string) string {
		enc := base64.RawURLEncoding.EncodeToString
		return enc([]byte(`{"alg":"none"}`)) + "." + enc([]byte(`{"x":"`+s+`"}`)) + "."
	},
}

func percentAll(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		fmt.Fprintf(&b, "%%%02X", c)
	}
	return b.String()
}

func entities(s, format string) string {
	var b strings.Builder
	for _, r := range s {
		fmt.Fprintf(&b, format, r)
	}
	return b.String()
}

// wide writes ASCII as the full-width characters of East Asia.
func wide(s string) string {
	return strings.Map(func(r rune) rune {
		if r > ' ' && r < 0x7f {
			return r + 0xfee0
		}
		return r
	}, s)
}

// TestDisguises sends personal data of every kind through every disguise into every identifier.
func TestDisguises(t *testing.T) {
	for _, plain := range []string{
		"jane.doe@example.com", "o'brien+x@mail.example.co.uk", "203.0.113.7", "198.51.100.23", "2001:db8::8a2e:370:7334", "00:1b:44:11:3a:b7",
		"+14155550123", "+442079460958", "415-555-0123", "078-05-1120", "4111-1111-1111-1111",
	} {
		for name, disguise := range disguises {
			value := disguise(plain)
			for kind := range identifierKind(4) {
				if hash := pii.Hex(value).Valid(); hash && kind == kindIFA && len(value) == 32 {
					continue // the shape of an ifa; only addresses are looked for in it
				}
				if _, _, code, _, _ := checkIdentifier(kind, value); code != PlaintextPII {
					t.Errorf("%s, %s, kind %d, %q: got code %q, want %s", plain, name, kind, value, code, PlaintextPII)
				}
			}
		}
	}
}
