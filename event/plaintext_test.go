package event

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
		"@jane@mastodon.example", "jane@example.com.html", "jane@example.com.1700000000", "jane@example.com-backup", "jane@example.museum", "%4\u200b0 is no escape, jane@example.com is",
		strings.Repeat("x ", 100_000) + "jane@example.com", strings.Repeat("é", 40_000) + " jane%40example.com " + strings.Repeat("é", 40_000),
	} {
		if !holdsEmail(s) {
			t.Errorf("%.80q: got none, want an address", s)
		}
	}
	for _, s := range []string{
		"", "@", "jane", "jane@", "@example.com", "jane@localhost", "jane@example", "a @ b.com", "jane@.com", "jane@example.c", "jane@@", "100%", "50%40", "%", "%4", "&#", `\u`, `\u00`,
		"https://www.tiktok.example/@jane.doe/video/1", "https://medium.example/@jane.doe", "https://maps.example/@37.7749,-122.4194,15z", "https://x.example/?handle=@jane.doe", "follow @jane.doe",
		"https://cdn.example/logo@2x.png", "https://cdn.example/logo@3x.min.js", "https://cdn.example/npm/vue@3.4.21/dist/vue.js", "https://cdn.example/npm/@scope/pkg@1.2.3/x.js", "lodash@4.17.21", "img@1x.webp", "vue@next.js",
		"5 @ 3.50", "size@10.5", "jane_at_example.com", "jane at example dot com", "203.0.113.7", "+14155550123", "a&b=c&d;e", "&copy;", "a%20b%2Fc", "é%20ü", "https://x.example/caf%C3%A9?a=1&b=2",
		"amFuZS5kb2VAZXhhbXBsZS5jb20=", // base64 is looked into only where an identifier is expected
	} {
		if holdsEmail(s) {
			t.Errorf("%q: got an address, want none", s)
		}
	}
}

// TestFastPaths holds that what nearly every event has costs no allocation.
func TestFastPaths(t *testing.T) {
	for name, f := range map[string]func(){
		"hash":    func() { checkIdentifier(kindEmail, "973dfe463ec85785f5f95af5ba3906eedb2d931c24e69824a89ea65dba4e813b") },
		"junk":    func() { checkIdentifier(kindIP, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855") },
		"uuid":    func() { checkIdentifier(kindIFA, "97987bca-ae59-4c7d-94ba-ee4f19ab8c21") },
		"token":   func() { checkIdentifier(kindIFA, "9774d56d682e549c") },
		"key":     func() { checkIdentifier(kindPartner, "user_12345") },
		"nanoid":  func() { checkIdentifier(kindPartner, "V1StGXR8_Z5jdHi6B-myT") },
		"refused": func() { checkIdentifier(kindEmail, "jane.doe@example.com") },
		"url": func() {
			holdsEmail("https://shop.example/products/blue-shoes?utm_source=mail&utm_campaign=spring%20sale&q=caf%C3%A9")
		},
		"text": func() { holdsEmail("Größe 42, blau") },
		"type": func() { nearestType("AddToCart") },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: got %v allocations, want none", name, n)
		}
	}
}

// TestRefusedHashSaysWhy holds that the answer names what a value looks like.
func TestRefusedHashSaysWhy(t *testing.T) {
	hash := "86e0b9e56c17cc4d12387e1949b85053fbe73bc3ce5a1188713a9d300cc6133d"
	for value, want := range map[string]*refusal{
		hash[:32]: &refuseMD5, hash[:40]: &refuseSHA1, hash[:56]: &refuseSHA224, hash + hash[:32]: &refuseSHA384, hash + hash: &refuseSHA512,
		hash[:63]: &refuseShortHash, hash + "0": &refuseLongHash, hash[:62] + "zz": &refuseHashLetter,
		"sha256:" + hash: &refuseHashPrefix, "0x" + hash: &refuseHashPrefix, `"` + hash + `"`: &refuseHashQuote, "{" + hash + "}": &refuseHashQuote,
		" " + hash: &refuseHashSpace, hash + "\n": &refuseHashSpace, hash + "  -": &refuseHashSpace, "\ufeff" + hash: &refuseHashHidden,
		hash + "," + hash: &refuseHashList, "huC55WwXzE0SOH4ZSbhQU_vnO8POWhGIcTqdMAzGEz0": &refuseBase64, "huC55WwXzE0SOH4ZSbhQU/vnO8POWhGIcTqdMAzGEz0=": &refuseBase64,
		"550e8400-e29b-41d4-a716-446655440000": &refuseHashUUID, "$2b$12$KIXQ4S1kqf1yUy8b6VtFxO7n0v2o7n0t8y1pF2mJ3kK9dL5sQ6rWe": &refusePassword,
		"{{em}}": &refuseMacro, "null": &refusePlaceholder, "hello": &refuseHash, "some words here": &refuseHashSpaces, strings.Repeat("0", 64): &refuseZeroHash,
	} {
		_, _, code, message, hint := checkIdentifier(kindEmail, value)
		if code != want.code || message != want.message || hint != want.hint {
			t.Errorf("%q: got %s %q, want %q", value, code, message, want.message)
		}
	}
}
