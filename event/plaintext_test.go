package event

import (
	"strings"
	"testing"

	"sluice/event/internal/pii"
)

// TestFastPaths holds that what nearly every event has costs no allocation.
func TestFastPaths(t *testing.T) {
	for name, f := range map[string]func(){
		"hash":     func() { checkIdentifier(kindEmail, "973dfe463ec85785f5f95af5ba3906eedb2d931c24e69824a89ea65dba4e813b") },
		"junk":     func() { checkIdentifier(kindIP, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855") },
		"uuid":     func() { checkIdentifier(kindIFA, "97987bca-ae59-4c7d-94ba-ee4f19ab8c21") },
		"token":    func() { checkIdentifier(kindIFA, "9774d56d682e549c") },
		"key":      func() { checkIdentifier(kindPartner, "user_12345") },
		"nanoid":   func() { checkIdentifier(kindPartner, "V1StGXR8_Z5jdHi6B-myT") },
		"rejected": func() { checkIdentifier(kindEmail, "jane.doe@example.com") },
		"url": func() {
			pii.HoldsEmail("https://shop.example/products/blue-shoes?utm_source=mail&utm_campaign=spring%20sale&q=caf%C3%A9")
		},
		"text": func() { pii.HoldsEmail("Größe 42, blau") },
		"type": func() { nearestType("AddToCart") },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: got %v allocations, want none", name, n)
		}
	}
}

// TestRejectedHashSaysWhy holds that the answer names what a value looks like.
func TestRejectedHashSaysWhy(t *testing.T) {
	hash := "86e0b9e56c17cc4d12387e1949b85053fbe73bc3ce5a1188713a9d300cc6133d"
	for value, want := range map[string]*fault{
		hash[:32]: &faultMD5, hash[:40]: &faultSHA1, hash[:56]: &faultSHA224, hash + hash[:32]: &faultSHA384, hash + hash: &faultSHA512,
		hash[:63]: &faultShortHash, hash + "0": &faultLongHash, hash[:62] + "zz": &faultHashLetter,
		"sha256:" + hash: &faultHashPrefix, "0x" + hash: &faultHashPrefix, `"` + hash + `"`: &faultHashQuote, "{" + hash + "}": &faultHashQuote,
		" " + hash: &faultHashSpace, hash + "\n": &faultHashSpace, hash + "  -": &faultHashSpace, "\ufeff" + hash: &faultHashHidden,
		hash + "," + hash: &faultHashList, "huC55WwXzE0SOH4ZSbhQU_vnO8POWhGIcTqdMAzGEz0": &faultBase64, "huC55WwXzE0SOH4ZSbhQU/vnO8POWhGIcTqdMAzGEz0=": &faultBase64,
		"550e8400-e29b-41d4-a716-446655440000": &faultHashUUID, "$2b$12$KIXQ4S1kqf1yUy8b6VtFxO7n0v2o7n0t8y1pF2mJ3kK9dL5sQ6rWe": &faultPassword,
		"{{em}}": &faultMacro, "null": &faultPlaceholder, "hello": &faultHash, "some words here": &faultHashSpaces, strings.Repeat("0", 64): &faultZeroHash,
	} {
		_, _, code, message, hint := checkIdentifier(kindEmail, value)
		if code != want.code || message != want.message || hint != want.hint {
			t.Errorf("%q: got %s %q, want %q", value, code, message, want.message)
		}
	}
}
