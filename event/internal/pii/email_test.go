package pii

import (
	"strings"
	"testing"
)

func TestHoldsEmail(t *testing.T) {
	for _, s := range []string{
		"jane@example.com", "JANE@EXAMPLE.COM", "j@x.io", "jane.doe+tag@mail.example.co.uk", "<jane@example.com>", "mailto:jane@example.com?subject=x",
		"Please write to jane@example.com.", "jane@example.com,john", "a=jane@example.com&b=c", "https://x.example/?email=jane@example.com", "https://x.example/jane@example.com/edit",
		"https://x.example/?email=jane%40example.com", "https://x.example/?u=https%3A%2F%2Fy.example%2F%3Fe%3Djane%2540example.com", "jane%252540example.com", "%6A%61%6E%65%40example.com",
		"jane&#64;example.com", "jane&#x40;example.com", "jane&commat;example.com", "jane&amp;#64;example.com", `jane\u0040example.com`, `jane\x40example.com`, "jane%u0040example.com",
		"jane\uff20example.com", "jane\ufe6bexample.com", "jane%EF%BC%A0example.com", "ja\u200bne@exam\u200dple.com", "jane@example\u3002com", "ｊａｎｅ＠ｅｘａｍｐｌｅ．ｃｏｍ",
		"jürgen@exämple.com", "用户@例子.广告", "jane@xn--exmple-cua.com", `"jane doe"@example.com`, "jane@[203.0.113.7]", "jane@[IPv6:2001:db8::1]", "o'brien@example.com", "jane_@example.com",
		"jane@0x.org", "jane@2x.de", "jane@3X.example.", "jane@2x.png.com", "jane@10x.de.html", "jane@163.com", "jane@3.min.de",
		"https://cdn.example/jane@163.com.png", "avatar/jane@139.com.jpg?v=1", "jane@126.com.min.js", "jane@1.2go.com.webp",
		"@jane@mastodon.example", "jane@example.com.html", "jane@example.com.1700000000", "jane@example.com-backup", "jane@example.museum", "%4\u200b0 is no escape, jane@example.com is",
		"amFuZS5kb2VAZXhhbXBsZS5jb20=", "https://x.example/?u=amFuZS5kb2VAZXhhbXBsZS5jb20%3D&v=1", "https://x.example/u/amFuZUBleGFtcGxlLmNvbQ/edit", "id-amFuZUBleGFtcGxlLmNvbQ",
		"u_amFuZS5kb2VAZXhhbXBsZS5jb20=", `{"t":"eyJlbWFpbCI6ImphbmVAZXhhbXBsZS5jb20ifQ"}`, "a b eyJlbWFpbCI6ImphbmVAZXhhbXBsZS5jb20ifQ.x c",
		strings.Repeat("x ", 100_000) + "jane@example.com", strings.Repeat("é", 40_000) + " jane%40example.com " + strings.Repeat("é", 40_000),
	} {
		if !HoldsEmail(s) {
			t.Errorf("%.80q: got none, want an address", s)
		}
	}
	for _, s := range []string{
		"", "@", "jane", "jane@", "@example.com", "jane@localhost", "jane@example", "a @ b.com", "jane@.com", "jane@example.c", "jane@@", "100%", "50%40", "%", "%4", "&#", `\u`, `\u00`,
		"https://www.tiktok.example/@jane.doe/video/1", "https://medium.example/@jane.doe", "https://maps.example/@37.7749,-122.4194,15z", "https://x.example/?handle=@jane.doe", "follow @jane.doe",
		"https://cdn.example/logo@2x.png", "https://cdn.example/logo@3x.min.js", "https://cdn.example/npm/vue@3.4.21/dist/vue.js", "https://cdn.example/npm/@scope/pkg@1.2.3/x.js", "lodash@4.17.21", "img@1x.webp", "vue@next.js",
		"https://cdn.example/logo@2x.de.PNG?v=1", "logo@2x.png-small", "logo@2x.min.css", "logo@2x.png.1700000000", "logo@2x", "npm/jquery@3.6.0.min.js", "img@5.png", "x@1.0-beta.js", "a@3.",
		"Cj0KCQjwxIOXBhCrARIsAL1QFCY5RB", "https://x.example/?gclid=EAIaIQobChMI8Y3Jt6", "SGVsbG8gd29ybGQsIHRoaXMgaXMgdGV4dA==", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "https://X.EXAMPLE/Path/To/SomeVeryLongPageName",
		"5 @ 3.50", "size@10.5", "jane_at_example.com", "jane at example dot com", "203.0.113.7", "+14155550123", "a&b=c&d;e", "&copy;", "a%20b%2Fc", "é%20ü", "https://x.example/caf%C3%A9?a=1&b=2",
	} {
		if HoldsEmail(s) {
			t.Errorf("%q: got an address, want none", s)
		}
	}
}

// FuzzHoldsEmail checks the fast path against the slow one: no decoding makes an address of what HoldsEmail cleared.
func FuzzHoldsEmail(f *testing.F) {
	for _, s := range []string{"jane@example.com", "jane%40example.com", "https://x.example/?a=b%20c&d=%2F", "logo@2x.png", "a&amp;b", "\\u0040", "\uff20"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if HoldsEmail(s) {
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

// FuzzInspect holds that no value makes a detector panic, and that weaker evidence never finds less.
func FuzzInspect(f *testing.F) {
	for _, s := range []string{
		"jane@example.com", "203.0.113.7", "2001:db8::1", "00:1b:44:11:3a:b7", "+14155550123", "078-05-1120", "4111-1111-1111-1111", "Jane Doe", "{{id}}", "null",
		"amFuZS5kb2VAZXhhbXBsZS5jb20=", "6a616e65406578616d706c652e636f6d", "jane_at_example.com", "cus_NffrFeUfNV2Hib",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if Inspect(s, false, true) != Nothing && Inspect(s, true, true) == Nothing {
			t.Fatalf("%q: found with strong evidence only", s)
		}
	})
}

func BenchmarkHoldsEmail(b *testing.B) {
	for _, c := range []struct{ name, value string }{
		{"word", "spring_sale"},
		{"url", "https://shop.example/products/blue-shoes?utm_source=mail&utm_campaign=spring%20sale&gclid=Cj0KCQjw"},
		{"text-1k", string(make([]byte, 1024))},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				searchEmail(c.value)
			}
		})
	}
}

// An identifier that is too long is searched to its end for an address.
func TestLongIdentifiersHoldAddresses(t *testing.T) {
	for _, c := range []struct {
		value string
		want  Finding
	}{
		{strings.Repeat("x", maxSearched+1) + "jane@example.com", Email},
		{strings.Repeat("x", maxSearched-8) + "jane@example.com", Email},
		{strings.Repeat("x", 2*maxSearched), Nothing},
	} {
		if got := Inspect(c.value, false, true); got != c.want {
			t.Errorf("%d bytes: got %v, want %v", len(c.value), got, c.want)
		}
	}
}
