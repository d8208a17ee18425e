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

// A snapshot of another program has no watermark, and the one before it may be gone: the properties still have it.
func TestWatermarksSurviveOthers(t *testing.T) {
	id, parent := int64(2), int64(1)
	m := &metadata{
		CurrentSnapshot: &id, Snapshots: []snapshot{{ID: 2, Parent: &parent, Summary: map[string]string{"operation": "replace"}}},
		Properties: map[string]string{watermarkProperty: "0:17,3:4"},
	}
	if got := m.watermarks(); !maps.Equal(got, map[uint8]uint64{0: 17, 3: 4}) {
		t.Errorf("got %v, want those of the properties", got)
	}
	m.Snapshots = append(m.Snapshots, snapshot{ID: 1, Summary: map[string]string{watermarkProperty: "0:16"}})
	if got := m.watermarks(); !maps.Equal(got, map[uint8]uint64{0: 16}) {
		t.Errorf("got %v, want those of the snapshot before", got)
	}
}
