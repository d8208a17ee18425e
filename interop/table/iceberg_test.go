package table

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go/io"
	ice "github.com/apache/iceberg-go/table"
)

// iceberg-go's own table code, of which the server uses nothing, opens our metadata and plans the same files.
func TestIcebergReadsTheTable(t *testing.T) {
	now := noon
	dir := t.TempDir()
	l := open(t, dir, &now)
	rows := varied(400)
	for i := range 40 {
		commit(t, l, rows[10*i:10*i+10])
	}
	now = noon.Add(72 * time.Hour)
	if _, err := l.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"events", "rejections", "hours"} {
		version := ""
		for _, st := range l.Stats().Tables {
			if st.Name == name {
				version = strconv.FormatInt(st.Version, 10)
			}
		}
		location := filepath.Join(dir, name, "metadata", "v"+version+".metadata.json")
		tbl, err := ice.NewFromLocation(t.Context(), ice.Identifier{"sluice", name}, location, io.LoadFSFunc(nil, location), nil)
		if err != nil {
			t.Fatal(err)
		}
		if !tbl.Metadata().PartitionSpec().Equals(tbl.Spec()) || tbl.Metadata().Version() != 2 {
			t.Errorf("%s: got spec %v, version %d", name, tbl.Spec(), tbl.Metadata().Version())
		}
		if snap := tbl.CurrentSnapshot(); snap == nil || snap.Summary.Properties["sluice.watermark"] != "0:40" {
			t.Errorf("%s: got snapshot %v, want one with a watermark", name, snap)
		}
		tasks, err := tbl.Scan().PlanFiles(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		total := int64(0)
		for _, task := range tasks {
			got = append(got, strings.TrimPrefix(task.File.FilePath(), "file://"))
			total += task.File.Count()
		}
		want, err := l.Files(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: got files %v, want %v", name, got, want)
		}
		if name == "events" && total != int64(len(rows)) {
			t.Errorf("got %d rows, want %d", total, len(rows))
		}
	}
}
