package parquetfile

import (
	"bytes"
	"errors"
	"fmt"
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

// copyFile makes one file of others by copying their row groups; nil if that cannot be.
func copyFile(t *testing.T, files []*file) *file {
	t.Helper()
	plan, err := sampleSchema.PlanCopy(t.Context(), sourcesOf(files), "set")
	if err != nil {
		t.Fatal(err)
	}
	if plan == nil {
		return nil
	}
	return makeFile(t, PackedPage, func(w *Writer[sample]) error { return w.CopyGroups(t.Context(), plan) })
}

// Files whose row groups follow one another become one file without being decoded, with the same rows. How other
// programs read it is tested in interop/readers.
func TestCopyGroups(t *testing.T) {
	for _, c := range []struct {
		name   string
		set    func(file, row int) string
		copied bool
	}{
		{"one set", func(int, int) string { return "set" }, true},
		{"each file its own set", func(file, _ int) string { return fmt.Sprint("set-", 9-file) }, true},
		{"sets that touch", func(file, row int) string { return fmt.Sprint("set-", file+row%2) }, true},
		{"sets that overlap", func(file, row int) string { return fmt.Sprint("set-", file+row%3) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			const count, rows = 3, 4000
			files := makeFiles(t, count, rows, inSets(c.set))
			made := copyFile(t, files)
			if (made != nil) != c.copied {
				t.Fatalf("got %v, want a copy: %v", made, c.copied)
			}
			if !c.copied {
				return
			}
			checkValues(t, made)
			if made.Rows != count*rows || len(made.Groups) != count {
				t.Errorf("got %d rows in %d row groups, want %d in %d", made.Rows, len(made.Groups), count*rows, count)
			}
			got := rowsOf(t, made)
			slices.SortStableFunc(got, func(a, b sample) int { return compareSamples(&a, &b) })
			if want := rowsOf(t, mergeByColumns(t, files, PackedPage)); !reflect.DeepEqual(got, want) {
				t.Errorf("got %d rows, want those of the merge", len(got))
			}
			// A merge of it sorts by the first column.
			for _, merge := range []func(testing.TB, []*file, int) *file{mergeByRows, mergeByColumns} {
				got := rowsOf(t, merge(t, []*file{made, files[0]}, PackedPage))
				bySet := func(a, b sample) int { return strings.Compare(a.Set, b.Set) }
				if len(got) != (count+1)*rows || !slices.IsSortedFunc(got, bySet) {
					t.Errorf("got %d rows, want %d in the order of their sets", len(got), (count+1)*rows)
				}
			}
		})
	}
}

// A damaged page is not copied.
func TestDamagedPageIsNotCopied(t *testing.T) {
	files := makeFiles(t, 3, 1000, inSets(func(int, int) string { return "set" }))
	b := files[1].data
	f, err := open(bytes.NewReader(b), files[1].Bytes)
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
		plan, err := sampleSchema.PlanCopy(t.Context(), sourcesOf(files), "set")
		if err != nil || plan == nil {
			t.Fatalf("got %v, %v, want a plan: the footer is whole", plan, err)
		}
		var out bytes.Buffer
		err = sampleSchema.NewWriter(&out, PackedPage, nil).CopyGroups(t.Context(), plan)
		if source, ok := errors.AsType[*SourceError](err); !ok || source.Source != 1 {
			t.Errorf("byte %d of %d flipped: got %v, want an error of the second file", at, len(b), err)
		}
		b[at] ^= 4
	}
}
