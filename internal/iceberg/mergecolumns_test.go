package iceberg

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// appendSamples commits rows in files of n, whose order is unique, and returns the files.
func appendSamples(t *testing.T, table *Table[sample], files, n int, change func(file int, rows []sample)) []*dataFile {
	t.Helper()
	r := rand.New(rand.NewPCG(3, uint64(files*n)))
	for i := range files {
		rows := randomSamples(r, n)
		for k := range rows {
			rows[k].At = noon.Unix() + int64(r.IntN(1000))*int64(files) + int64(i)
		}
		if change != nil {
			change(i, rows)
		}
		if err := table.Append(t.Context(), rows, Origin{Spans: []Span{{From: uint64(i), To: uint64(i + 1)}}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	s, err := table.refresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s.files()
}

// A merge by columns makes the file that a merge by rows makes.
func TestMergesAgree(t *testing.T) {
	for _, c := range []struct {
		name        string
		files, rows int
		page        int
		change      func(file int, rows []sample)
	}{
		{"one page", 3, 50, packedPage, nil},
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
		{"dictionaries that are given up", 3, 6000, packedPage, func(file int, rows []sample) {
			for i := range rows {
				rows[i].Note = fmt.Sprintf("a note that no other row has: %d of %d, and some more text", i, file)
			}
		}},
		{"dictionaries that are given up late", 2, 20_000, freshPage, func(file int, rows []sample) {
			for i := range rows {
				rows[i].Note = "the same"
				if rows[i].At > noon.Unix()+1000 {
					rows[i].Note = fmt.Sprintf("a note that no other row has: %d of %d, and some more text", i, file)
				}
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := openSamples(t, t.TempDir())
			files := appendSamples(t, table, c.files, c.rows, c.change)
			m, err := table.openColumns(files, nil)
			if err != nil || m == nil {
				t.Fatalf("got %v, %v, want a merge by columns", m, err)
			}
			byColumns, err := m.write(t.Context(), c.page)
			if err != nil {
				t.Fatal(err)
			}
			byRows, err := table.rewrite(t.Context(), files, c.page, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, want := rowsOf(t, table, byColumns[0]), rowsOf(t, table, byRows[0])
			if len(want) != c.files*c.rows || !reflect.DeepEqual(got, want) {
				t.Fatalf("got %d rows, want the %d of the merge by rows", len(got), len(want))
			}
			for _, f := range []*dataFile{byColumns[0], byRows[0]} {
				if problems, err := table.checkFile(f); err != nil || len(problems) > 0 {
					t.Errorf("got %v, %v, want nothing wrong", problems, err)
				}
			}
			a, b := byColumns[0], byRows[0]
			if !reflect.DeepEqual(a.nulls, b.nulls) || !reflect.DeepEqual(a.lower, b.lower) || !reflect.DeepEqual(a.upper, b.upper) {
				t.Error("got other statistics than a merge by rows")
			}
		})
	}
}

func rowsOf(t *testing.T, table *Table[sample], f *dataFile) (out []sample) {
	t.Helper()
	o, err := table.openFile(f)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	err = readRowsOf(f, o, &selection[sample]{rest: sampleSchema.Columns}, func(err error) { t.Error(err) }, func(rows []sample) error {
		out = append(out, slices.Clone(rows)...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A row group ends where it has enough rows.
func TestRowGroupsAreBounded(t *testing.T) {
	table := openSamples(t, t.TempDir())
	files := appendSamples(t, table, 2, rowsPerGroup/2+1000, func(_ int, rows []sample) {
		for i := range rows {
			rows[i].Note, rows[i].Hash, rows[i].Numbers = "", "", nil
		}
	})
	made, err := table.mergeSorted(t.Context(), files, packedPage, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(made[0].splits); got != 2 || made[0].rows != rowsPerGroup+2000 {
		t.Errorf("got %d row groups of %d rows, want 2 of %d", got, made[0].rows, rowsPerGroup+2000)
	}
	if got := len(rowsOf(t, table, made[0])); got != rowsPerGroup+2000 {
		t.Errorf("got %d rows, want %d", got, rowsPerGroup+2000)
	}
	again, err := table.mergeSorted(t.Context(), append(made, files[0]), packedPage, nil)
	if err != nil || again[0].rows != made[0].rows+files[0].rows {
		t.Errorf("got %v, want a merge of a file with several row groups", err)
	}
}
