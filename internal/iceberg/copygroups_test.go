package iceberg

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// inSets makes rows of long notes, so that a file is large beside those of tests; set chooses the set of a row.
func inSets(set func(file, row int) string) func(int, []sample) {
	return func(file int, rows []sample) {
		for i := range rows {
			rows[i].Set = set(file, i)
			rows[i].Note = fmt.Sprintf("a note that no other row has: %d of %d, and some more text", i, file)
		}
	}
}

// Files whose row groups follow one another become one file without being decoded, with the same rows. How other programs read
// it is tested in interop/readers.
func TestCopyGroups(t *testing.T) {
	for _, c := range []struct {
		name        string
		files, rows int
		set         func(file, row int) string
		copied      bool
	}{
		{"one set", 3, 4000, func(int, int) string { return "set" }, true},
		{"each file its own set", 3, 4000, func(file, _ int) string { return fmt.Sprint("set-", 9-file) }, true},
		{"sets that touch", 3, 4000, func(file, row int) string { return fmt.Sprint("set-", file+row%2) }, true},
		{"sets that overlap", 3, 4000, func(file, row int) string { return fmt.Sprint("set-", file+row%3) }, false},
		{"small files", 3, 100, func(int, int) string { return "set" }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := openSamples(t, t.TempDir())
			files := appendSamples(t, table, c.files, c.rows, inSets(c.set))
			made, err := table.copyGroups(t.Context(), files, nil)
			if err != nil || (made != nil) != c.copied {
				t.Fatalf("got %v, %v, want a copy: %v", made, err, c.copied)
			}
			if !c.copied {
				return
			}
			merged, err := table.mergeSorted(t.Context(), files, packedPage, nil)
			if err != nil {
				t.Fatal(err)
			}
			if problems, err := table.checkFile(made[0]); err != nil || len(problems) > 0 {
				t.Errorf("got %v, %v, want nothing wrong", problems, err)
			}
			a, b := made[0], merged[0]
			if a.rows != b.rows || !reflect.DeepEqual(a.nulls, b.nulls) || !reflect.DeepEqual(a.lower, b.lower) || !reflect.DeepEqual(a.upper, b.upper) {
				t.Error("got other statistics than a merge")
			}
			if !a.unsorted || b.unsorted || len(a.splits) != c.files {
				t.Errorf("unsorted: %v and %v, %d row groups, want true and false, %d", a.unsorted, b.unsorted, len(a.splits), c.files)
			}
			if got, want := sortedRows(t, table, made[0]), rowsOf(t, table, merged[0]); !reflect.DeepEqual(got, want) {
				t.Errorf("got %d rows, want those of the merge", len(got))
			}
			// A merge of it sorts by the first column, and says that this is all.
			for _, byRows := range []bool{true, false} {
				more := append(made, files[0])
				again, err := table.mergeSorted(t.Context(), more, packedPage, nil)
				if byRows {
					again, err = table.rewrite(t.Context(), more, packedPage, nil, nil)
				}
				if err != nil {
					t.Fatal(err)
				}
				got := rowsOf(t, table, again[0])
				if len(got) != len(files)*c.rows+c.rows || !slices.IsSortedFunc(got, func(a, b sample) int { return strings.Compare(a.Set, b.Set) }) {
					t.Errorf("got %d rows, want %d in the order of their sets", len(got), len(files)*c.rows+c.rows)
				}
				if !again[0].unsorted {
					t.Error("got a file that says it is sorted")
				}
			}
		})
	}
}

// sortedRows are the rows of a file in the order of the table.
func sortedRows(t *testing.T, table *Table[sample], f *dataFile) []sample {
	rows := rowsOf(t, table, f)
	slices.SortStableFunc(rows, func(a, b sample) int { return sampleSchema.Compare(&a, &b) })
	return rows
}

// A file that is not sorted says so in its manifest, also after a restart, and deletion finds its rows.
func TestCompactionCopiesGroups(t *testing.T) {
	dir := t.TempDir()
	table := openSamples(t, dir)
	const files, rows = mergeFiles, 400
	appendSamples(t, table, files, rows, inSets(func(int, int) string { return "set" }))
	if did, err := table.Compact(t.Context(), nil); !did || err != nil {
		t.Fatalf("got %v, %v, want a compaction", did, err)
	}
	table = openSamples(t, dir)
	all := table.state.Load().files()
	if len(all) != 1 || !all[0].unsorted || all[0].rows != files*rows || len(all[0].splits) != files {
		t.Fatalf("got %d files, the first %+v, want one of %d row groups that is not sorted", len(all), all[0], files)
	}
	if did, err := table.Compact(t.Context(), nil); did || err != nil {
		t.Errorf("got %v, %v, want nothing left to compact", did, err)
	}
	done, err := table.Delete(t.Context(), Condition[sample]{Columns: []string{"small"}, Match: func(r *sample) bool { return r.Small == 7 }})
	if err != nil || done.Rows != files {
		t.Errorf("got %+v, %v, want %d rows deleted", done, err, files)
	}
	all = table.state.Load().files()
	if len(all) != 1 || !all[0].unsorted || all[0].rows != files*(rows-1) {
		t.Errorf("got %d files, the first %+v, want one that does not say it is sorted", len(all), all[0])
	}
}

// A damaged page is not copied.
func TestDamagedPageIsNotCopied(t *testing.T) {
	dir := t.TempDir()
	table := openSamples(t, dir)
	files := appendSamples(t, table, 3, 1000, inSets(func(int, int) string { return "set" }))
	name := filepath.Join(dir, files[1].name)
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	o, err := table.openFile(files[1])
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	f, err := openParquet(files[1], o)
	if err != nil {
		t.Fatal(err)
	}
	var places []int
	for _, c := range f.Metadata().RowGroups[0].Columns {
		begin := int(c.MetaData.DataPageOffset)
		for at := begin; at < begin+12; at++ { // the header has no checksum
			places = append(places, at)
		}
		if d := c.MetaData.DictionaryPageOffset; d > 0 {
			begin = int(d)
		}
		places = append(places, begin+int(c.MetaData.TotalCompressedSize)/2)
	}
	for _, at := range places {
		b[at] ^= 4
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if made, err := table.copyGroups(t.Context(), files, nil); !errors.Is(err, errUnreadable) || made != nil {
			t.Errorf("byte %d of %d flipped: got %v, %v, want errUnreadable", at, len(b), made, err)
		}
		b[at] ^= 4
	}
}
