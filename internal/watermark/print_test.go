package watermark

import (
	"maps"
	"testing"
)

// What is written is read again, and what a later program adds for itself is passed over.
func TestPrints(t *testing.T) {
	want := map[int32]Print{20771: PrintOf([]string{"a", "b"}), 20772: PrintOf([]string{"ab"}), 0: 7}
	text := FormatPrints(want)
	if got := ParsePrints(text + ",fence:17,2026-11-19:not a print"); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v of %s", got, want, text)
	}
	if want[20771] == want[20772] {
		t.Error("got one print for different names")
	}
	if got, want := FormatPrints(map[int32]Print{20771: 0x1f, 20772: 7}), "2026-11-14:000000000000001f,2026-11-15:0000000000000007"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := ParsePrints(""); len(got) != 0 {
		t.Errorf("got %v of nothing", got)
	}
}
