package gpp_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"sluice/gpp"
)

// sameBothWays holds the short way of reading a string to the general one, and says whether it took the string.
func sameBothWays(t *testing.T, s string) bool {
	t.Helper()
	short := gpp.ParseUsual(s)
	if short == nil {
		return false
	}
	long, err := gpp.ParseAny(s)
	if err != nil {
		t.Fatalf("%s: the general way says %v", s, err)
	}
	a, b := short.Section(short.IDs()[0]), long.Section(short.IDs()[0])
	if *a != *b || short.Text() != long.Text() || string(short.AppendJSON(nil)) != string(long.AppendJSON(nil)) {
		t.Fatalf("%s:\n got %s %+v\nwant %s %+v", s, short.AppendJSON(nil), *a, long.AppendJSON(nil), *b)
	}
	return true
}

// TestUsual reads strings of all US layouts, right and damaged, in the short way and the general one.
func TestUsual(t *testing.T) {
	const characters = "AABCQYZaz09-_.~é"
	r := rand.New(rand.NewPCG(7, 8))
	whole, damaged := 0, 0
	for range 40_000 {
		us := randomUS(r)
		s, err := gpp.Encode(us)
		if err != nil {
			t.Fatal(err)
		}
		if took := sameBothWays(t, s); took != (us.ID < gpp.USMD) {
			t.Fatalf("%s: the short way took it: %v", s, took)
		}
		whole++
		at := r.IntN(len(s) + 1)
		c := string(characters[r.IntN(len(characters))])
		for _, other := range []string{s[:at], s[:at] + c + s[min(at+1, len(s)):], s[:at] + c + s[at:], s + strings.Repeat("A", r.IntN(6)), strings.Replace(s, ".", "AAAA"[:r.IntN(5)]+".", 1)} {
			if sameBothWays(t, other) {
				damaged++
			}
		}
	}
	if damaged < whole/10 || damaged > 4*whole {
		t.Errorf("%d of %d damaged strings were taken", damaged, 5*whole)
	}
	for _, v := range vectors(t) {
		sameBothWays(t, v.GPPString)
	}
	if severalListed := "DBABw2~BAAAAAAA"; sameBothWays(t, severalListed) {
		t.Error("the short way took a header that lists three sections")
	}
}
