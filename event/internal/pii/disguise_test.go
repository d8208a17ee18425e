package pii

import (
	"encoding/base32"
	"fmt"
	"strings"
	"testing"
)

// TestDisguised holds what the newer detectors find in identifiers, and what they leave alone.
func TestDisguised(t *testing.T) {
	encoded := base32.StdEncoding.EncodeToString([]byte("jane.doe@example.com"))
	for value, want := range map[string]Finding{
		// The @ in other words.
		"jane=40example.com": Email, "jane.doe=40mail.example.co.uk": Email, "jane#at#example.com": Email, "jane*AT*example*dot*com": Email, "jane|at|example.com": Email,
		"size=40": Nothing, "x=40y": Nothing, "q=40.5": Nothing, "a#at#b": Nothing,
		// Telephone URIs.
		"tel:4155550123": Phone, "TEL:+1-415-555-0123": Phone, "x tel:02079460958": Phone, "sms:4155550123": Phone, "hotel:4155550123": Nothing, "tel:123": Nothing, "tel:": Nothing,
		// Addresses as programs read them.
		"0xCB.0x00.0x71.0x07": IPv4, "0xcb.0.113.7": IPv4, "0313.0.0161.07": IPv4, "0313.0000.0161.0007": IPv4, "203-0-113-7": IPv4, "198-51-100-23": IPv4,
		"ip-10-0-0-1": IPv4, "ip-10-0-0-1.internal": IPv4, "host=203-0-113-7": IPv4,
		"0xCB.0x00.0x71": Nothing, "0x1CB.0x00.0x71.0x07": Nothing, "1-2-3-4": Nothing, "12-34-56-78": Nothing, "203-0-113-7-9": Nothing, "203-0-113-300": Nothing,
		"a203-0-113-7": Nothing, "trip-10-0-0-1": Nothing, "v0x1.0.0.0b": Nothing,
		// Base32.
		encoded: Email, strings.ToLower(encoded): Email, "id:" + encoded: Email, strings.TrimRight(encoded, "="): Email, encoded[:12]: Nothing,
		// Names.
		"Jane_Doe": Name, "Maria_Garcia_Lopez": Name, "Doe_Jane": Name, "Blue_Shoes": Nothing, "Rose_Gold": Nothing, "jane_doe": Nothing, "Jane": Nothing, "Jane_": Nothing,
		"Jane_Doe2": Nothing, "JANE_DOE": Nothing, "Order_Id": Nothing,
	} {
		if got := Inspect(value, false, true); got != want {
			t.Errorf("%q: got %d, want %d", value, got, want)
		}
	}
	// A number without separators is named only where it is rejected in any case.
	for value, want := range map[string]Finding{
		"4111111111111111": Card, "378282246310005": Card, "5555555555554444": Card, "4111111111111112": Nothing, "14155550123": Phone, "442079460958": Phone,
		"4155550123": Nothing, "1700000000123": Nothing, "490154203237518": Nothing, "1541815603606036480": Nothing,
	} {
		if got := Inspect(value, true, false); got != want {
			t.Errorf("%s, rejected in any case: got %d, want %d", value, got, want)
		}
		if got := Inspect(value, false, true); got != Nothing {
			t.Errorf("%s, as an opaque id: got %d, want nothing", value, got)
		}
	}
}

// TestBase64NeedsACapital holds the quick test of HoldsEmail: base64 of an address always has a capital letter.
func TestBase64NeedsACapital(t *testing.T) {
	for shift := range 3 {
		for _, name := range []string{"a@b.co", "zz@zz.zz", "00@00.org", "~~@~~.com"} {
			text := strings.Repeat("z", shift) + name
			token := encode64(text)
			if !strings.ContainsAny(token, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
				t.Errorf("%s: %s has no capital letter", text, token)
			}
		}
	}
	for c := range 256 {
		for at := range 8 {
			b := []byte("abcdefgh")
			b[at] = byte(c)
			if c < 0x80 && upper(load(string(b), 0)) != (c >= 'A' && c <= 'Z') {
				t.Errorf("byte %#x at %d: got %v", c, at, upper(load(string(b), 0)))
			}
		}
	}
}

func encode64(s string) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	var bits strings.Builder
	for _, c := range []byte(s) {
		fmt.Fprintf(&bits, "%08b", c)
	}
	for bits.Len()%6 != 0 {
		bits.WriteByte('0')
	}
	var out []byte
	for i := 0; i < bits.Len(); i += 6 {
		n := 0
		for _, b := range []byte(bits.String()[i : i+6]) {
			n = n<<1 | int(b-'0')
		}
		out = append(out, letters[n])
	}
	return string(out)
}
