package gpp_test

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/gpp"
)

// europe is a string with a European TC string with these vendors consented to, further bits after them.
func europe(vendors, rest string) string {
	return "DBABMA~" + characters(tcCore(2)+vendors+rest)
}

// ranges writes vendor ranges of integers.
func ranges(pairs ...[2]int) string {
	out := field(65535, 16) + "1" + field(len(pairs), 12)
	for _, p := range pairs {
		if p[0] == p[1] {
			out += "0" + field(p[0], 16)
		} else {
			out += "1" + field(p[0], 16) + field(p[1], 16)
		}
	}
	return out
}

func parseTCF(t *testing.T, s string, id int) *gpp.TCF {
	t.Helper()
	g, err := gpp.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return g.Section(id).TCF()
}

func TestVendors(t *testing.T) {
	nothing := field(0, 17) + field(0, 12)
	for name, c := range map[string]struct {
		vendors string
		runs    [][2]int
	}{
		"none":                 {field(0, 17), nil},
		"bits":                 {field(10, 16) + "0" + "1101000111", [][2]int{{1, 2}, {4, 4}, {8, 10}}},
		"ranges":               {ranges([2]int{3, 3}, [2]int{5, 700}, [2]int{65535, 65535}), [][2]int{{3, 3}, {5, 700}, {65535, 65535}}},
		"ranges in a mess":     {ranges([2]int{5, 7}, [2]int{1, 1}, [2]int{6, 9}), [][2]int{{5, 7}, {1, 1}, {6, 9}}},
		"no range in the list": {ranges(), nil},
	} {
		v := parseTCF(t, europe(c.vendors, nothing), gpp.TCFEUv2).VendorConsents
		var got [][2]int
		for first, last := range v.Ranges() {
			got = append(got, [2]int{first, last})
		}
		if !reflect.DeepEqual(got, c.runs) {
			t.Errorf("%s: got %v, want %v", name, got, c.runs)
		}
		for id := range 1000 {
			want := slices.ContainsFunc(c.runs, func(r [2]int) bool { return r[0] <= id && id <= r[1] })
			if v.Has(id) != want {
				t.Errorf("%s: got vendor %d %v, want %v", name, id, !want, want)
			}
		}
	}
}

