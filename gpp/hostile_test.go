package gpp_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"sluice/gpp"
)

// The bounds on a string of up to gpp.MaxLength characters, whatever is in it.
const (
	maxTime   = time.Millisecond
	maxMemory = 64 << 10
)

// characters writes ones and zeros as text, padded with zeros.
func characters(bits string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	bits += strings.Repeat("0", (6-len(bits)%6)%6)
	var out strings.Builder
	for ; bits != ""; bits = bits[6:] {
		v := 0
		for _, c := range bits[:6] {
			v = v<<1 | int(c-'0')
		}
		out.WriteByte(alphabet[v])
	}
	return out.String()
}

func field(v, width int) string { return fmt.Sprintf("%0*b", width, v) }

// tcCore is a TC string up to its vendors, all purposes agreed to.
func tcCore(version int) string {
	core := field(version, 6) + field(0, 36) + field(0, 36) + field(10, 12) + field(1, 12) + field(1, 6) + field(0, 12) +
		field(100, 12) + field(4, 6)
	purposes := strings.Repeat("1", 12) + strings.Repeat("1", 24) + strings.Repeat("1", 24)
	if version == 2 {
		return core + "10" + purposes + "0" + field(0, 12)
	}
	return core + "0" + purposes
}

// wide is n ranges of vendors 1 to 65535.
func wide(n int) string {
	return field(65535, 16) + "1" + field(n, 12) + strings.Repeat("1"+field(1, 16)+field(65535, 16), n)
}

func filled(s, with string) string {
	return s + strings.Repeat(with, (gpp.MaxLength-len(s))/len(with))
}

func hostileInputs() map[string]string {
	const eu, ca = "DBABMA~", "DBABDA~"
	none := field(0, 17)
	steps := func(n int) string { return field(65535, 16) + "1" + field(n, 12) + strings.Repeat("011", n) } // Fibonacci 1, each
	restricted := strings.Repeat(field(1, 6)+field(0, 2)+field(1, 12)+"1"+field(1, 16)+field(65535, 16), 1700)
	in := map[string]string{
		"two short header bombs": "DBABrRVEVVQUEBG~BAAAAAAAAQA",
		"a header of groups":     filled("DB__8", "_"),
		"a header of zeros":      filled("DBB_", "A"),
		"a header of singles":    filled("DBB_", "2"),
		"sections of nothing":    filled("DBABLA", "~"),
		"sections":               filled("DBABLA", "~BAAAAAAAAQA"),
		"segments":               filled("DBABLA~BAAAAAAAAQA", ".Y"),
		"segments of a TC":       filled(eu+characters(tcCore(2)+none+none+field(0, 12)), ".IAAA"),
		"wide ranges":            eu + characters(tcCore(2)+wide(2900)+none+field(0, 12)),
		"ranges cut off":         eu + characters(tcCore(2)+wide(2900)),
		"4,095 ranges said":      eu + characters(tcCore(2)+field(65535, 16)+"1"+field(4095, 12)+strings.Repeat("0"+field(7, 16), 4095)+none+field(0, 12)),
		"alternating bits":       eu + characters(tcCore(2)+field(65535, 16)+"0"+strings.Repeat("01", 32767)+"0"+none+field(0, 12)),
		"restrictions":           eu + characters(tcCore(2)+none+none+field(1700, 12)+restricted),
		"zeros after a TC":       filled(eu+characters(tcCore(2)+none+none+field(0, 12)), "A"),
		"zeros, then a one":      filled(eu+characters(tcCore(2)+none+none+field(0, 12)), "A")[:gpp.MaxLength-1] + "B",
		"Fibonacci steps":        ca + characters(tcCore(1)+steps(4095)+steps(4095)+field(0, 12)),
		"Fibonacci, never ended": filled(ca+characters(tcCore(1)+field(65535, 16)+"1"+field(4095, 12)), "q"),
		"Canada, read two ways":  filled(ca+characters(tcCore(1)+steps(4095)+steps(4095)+field(4095, 12)+"01"), "SSS"),
		"Canada, restrictions":   ca + characters(tcCore(1)+none+none+field(3850, 12)+strings.Repeat(field(1, 6)+field(0, 2)+none, 3850)+"1"),
		"an opaque section":      filled("DBABKYA~", "A"),
		"opaque segments":        filled("DBABKYA~A", ".A"),
		"foreign characters":     strings.Repeat("é", gpp.MaxLength/2),
		"too long":               strings.Repeat("A", 1<<20),
	}
	r := rand.New(rand.NewPCG(3, 4))
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	for i := range 200 {
		b := make([]byte, gpp.MaxLength-300)
		for j := range b {
			b[j] = letters[r.IntN(len(letters))]
		}
		prefix := []string{"DB", eu + characters(tcCore(2)), ca + characters(tcCore(1)), "DBACOeA~" + characters(tcCore(2)+none+none+field(0, 12)) + "~" + characters(tcCore(1)), "DBABKYA~"}[i%5]
		in[fmt.Sprint("random ", i)] = prefix + string(b)
	}
	return in
}

func TestHostileInputsAreBounded(t *testing.T) {
	for name, s := range hostileInputs() {
		if len(s) > gpp.MaxLength && name != "too long" {
			t.Fatalf("%s: the test made %d characters", name, len(s))
		}
		best := time.Hour
		for range 50 { // one quick run is enough: a busy machine makes the others slow
			start := time.Now()
			_, _ = gpp.Parse(s)
			if best = min(best, time.Since(start)); best <= maxTime {
				break
			}
		}
		if best > maxTime {
			t.Errorf("%s: took %v, want under %v", name, best, maxTime)
		}
		if got := allocated(func() { _, _ = gpp.Parse(s) }); got > maxMemory {
			t.Errorf("%s: allocated %d bytes, want under %d", name, got, maxMemory)
		}
	}
}

// allocated is how many bytes f allocates, the least of some runs, since the runtime allocates too.
func allocated(f func()) uint64 {
	least := ^uint64(0)
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}

// What the hostile inputs that are valid say is bounded as well.
func TestHostileInputsAreReadable(t *testing.T) {
	inputs := hostileInputs()
	for name, s := range inputs {
		g, err := gpp.Parse(s)
		if err != nil {
			continue
		}
		if got := len(g.AppendJSON(nil)); got > 1<<20 {
			t.Errorf("%s: %d bytes of JSON, want at most 1 MiB", name, got)
		}
		if d := g.Decide([]int32{0}); d.Outcome == gpp.Unrestricted && name == "an opaque section" {
			t.Errorf("%s: got unrestricted", name)
		}
		for sec := range g.Sections() {
			if tc := sec.TCF(); tc != nil {
				tc.VendorConsents.Has(65535)
				tc.VendorsDisclosed.Has(1)
			}
		}
	}
	for _, name := range []string{"wide ranges", "alternating bits", "restrictions", "zeros after a TC", "Fibonacci steps"} {
		if _, err := gpp.Parse(inputs[name]); err != nil {
			t.Errorf("%s: the test means it to be valid, got %v", name, err)
		}
	}
}
