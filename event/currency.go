package event

import (
	"strings"

	"github.com/bojanz/currency"
)

// activeCurrency says whether s is an active ISO 4217 alphabetic code, in upper case, of something a
// transaction can be paid in. Codes that stand for no currency, for tests (XTS), for metals (XAU) and
// for units of account between banks (XDR) are rejected with the withdrawn ones: a value in them cannot be
// added to any other.
func activeCurrency(s string) bool { return len(s) == 3 && currency.IsValid(s) }

// currencyNames are what people write instead of a code, in the form that foldName makes.
var currencyNames = map[string]string{
	"euro": "EUR", "euros": "EUR", "€": "EUR", "dollar": "USD", "dollars": "USD", "usdollar": "USD", "usdollars": "USD",
	"us": "USD", "$": "USD",
	"bucks": "USD", "pound": "GBP", "pounds": "GBP", "sterling": "GBP", "poundsterling": "GBP", "£": "GBP", "yen": "JPY",
	"¥": "JPY", "yuan": "CNY", "rmb": "CNY",
	"renminbi": "CNY", "rupee": "INR", "rupees": "INR", "₹": "INR", "real": "BRL", "reais": "BRL", "r": "BRL",
	"ruble": "RUB", "rubles": "RUB", "rur": "RUB", "₽": "RUB",
	"won": "KRW", "₩": "KRW", "zloty": "PLN", "zł": "PLN", "lira": "TRY", "₺": "TRY", "trl": "TRY", "shekel": "ILS",
	"₪": "ILS", "nis": "ILS", "franc": "CHF",
	"francs": "CHF", "sfr": "CHF", "krona": "SEK", "kronor": "SEK", "krone": "NOK", "kroner": "NOK", "forint": "HUF",
	"koruna": "CZK", "baht": "THB", "rand": "ZAR",
	"dirham": "AED", "riyal": "SAR", "ringgit": "MYR", "rupiah": "IDR", "dong": "VND", "hryvnia": "UAH", "ntd": "TWD",
	"nt": "TWD", "cnh": "CNY", "stg": "GBP",
	"canadiandollar": "CAD", "cad": "CAD", "c": "CAD", "australiandollar": "AUD", "au": "AUD", "mexicanpeso": "MXN",
	"bgn": "EUR", "bgl": "EUR", "rol": "RON", "dem": "EUR", "frf": "EUR",
	"itl": "EUR", "esp": "EUR", "nlg": "EUR", "ats": "EUR", "hrk": "EUR",
}

// nearestCurrency is the code that a text was most likely meant to be, "" if none is near: a name or sign of a
// currency, a withdrawn code, or a text that begins with a code.
func nearestCurrency(s string) string {
	var buf [maxName]byte
	folded, ok := foldName(buf[:0], strings.TrimSpace(s))
	if !ok {
		// foldName drops the dollar sign, which alone leaves nothing.
		folded = append(buf[:0], strings.TrimSpace(s)[:min(len(strings.TrimSpace(s)), maxName)]...)
	}
	if code := currencyNames[string(folded)]; code != "" {
		return code
	}
	if len(folded) < 3 || len(folded) > len("dollars") {
		return ""
	}
	code := strings.ToUpper(string(folded[:3]))
	if !activeCurrency(code) {
		return ""
	}
	return code
}
