package readers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// The checks of this package find what is known to be wrong in parquet-go 0.32.0. Without this test nobody would know
// whether they can fail.

// control is a table of three columns, enough for each defect.
var control = &Table{
	Name: "control",
	Key:  []string{"id"},
	Columns: []Column{
		{ID: 1, Name: "id", Kind: Int64},
		{ID: 2, Name: "name", Optional: true},
		{ID: 3, Name: "digest", Kind: Hash, Optional: true},
	},
}

type pointerRow struct {
	ID     int64     `parquet:"id,id(1)"`
	Name   *string   `parquet:"name,optional,id(2)"`
	Digest *[32]byte `parquet:"digest,optional,id(3)"`
}

type valueRow struct {
	ID     int64    `parquet:"id,id(1)"`
	Name   string   `parquet:"name,optional,id(2)"`
	Digest [32]byte `parquet:"digest,optional,id(3)"`
}

// checked writes a file and compares it with the rows.
func checked(t *testing.T, want []Row, write func(*os.File) error) *Report {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "control.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	if err := write(f); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	src := Source{Files: map[string][]string{"control": {f.Name()}}, Tables: []*Table{control}}
	report, err := CheckFiles(t.Context(), src, map[string][]Row{"control": want})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// caught fails unless who reported what.
func caught(t *testing.T, r *Report, who, what string) {
	t.Helper()
	if r.Count(who, what) == 0 {
		t.Errorf("%s did not find %q. It was found:\n%s", who, what, r)
	}
}

// Three rows with a name in the second. All have a digest: a column of fixed length without a value is a defect of its
// own, see TestControlNullPage.
var (
	word      = "second"
	digest    = [32]byte{1}
	digits    = "01" + strings.Repeat("0", 62)
	threeRows = []Row{{"id": int64(0), "digest": digits}, {"id": int64(1), "name": word, "digest": digits}, {"id": int64(2), "digest": digits}}
)

// A file that is right passes: one writer for the file, pointers for optional columns.
func TestControlPasses(t *testing.T) {
	report := checked(t, threeRows, func(f *os.File) error {
		w := parquet.NewGenericWriter[pointerRow](f)
		if _, err := w.Write([]pointerRow{{0, nil, &digest}, {1, &word, &digest}, {2, nil, &digest}}); err != nil {
			return err
		}
		return w.Close()
	})
	if !report.Empty() {
		t.Errorf("got\n%s\nwant nothing", report)
	}
}

// A writer that was reset names every column "".
func TestControlReset(t *testing.T) {
	report := checked(t, threeRows, func(f *os.File) error {
		first, err := os.Create(filepath.Join(t.TempDir(), "first.parquet"))
		if err != nil {
			return err
		}
		defer first.Close()
		w := parquet.NewGenericWriter[pointerRow](first)
		for _, out := range []*os.File{first, f} {
			if out == f {
				w.Reset(f)
			}
			if _, err := w.Write([]pointerRow{{0, nil, &digest}, {1, &word, &digest}, {2, nil, &digest}}); err != nil {
				return err
			}
			if err := w.Close(); err != nil {
				return err
			}
		}
		return nil
	})
	caught(t, report, "footers", "column path")
	caught(t, report, "hyparquet", "unreadable")
	caught(t, report, "hyparquet", "missing row")
	caught(t, report, "DuckDB metadata", "column path")
}

// An optional column that is no pointer holds values where there are none.
func TestControlAbsentValue(t *testing.T) {
	report := checked(t, threeRows, func(f *os.File) error {
		w := parquet.NewGenericWriter[valueRow](f)
		if _, err := w.Write([]valueRow{{0, "", digest}, {1, word, digest}, {2, "", digest}}); err != nil {
			return err
		}
		return w.Close()
	})
	for _, who := range []string{"hyparquet", "DuckDB", "arrow-go by position", "arrow-go by name"} {
		caught(t, report, who, "value where null was sent: name")
	}
	caught(t, report, "DuckDB predicates", "count")
}

// The page index of a column of fixed length has no entry for a page without a value, so that the bounds of all later
// pages belong to others.
func TestControlNullPage(t *testing.T) {
	want := []Row{{"id": int64(0)}, {"id": int64(1), "digest": digits}}
	report := checked(t, want, func(f *os.File) error {
		w := parquet.NewGenericWriter[pointerRow](f)
		for _, row := range []pointerRow{{ID: 0}, {ID: 1, Digest: &digest}} {
			if _, err := w.Write([]pointerRow{row}); err != nil {
				return err
			}
			for _, c := range w.ColumnWriters() {
				if err := c.Flush(); err != nil { // ends the page
					return err
				}
			}
		}
		return w.Close()
	})
	caught(t, report, "footers", "page index")
}
