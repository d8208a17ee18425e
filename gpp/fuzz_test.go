package gpp_test

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"sluice/gpp"
)

// FuzzParse holds any string to what must be true of all of them.
func FuzzParse(f *testing.F) {
	for _, v := range vectors(f) {
		if len(v.GPPString) < 2000 {
			f.Add(v.GPPString)
		}
	}
	for _, s := range []string{freeNatVA, integrity, canadaWrong, tc800(false)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		sameBothWays(t, s)
		g, err := gpp.Parse(s)
		if err != nil {
			if e := err.Error(); len(e) > 200 || len(s) > 12 && strings.Contains(e, s) {
				t.Errorf("the error is %q", e)
			}
			return
		}
		if got := allocated(func() { _, _ = gpp.Parse(s) }); got > maxMemory {
			t.Errorf("it allocated %d bytes", got)
		}
		shown := g.AppendJSON(nil)
		if !json.Valid(shown) {
			t.Errorf("no JSON: %s", shown)
		}
		for s := range g.Sections() {
			reasons := s.Reasons()
			if (len(reasons) == 0) != (s.Outcome() == gpp.Unrestricted) {
				t.Errorf("%s is %v because of %v", s.Name(), s.Outcome(), reasons)
			}
		}
		text, err := gpp.Encode(parts(g)...)
		if err != nil {
			t.Fatalf("it cannot be written: %v", err)
		}
		for _, other := range append(morePadded(g), text) {
			again, err := gpp.Parse(other)
			if err != nil {
				t.Errorf("%s: %v", other, err)
				continue
			}
			if got := again.AppendJSON(nil); string(got) != string(shown) {
				t.Errorf("%s:\n got %s\nwant %s", other, got, shown)
			}
		}
	})
}

// morePadded are strings with more zeros where that is allowed at any length: after every segment of a European TC
// string.
func morePadded(g *gpp.String) (all []string) {
	s := g.Section(gpp.TCFEUv2)
	if s == nil || len(g.Text())+40 > gpp.MaxLength {
		return nil
	}
	padded := strings.ReplaceAll(s.Text(), ".", "AAAAA.") + "A"
	if len(g.Text())-len(s.Text())+len(padded) > gpp.MaxLength {
		return nil
	}
	return []string{strings.Replace(g.Text(), "~"+s.Text(), "~"+padded, 1)}
}

// FuzzEncode takes any content, writes it and reads it back.
func FuzzEncode(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, a, b uint64) {
		want := randomUS(rand.New(rand.NewPCG(a, b)))
		text, err := gpp.Encode(want)
		if err != nil {
			t.Fatal(err)
		}
		g, err := gpp.Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got, _ := g.Section(want.ID).US(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", text, got, want)
		}
	})
}

// Encoders pad to 6 bits, to 8 and then 6, or to 24. A string means the same in all three.
func TestPaddingsDecodeAlike(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 5000 {
		us := randomUS(r)
		text, err := gpp.Encode(us)
		if err != nil {
			t.Fatal(err)
		}
		g, err := gpp.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		want := string(g.AppendJSON(nil))
		header, section, _ := strings.Cut(text, "~")
		for _, unit := range []int{6, 24} {
			if us.ID == gpp.USNat && us.Version == 1 && unit == 24 {
				continue // twelve characters of version 1 are the version-2 layout: the length tells them apart
			}
			other := repad(header, headerBits(us.ID), unit) + "~" + repadSection(us, section, unit)
			again, err := gpp.Parse(other)
			if err != nil {
				t.Fatalf("%s as %s: %v", text, other, err)
			}
			if got := string(again.AppendJSON(nil)); got != want {
				t.Fatalf("%s as %s:\n got %s\nwant %s", text, other, got, want)
			}
		}
	}
}

// repad pads the first bits of text to a multiple of unit.
func repad(text string, bits, unit int) string {
	need := (bits + 5) / 6
	text = (text + "AAAA")[:max(need, (bits+unit-1)/unit*unit/6)]
	return text
}

func headerBits(id int) int {
	bits := 24 + 1 + 1 // type, version, count, flag, and the 1 that ends a code
	for a, b := 1, 2; a <= id; a, b = b, a+b {
		bits++
	}
	return bits
}

func repadSection(us gpp.US, section string, unit int) string {
	segments := strings.Split(section, ".")
	bits := make([]int, 0, 3)
	if us.Headed {
		bits = append(bits, 24)
		if len(segments) == 3 {
			bits[0] += 3
		}
	}
	core := 6
	for name, values := range us.Values {
		if us.ID < gpp.USMD || name != "SensitiveDataProcessing" {
			core += 2 * len(values)
		}
	}
	bits = append(bits, core, 3)
	if us.ID > gpp.USMD {
		bits[len(bits)-1] = 16
	}
	for i := range segments {
		segments[i] = repad(segments[i], bits[i], unit)
	}
	return strings.Join(segments, ".")
}
