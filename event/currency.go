package event

import "github.com/bojanz/currency"

// currencyBits has a bit for each active code, read as a number in base 26.
var currencyBits [(26*26*26 + 63) / 64]uint64

func init() {
	for _, code := range currency.GetCurrencyCodes() {
		if n, ok := currencyNumber(code); ok {
			currencyBits[n>>6] |= 1 << (n & 63)
		}
	}
}

// activeCurrency says whether s is an active ISO 4217 alphabetic code, in upper case, of something a
// transaction can be paid in. Codes that stand for no currency, for tests (XTS), for metals (XAU) and
// for units of account between banks (XDR) are rejected with the withdrawn ones: a value in them cannot be
// added to any other.
func activeCurrency(s string) bool {
	n, ok := currencyNumber(s)
	return ok && currencyBits[n>>6]&(1<<(n&63)) != 0
}

func currencyNumber(s string) (n uint, ok bool) {
	if len(s) != 3 {
		return 0, false
	}
	for i := range 3 {
		c := s[i] - 'A'
		if c > 25 {
			return 0, false
		}
		n = n*26 + uint(c)
	}
	return n, true
}
