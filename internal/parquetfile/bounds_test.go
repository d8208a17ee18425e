package parquetfile

import (
	"slices"
	"strings"
	"testing"
)

// Bounds of texts are cut to sixteen characters, down and up: whatever was between them stays between them.
func TestCutBounds(t *testing.T) {
	top := string(rune(0x10ffff))
	set := sampleColumns[1].leaf()
	for _, text := range []string{
		"", "short", "sixteen letters.", "more than sixteen letters", "żółćżółćżółćżółćżółć", "aaaaaaaaaaaaaaa\ud7ff tail",
		"aaaaaaaaaaaaaaa" + top + "b", strings.Repeat(top, 16) + "x",
	} {
		lower, upper := set.cutBounds([]byte(text), []byte(text))
		if string(lower) > text || len([]rune(string(lower))) > boundLength {
			t.Errorf("%q: got lower bound %q", text, lower)
		}
		if upper != nil && (string(upper) < text || len([]rune(string(upper))) > boundLength) {
			t.Errorf("%q: got upper bound %q", text, upper)
		}
	}
	if _, upper := set.cutBounds(nil, slices.Repeat([]byte(top), 17)); upper != nil {
		t.Error("got an upper bound above the greatest character")
	}
}
