package iceberg

import (
	"maps"
	"testing"
)

func TestWatermarks(t *testing.T) {
	for text, want := range map[string]map[uint8]uint64{
		"": {}, "0:17": {0: 17}, "0:17,1:4,63:1099511627775": {0: 17, 1: 4, 63: 1099511627775}, "x:1,300:2,5": {},
	} {
		got := parseWatermarks(text)
		if !maps.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
		if len(want) > 0 && formatWatermarks(got) != text {
			t.Errorf("got %q, want %q", formatWatermarks(got), text)
		}
	}
}
