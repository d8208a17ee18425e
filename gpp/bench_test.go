package gpp_test

import (
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
