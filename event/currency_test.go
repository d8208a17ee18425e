package event

import (
	"testing"

	"github.com/bojanz/currency"
)

func TestActiveCurrency(t *testing.T) {
	for _, code := range []string{"USD", "EUR", "GBP", "JPY", "XCG", "ZWG", "SLE", "VED", "MRU", "STN", "XAF", "XOF", "XPF", "KRW"} {
		if !activeCurrency(code) {
			t.Errorf("%s: got rejected, want active", code)
		}
	}
	for _, code := range []string{
		"", "US", "USDX", "usd", "Usd", "U$D", "840", "ABC", "ZZZ", "   ", "€", "US\u0000",
		"DEM", "FRF", "ITL", "HRK", "LTL", "EEK", "VEF", "ZWL", "ZWD", "BYR", "MRO", "STD", "SLL", "ANG", "CUC", "TRL", // withdrawn
		"XXX", "XTS", "XAU", "XAG", "XPT", "XPD", "XDR", "XBA", // not money that anyone is paid in
		"BTC", "XBT", "ETH", "USDT", "RMB", // never in ISO 4217
	} {
		if activeCurrency(code) {
			t.Errorf("%q: got active, want rejected", code)
		}
	}
	active := 0
	for n := range 26 * 26 * 26 {
		if activeCurrency(string([]byte{'A' + byte(n/676), 'A' + byte(n/26%26), 'A' + byte(n%26)})) {
			active++
		}
	}
	if want := len(currency.GetCurrencyCodes()); active != want {
		t.Errorf("got %d active codes, want %d", active, want)
	}
}
