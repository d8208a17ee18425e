package gpp_test

import (
	"strings"
	"testing"

	"sluice/gpp"
)

func BenchmarkParseUSNat(b *testing.B) {
	b.ReportAllocs()
	sids := []int32{gpp.USNat}
	for b.Loop() {
		g, err := gpp.Parse("DBABLA~CVVligkSIQBY.YA")
		if err != nil {
			b.Fatal(err)
		}
		if d := g.Decide(sids); d.Outcome != gpp.MeasurementOnly {
			b.Fatal(d.Outcome)
		}
	}
}

// tc800 is a European TC string in which 800 of 1,600 vendors are agreed to, as bits and as single ranges.
func tc800(ranged bool) string {
	vendors := field(1600, 16) + "0" + strings.Repeat("10", 800)
	if ranged {
		vendors = field(1600, 16) + "1" + field(800, 12)
		for id := 1; id <= 1600; id += 2 {
			vendors += "0" + field(id, 16)
		}
	}
	return "DBABMA~" + characters(tcCore(2)+vendors+field(0, 17)+field(0, 12))
}

func BenchmarkParseTC800(b *testing.B) {
	for name, ranged := range map[string]bool{"bits": false, "ranges": true} {
		s := tc800(ranged)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := gpp.Parse(s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkParseWorst(b *testing.B) {
	for name, s := range hostileInputs() {
		if strings.HasPrefix(name, "random") {
			continue
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = gpp.Parse(s)
			}
		})
	}
}

func BenchmarkDecide(b *testing.B) {
	g, err := gpp.Parse(optedOutNat)
	if err != nil {
		b.Fatal(err)
	}
	sids := []int32{gpp.USNat}
	b.ReportAllocs()
	for b.Loop() {
		if d := g.Decide(sids); d.Outcome != gpp.MeasurementOnly {
			b.Fatal(d.Outcome)
		}
	}
}

func BenchmarkReasons(b *testing.B) {
	g, err := gpp.Parse(optedOutNat)
	if err != nil {
		b.Fatal(err)
	}
	d := g.Decide([]int32{gpp.USNat})
	b.ReportAllocs()
	for b.Loop() {
		_ = d.Reasons()
	}
}

func BenchmarkAppendJSON(b *testing.B) {
	g, err := gpp.Parse(optedOutNat)
	if err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		buf = g.AppendJSON(buf[:0])
	}
}

func BenchmarkParseAgain(b *testing.B) {
	b.ReportAllocs()
	var g gpp.String
	sids := []int32{gpp.USNat}
	for b.Loop() {
		if err := g.Parse(optedOutNat); err != nil {
			b.Fatal(err)
		}
		if d := g.Decide(sids); d.Outcome != gpp.MeasurementOnly {
			b.Fatal(d.Outcome)
		}
	}
}