func TestVendorsAsJSON(t *testing.T) {
	nothing := field(0, 17) + field(0, 12)
	for name, c := range map[string]struct{ vendors, want string }{
		"in order, each once": {ranges([2]int{5, 7}, [2]int{1, 1}, [2]int{6, 9}), "[1,5,6,7,8,9]"},
		"at both ends":        {ranges([2]int{65535, 65535}, [2]int{1, 1}, [2]int{64, 64}, [2]int{63, 63}), "[1,63,64,65535]"},
		"too many to list":    {ranges([2]int{2, 10}, [2]int{9, 65535}), "[[2,65535]]"},
		"too many, as bits":   {field(9000, 16) + "0" + strings.Repeat("1", 9000), "[[1,9000]]"},
	} {
		g, err := gpp.Parse(europe(c.vendors, nothing))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var shown map[string]struct{ VendorConsents json.RawMessage }
		if err := json.Unmarshal(g.AppendJSON(nil), &shown); err != nil {
			t.Fatal(err)
		}
		if got := string(shown["tcfeuv2"].VendorConsents); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

func TestTCFIsChecked(t *testing.T) {
	none, restriction := field(0, 17), field(1, 6)
	for name, c := range map[string]struct {
		text string
		ok   bool
	}{
		"a range that ends before it begins": {europe(ranges([2]int{7, 6}), none+field(0, 12)), false},
		"a range from vendor 0":              {europe(ranges([2]int{0, 6}), none+field(0, 12)), false},
		"a restriction of type 2":            {europe(none, none+field(1, 12)+restriction+"10"+field(0, 12)), true},
		"a restriction of type 3":            {europe(none, none+field(1, 12)+restriction+"11"+field(0, 12)), false},
		"fewer restrictions than said":       {europe(none, none+field(9, 12)), false},
		"segments in any order":              {europe(none, none+field(0, 12)) + ".YAAAAAAAAAA.IAAA.QAAA", true},
		"a segment twice":                    {europe(none, none+field(0, 12)) + ".IAAA.IAAA", false},
		"a segment with something behind":    {europe(none, none+field(0, 12)) + ".IAAAB", false},
		"a segment with zeros behind":        {europe(none, none+field(0, 12)) + ".IAAA" + strings.Repeat("A", 100), true},
	} {
		if _, err := gpp.Parse(c.text); (err == nil) != c.ok {
			t.Errorf("%s: got %v, want ok %v", name, err, c.ok)
		}
	}
}

// Before 2026 encoders wrote Canadian ranges as integers. Both forms are read, and say the same.
func TestCanadianRanges(t *testing.T) {
	// Vendors 2, 3 and 4, and 10: as integers, and as steps 2, 2 and 6 in Fibonacci codes.
	legacy := ranges([2]int{2, 4}, [2]int{10, 10})
	current := field(65535, 16) + "1" + field(2, 12) + "1" + "011" + "011" + "0" + "10011"
	for name, vendors := range map[string]string{"legacy": legacy, "current": current} {
		s := "DBABDA~" + characters(tcCore(1)+vendors+field(0, 17)+field(0, 12))
		g, err := gpp.Parse(s)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got [][2]int
		for first, last := range g.Section(gpp.TCFCAv1).TCF().VendorConsents.Ranges() {
			got = append(got, [2]int{first, last})
		}
		if want := [][2]int{{2, 4}, {10, 10}}; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

func TestTCFFields(t *testing.T) {
	tc := parseTCF(t, measureEU, gpp.TCFEUv2)
	if got, want := tc.Created.Time(), time.Date(2019, 10, 7, 5, 17, 54, 0, time.UTC); !got.Equal(want) {
		t.Errorf("got created %v, want %v", got, want)
	}
	if tc.CmpID != 7 || tc.ConsentLanguage.String() != "EN" || tc.PublisherCountryCode.String() != "GB" || tc.VendorListVersion != 48 {
		t.Errorf("got %+v", tc)
	}
	if tc.PurposeConsents.Has(0) || !tc.PurposeConsents.Has(1) || tc.PurposeConsents.Has(65) {
		t.Errorf("got purposes %b", tc.PurposeConsents)
	}
	if tc.Restrictions.Len() != 1 {
		t.Fatalf("got %d restrictions, want 1", tc.Restrictions.Len())
	}
	for r := range tc.Restrictions.All() {
		if r.Purpose != 1 || r.Type != 0 || !r.Vendors.Has(10) || r.Vendors.Has(9) {
			t.Errorf("got restriction %+v", r)
		}
	}
}

// The fast way over a list of ranges says what the plain one says, and stops where it stops.
func TestPassInts(t *testing.T) {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	r := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		var list strings.Builder
		pos, count := r.IntN(12), 1+r.IntN(12)
		list.WriteString(strings.Repeat("0", pos))
		for range count {
			start, end := 1+r.IntN(2000), 0
			if r.IntN(40) == 0 {
				start = 0
			}
			if r.IntN(3) == 0 {
				end = start + r.IntN(50) - 1
				list.WriteString("1" + field(start, 16) + field(max(0, end), 16))
			} else {
				list.WriteString("0" + field(start, 16))
			}
		}
		text := characters(list.String())
		switch r.IntN(4) {
		case 0:
			text = text[:r.IntN(len(text)+1)]
		case 1:
			text += string(letters[r.IntN(64)])
		}
		if len(text)*6 < pos {
			continue
		}
		fast, slow, fastAt, slowAt := gpp.PassInts(text, pos, count)
		if fast != slow || fast == "" && fastAt != slowAt {
			t.Fatalf("%d ranges from bit %d of %q: got %q at %d, want %q at %d", count, pos, text, fast, fastAt, slow, slowAt)
		}
	}
}

func TestPlain(t *testing.T) {
	for c := range 256 {
		for at := range 19 {
			s := []byte("AZaz09-_mNOp5_-Zz0A")
			s[at] = byte(c)
			want := len(s)
			if !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", rune(c)) {
				want = at
			}
			if got := gpp.Plain(string(s), 0); got != want {
				t.Fatalf("byte %#x at %d: got %d, want %d", c, at, got, want)
			}
		}
	}
}

// TestCanadianRestrictions holds that publisher restrictions of old encoders are read: integer ranges as in Europe.
func TestCanadianRestrictions(t *testing.T) {
	tc := parseTCF(t, "DBABDA~BPSG_8APSG_8AAAAAAENAACAAAAAAAAAAAAAAAAACCgBwABAAOAAoADgAJA.YAAAAAAAAAA", gpp.TCFCAv1)
	if tc.Restrictions.Len() != 1 {
		t.Fatalf("got %d restrictions, want 1", tc.Restrictions.Len())
	}
	for r := range tc.Restrictions.All() {
		var got [][2]int
		for first, last := range r.Vendors.Ranges() {
			got = append(got, [2]int{first, last})
		}
		if want := [][2]int{{1, 3}, {5, 7}, {9, 9}}; r.Purpose != 1 || r.Type != 1 || !reflect.DeepEqual(got, want) {
			t.Errorf("got purpose %d, type %d, vendors %v, want 1, 1, %v", r.Purpose, r.Type, got, want)
		}
	}
	// The same restriction in the two other forms: with a maximum and integers, and in Fibonacci codes.
	head := tcCore(1) + field(0, 17) + field(0, 17) + field(1, 12) + field(1, 6) + "01"
	for name, vendors := range map[string]string{
		"integers with a maximum": ranges([2]int{1, 3}, [2]int{5, 7}, [2]int{9, 9}),
		"Fibonacci codes":         field(9, 16) + "1" + field(3, 12) + "1" + "11" + "011" + "1" + "011" + "011" + "0" + "011",
	} {
		tc := parseTCF(t, "DBABDA~"+characters(head+vendors), gpp.TCFCAv1)
		for r := range tc.Restrictions.All() {
			if r.Purpose != 1 || r.Type != 1 || !r.Vendors.Has(3) || r.Vendors.Has(4) || !r.Vendors.Has(9) {
				t.Errorf("%s: got %+v", name, r)
			}
		}
	}
}

// TestRestrictionsCostTheirLength holds that the work on vendor lists grows with the length of the string, not with the
// vendors that its ranges name. It counts steps: a sort of n ranges takes at most about n·log2(n) of them.
func TestRestrictionsCostTheirLength(t *testing.T) {
	list := func(n, each int) string {
		b := field(n, 12)
		for range n {
			b += field(1, 6) + "00" + field(each, 12)
			for i := each; i > 0; i-- { // descending, overlapping, and as wide as can be
				b += "1" + field(i, 16) + field(65535-i, 16)
			}
		}
		return europe(field(0, 17), field(0, 17)+b)
	}
	for name, text := range map[string]string{
		"many short lists": list(600, 3), "some lists": list(40, 60), "one long list": list(1, 2500),
	} {
		if len(text) > gpp.MaxLength {
			t.Fatalf("%s: the test made %d characters", name, len(text))
		}
		g, err := gpp.Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out, steps := g.JSONSteps()
		if limit := 4 * len(text); steps > limit {
			t.Errorf("%s: got %d steps for %d characters, want at most %d", name, steps, len(text), limit)
		}
		if limit := 8 * len(text); len(out) > limit {
			t.Errorf("%s: got %d bytes of JSON for %d characters, want at most %d", name, len(out), len(text), limit)
		}
		if got := allocated(func() { g.JSONSteps() }); got > 64*uint64(len(text)) {
			t.Errorf("%s: allocated %d bytes for %d characters", name, got, len(text))
		}
	}
}
