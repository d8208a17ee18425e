package iceberg

import (
	"reflect"
	"testing"

	"sluice/internal/parquetfile"
)

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

// A manifest lists of a file what is in it. There is no null count of a list, for Iceberg counts rows.
func TestMeasure(t *testing.T) {
	note, list := sampleSchema.Columns[3].Field, sampleSchema.Columns[6].Field
	set := sampleSchema.Columns[1].Field
	f := &dataFile{}
	f.measure(&parquetfile.Contents{
		Rows: 7, Bytes: 900, Groups: []int64{4, 500}, Columns: []parquetfile.ColumnContents{
			{Field: set, Bytes: 100, Lower: []byte("a"), Upper: []byte("b")},
			{Field: note, Bytes: 200, Nulls: 3},
			{Field: list, Bytes: 300, Nulls: 5},
		},
	})
	want := &dataFile{
		rows: 7, bytes: 900, splits: []int64{4, 500}, nulls: map[int]int64{set.ID: 0, note.ID: 3},
		sizes: map[int]int64{set.ID: 100, note.ID: 200, list.Element: 300},
		lower: map[int][]byte{set.ID: []byte("a")}, upper: map[int][]byte{set.ID: []byte("b")},
	}
	if !reflect.DeepEqual(f, want) {
		t.Errorf("got %+v, want %+v", f, want)
	}
}
