package iceberg

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
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
		Properties: map[string]string{watermarkProperty: "0:17,3:4", streamProperty: "a"},
	}
	if got := m.progress(); got.stream != "a" || !maps.Equal(got.marks, map[uint8]uint64{0: 17, 3: 4}) {
		t.Errorf("got %v, want those of the properties", got)
	}
	m.Snapshots = append(m.Snapshots, snapshot{ID: 1, Summary: map[string]string{watermarkProperty: "0:16", streamProperty: "a"}})
	if got := m.progress(); got.stream != "a" || !maps.Equal(got.marks, map[uint8]uint64{0: 16}) {
		t.Errorf("got %v, want those of the snapshot before", got)
	}
}

// A table takes what continues it, once, and nothing else.
func TestHas(t *testing.T) {
	rows := []*manifest{{files: []*dataFile{{}}}}
	one := func(from, to uint64) []Span { return []Span{{From: from, To: to}} }
	ours := progress{stream: "a", marks: map[uint8]uint64{0: 7, 1: 3}, settled: map[uint8]uint64{0: 5}}
	for name, c := range map[string]struct {
		p     progress
		empty bool
		from  Origin
		done  bool
		err   error
	}{
		"the next frames":                 {ours, false, Origin{"a", one(7, 9), nil}, false, nil},
		"the same again":                  {ours, false, Origin{"a", one(4, 7), nil}, true, nil},
		"a gap":                           {ours, false, Origin{"a", one(8, 9), nil}, false, ErrFenced},
		"an overlap":                      {ours, false, Origin{"a", one(6, 9), nil}, false, ErrFenced},
		"behind":                          {ours, false, Origin{"a", one(2, 4), nil}, false, ErrFenced},
		"a gap in a sparse table":         {ours, false, Origin{"a", []Span{{From: 8, To: 9, Sparse: true}}, nil}, false, nil},
		"an overlap in a sparse table":    {ours, false, Origin{"a", []Span{{From: 5, To: 9, Sparse: true}}, nil}, false, ErrFenced},
		"two partitions":                  {ours, false, Origin{"a", []Span{{From: 7, To: 9}, {Partition: 1, From: 3, To: 4}}, nil}, false, nil},
		"two, and one brings nothing":     {ours, false, Origin{"a", []Span{{From: 7, To: 9}, {Partition: 1, From: 3, To: 3}}, nil}, false, nil},
		"two, and one is there":           {ours, false, Origin{"a", []Span{{From: 4, To: 7}, {Partition: 1, From: 3, To: 4}}, nil}, false, ErrFenced},
		"no frame, no note":               {ours, false, Origin{"a", []Span{{From: 7, To: 7, Settled: 5}}, nil}, true, nil},
		"no frame, a note":                {ours, false, Origin{"a", []Span{{From: 7, To: 7, Settled: 7}}, nil}, false, nil},
		"another stream":                  {ours, false, Origin{"b", one(7, 9), nil}, false, ErrOtherStream},
		"a stream that nobody named":      {ours, false, Origin{"", one(7, 9), nil}, false, nil},
		"watermarks of no stream":         {progress{marks: map[uint8]uint64{0: 7}}, false, Origin{"a", one(7, 9), nil}, false, ErrOtherStream},
		"rows without a watermark":        {progress{}, false, Origin{"a", one(0, 9), nil}, false, ErrNoWatermark},
		"nothing at all":                  {progress{}, true, Origin{"a", one(0, 9), nil}, false, nil},
		"no rows, but another's progress": {ours, true, Origin{"b", one(7, 9), nil}, false, ErrOtherStream},
	} {
		s := &state{progress: c.p, manifests: rows}
		if c.empty {
			s.manifests = nil
		}
		if done, err := s.has(c.from); done != c.done || !errors.Is(err, c.err) {
			t.Errorf("%s: got %v, %v, want %v, %v", name, done, err, c.done, c.err)
		}
	}
}

// A table of a later version is left as it is, and the error says which program knows it.
func TestTableOfALaterVersion(t *testing.T) {
	dir := t.TempDir()
	table := openSamples(t, dir)
	appendSamples(t, table, 1, 10, func(int, []sample) {})
	s := table.state.Load()
	later := *s.meta
	later.Properties = maps.Clone(later.Properties)
	later.Properties[versionProperty] = "2"
	b, err := later.encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, metadataName(s.version+1)), b, 0o600); err != nil {
		t.Fatal(err)
	}
	const want = `version "2", this program knows 1: use the sluice that wrote it, or a newer one`
	if _, err := table.refresh(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	if err := New(sampleSchema, Options{Store: table.store, Now: table.now}).Open(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}
