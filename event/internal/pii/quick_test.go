package pii

import (
	"strings"
	"testing"
)

// TestQuickEmail holds the quick test against the thorough one, every disguise at every place of a word.
func TestQuickEmail(t *testing.T) {
	disguises := []string{
		"jane@example.com", "jane%40example.com", "jane%2540example.com", "jane&#64;example.com", "jane&#x40;example.com", "jane&commat;example.com",
		"jane&amp;#64;example.com", "jane&amp#64example.com", "jane&percnt;40example.com", `jane\u0040example.com`, `jane\x40example.com`, "jane＠example.com", "jane﹫example.com",
		"ja\u200bne@example.com", "jane%u0040example.com", "jane&bsol;u0040example.com",
	}
	for _, text := range disguises {
		if !searchEmail(text) {
			t.Errorf("%q: the thorough search does not find it", text)
		}
		for before := range 17 {
			for _, after := range []string{"", " ", " and more words"} {
				if padded := strings.Repeat("-", before) + " " + text + after; !HoldsEmail(padded) {
					t.Errorf("%q: not found", padded)
				}
			}
		}
	}
	for _, text := range []string{"", "a", "@", "a@b", "https://a.example/@b?c=d&e=f#g", "5;6", "ünïcödé", "100%", strings.Repeat("x", 100)} {
		if HoldsEmail(text) != searchEmail(text) {
			t.Errorf("%q: got %v", text, HoldsEmail(text))
		}
	}
}
