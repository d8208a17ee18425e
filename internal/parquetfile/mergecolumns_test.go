package parquetfile

import (
	"fmt"
	"reflect"
	"testing"
)

// A merge by columns makes the file that a merge by rows makes.
func TestMergesAgree(t *testing.T) {
	for _, c := range []struct {
		name        string
		files, rows int
		page        int
		change      func(file int, rows []sample)
	}{
		{"one page", 3, 50, PackedPage, nil},
		{"many pages", 4, 3000, 512, nil},
		{"no values", 3, 200, 512, func(_ int, rows []sample) {
			for i := range rows {
				rows[i] = sample{At: rows[i].At, Set: rows[i].Set}
			}
		}},
		{"values in one file only", 3, 2000, 512, func(file int, rows []sample) {
			for i := range rows {
				if file != 1 {
					rows[i].Note, rows[i].Hash, rows[i].Has, rows[i].Amount, rows[i].Numbers = "", "", false, 0, nil
				}
			}
		}},
		{"dictionaries that are given up", 3, 6000, PackedPage, func(file int, rows []sample) {
			for i := range rows {
				rows[i].Note = fmt.Sprintf("a note that no other row has: %d of %d, and some more text", i, file)
			}
		}},
		{"dictionaries that are given up late", 2, 20_000, FreshPage, func(file int, rows []sample) {
			for i := range rows {
				rows[i].Note = "the same"
				if rows[i].At > noon.Unix()+1000 {
					rows[i].Note = fmt.Sprintf("a note that no other row has: %d of %d, and some more text", i, file)
				}
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := makeFiles(t, c.files, c.rows, c.change)
			byColumns, byRows := mergeByColumns(t, files, c.page), mergeByRows(t, files, c.page)
			got, want := rowsOf(t, byColumns), rowsOf(t, byRows)
			if len(want) != c.files*c.rows || !reflect.DeepEqual(got, want) {
				t.Fatalf("got %d rows, want the %d of the merge by rows", len(got), len(want))
			}
			checkValues(t, byColumns)
			checkValues(t, byRows)
		})
	}
}

// A row group ends where it has enough rows.
func TestRowGroupsAreBounded(t *testing.T) {
	files := makeFiles(t, 2, rowsPerGroup/2+1000, func(_ int, rows []sample) {
		for i := range rows {
			rows[i].Note, rows[i].Hash, rows[i].Numbers = "", "", nil
		}
	})
	made := mergeByColumns(t, files, PackedPage)
	if got := len(made.Groups); got != 2 || made.Rows != rowsPerGroup+2000 {
		t.Errorf("got %d row groups of %d rows, want 2 of %d", got, made.Rows, rowsPerGroup+2000)
	}
	if got := len(rowsOf(t, made)); got != rowsPerGroup+2000 {
		t.Errorf("got %d rows, want %d", got, rowsPerGroup+2000)
	}
	if again := mergeByColumns(t, []*file{made, files[0]}, PackedPage); again.Rows != made.Rows+files[0].Rows {
		t.Errorf("got %d rows, want a merge of a file with several row groups", again.Rows)
	}
}
