package metadata

import (
	"maps"
	"testing"
)

// A snapshot of another program has no watermark, and the one before it may be gone: the properties still have it.
func TestWatermarksSurviveOthers(t *testing.T) {
	id, parent := int64(2), int64(1)
	m := &Table{
		CurrentSnapshot: &id, Snapshots: []Snapshot{{ID: 2, Parent: &parent, Summary: map[string]string{"operation": "replace"}}},
		Properties: map[string]string{"sluice.watermark": "0:17,3:4", "sluice.stream": "a"},
	}
	if got := m.Progress(); got.Stream != "a" || !maps.Equal(got.Watermarks, map[uint8]uint64{0: 17, 3: 4}) {
		t.Errorf("got %v, want those of the properties", got)
	}
	m.Snapshots = append(m.Snapshots, Snapshot{ID: 1, Summary: map[string]string{"sluice.watermark": "0:16", "sluice.stream": "a"}})
	if got := m.Progress(); got.Stream != "a" || !maps.Equal(got.Watermarks, map[uint8]uint64{0: 16}) {
		t.Errorf("got %v, want those of the snapshot before", got)
	}
}
