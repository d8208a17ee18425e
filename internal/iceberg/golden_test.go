package iceberg

import (
	"os"
	"os/exec"
	"reflect"
	"slices"
	"testing"
)

// golden is a table as the program of its revision left it: a file of copied row groups, and one that is sorted. GOLDEN=write
// makes it anew; a new form of file gets an archive of its own beside it.
const golden = "testdata/table-cc9d58e.tar.gz"

// goldenRows fills an empty table as the archive was filled.
func goldenRows(t *testing.T, table *Table[sample]) {
	one := inSets(func(int, int) string { return "set" })
	files := appendSamples(t, table, 3, 300, func(file int, rows []sample) {
		if file < 2 {
			one(file, rows)
		}
	})
	slices.SortFunc(files, func(a, b *dataFile) int { return int(a.sequence - b.sequence) })
	made, err := table.copyGroups(t.Context(), files[:2], nil)
	if err != nil || made == nil {
		t.Fatalf("got %v, %v, want a copy", made, err)
	}
	if err := table.replace(t.Context(), replaced, files[:2], made); err != nil {
		t.Fatal(err)
	}
}

// Tables of versions that were released stay readable, and can be changed.
func TestGoldenTable(t *testing.T) {
	fresh := t.TempDir()
	table := openSamples(t, fresh)
	goldenRows(t, table)
	want := allRows(t, table)
	if os.Getenv("GOLDEN") == "write" {
		if out, err := exec.Command("tar", "-czf", golden, "-C", fresh, ".").CombinedOutput(); err != nil {
			t.Fatalf("tar: %v\n%s", err, out)
		}
	}
	dir := t.TempDir()
	if out, err := exec.Command("tar", "-xzf", golden, "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	table = openSamples(t, dir)
	if got := allRows(t, table); len(got) != 900 || !reflect.DeepEqual(got, want) {
		t.Errorf("got %d rows, want the %d that were written", len(got), len(want))
	}
	checked, err := table.Check(t.Context(), func(f Finding) { t.Error(f.Problem) }, func(int, int) {})
	if err != nil || checked.Files != 4 { // an earlier snapshot lists the two that were copied
		t.Errorf("got %+v, %v, want 4 files", checked, err)
	}
	unsorted := 0
	for _, f := range table.state.Load().files() {
		if f.unsorted {
			unsorted++
		}
	}
	if unsorted != 1 {
		t.Errorf("got %d files that do not say they are sorted, want 1", unsorted)
	}
	done, err := table.Delete(t.Context(), Condition[sample]{Columns: []string{"small"}, Match: func(r *sample) bool { return r.Small == 7 }})
	if err != nil || done.Rows != 3 || len(allRows(t, table)) != 897 {
		t.Errorf("got %+v, %v, want 3 rows deleted", done, err)
	}
}

// allRows are the rows of a table, in its order.
func allRows(t *testing.T, table *Table[sample]) (out []sample) {
	for _, f := range table.state.Load().files() {
		out = append(out, rowsOf(t, table, f)...)
	}
	slices.SortFunc(out, func(a, b sample) int { return sampleSchema.Compare(&a, &b) })
	return out
}
