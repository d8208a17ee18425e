package iceberg

import (
	"slices"
	"testing"
)

// Bounds of texts are cut to sixteen characters, down and up: whatever was between them stays between them.
func TestCutBounds(t *testing.T) {
	top := string(rune(0x10ffff))
	for _, text := range []string{
		"", "short", "sixteen letters.", "more than sixteen letters", "żółćżółćżółćżółćżółć", "aaaaaaaaaaaaaaa\ud7ff tail",
		"aaaaaaaaaaaaaaa" + top + "b", top + top + top + top + top + top + top + top + top + top + top + top + top + top + top + top + "x",
	} {
		lower := cutLower(&sampleSchema.layout, 2, []byte(text))
		if string(lower) > text {
			t.Errorf("%q: got lower bound %q", text, lower)
		}
		if upper, ok := cutUpper(&sampleSchema.layout, 2, []byte(text)); ok && string(upper) < text {
			t.Errorf("%q: got upper bound %q", text, upper)
		}
	}
	if _, ok := cutUpper(&sampleSchema.layout, 2, slices.Repeat([]byte(top), 17)); ok {
		t.Error("got an upper bound above the greatest character")
	}
}

func TestDays(t *testing.T) {
	for unix, want := range map[int64]int32{0: 0, 86399: 0, 86400: 1, -1: -1, -86400: -1, -86401: -2} {
		if got := dayOf(unix); got != want {
			t.Errorf("%d: got day %d, want %d", unix, got, want)
		}
	}
}

// However many files there are, manifests are few, and a commit rewrites few entries on average.
func TestManifestsStayFew(t *testing.T) {
	var list []*manifest
	rewritten, most := 0, 0
	const commits = 5000
	for range commits {
		swallowed, kept := swallow(list, 1)
		made := &manifest{files: []*dataFile{{}}}
		for _, m := range swallowed {
			made.files = append(made.files, m.files...)
			rewritten += len(m.files)
		}
		list = append(kept, made)
		most = max(most, len(list))
	}
	if most > 48 || rewritten > 4*commits {
		t.Errorf("got %d manifests and %d entries rewritten, want at most 48 and %d", most, rewritten, 4*commits)
	}
}
