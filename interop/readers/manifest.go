package readers

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
)

const microsPerDay = 24 * 60 * 60 * 1_000_000

// checkManifests holds what the newest snapshot's manifests say about files against the files. iceberg-go reads them.
func checkManifests(ctx context.Context, report *Report, t *Table, src Source, facts map[string]*fileFacts) error {
	tbl, err := openIceberg(ctx, src, t.Name)
	if err != nil {
		return err
	}
	snapshot := tbl.CurrentSnapshot()
	if snapshot == nil {
		if len(src.Files[t.Name]) > 0 {
			return fmt.Errorf("no snapshot, and %d files", len(src.Files[t.Name]))
		}
		return nil
	}
	fs, err := tbl.FS(ctx)
	if err != nil {
		return err
	}
	checkHistory(report, t, tbl, fs)
	manifests, err := snapshot.Manifests(fs)
	if err != nil {
		return err
	}
	var files, rows, bytes int64
	seen := map[string]bool{}
	for _, m := range manifests {
		for e, err := range m.Entries(fs, true) {
			if err != nil {
				return err
			}
			d := e.DataFile()
			files, rows, bytes = files+1, rows+d.Count(), bytes+d.FileSizeBytes()
			seen[local(d.FilePath())] = true
			checkDataFile(report, t, d, facts[local(d.FilePath())])
		}
	}
	for _, name := range src.Files[t.Name] {
		if !seen[name] {
			report.add("manifests", t.Name, "file not listed", filepath.Base(name))
		}
	}
	if snapshot.Summary == nil {
		return nil
	}
	for name, want := range map[string]int64{"total-data-files": files, "total-records": rows, "total-files-size": bytes} {
		if got, ok := snapshot.Summary.Properties[name]; ok && got != strconv.FormatInt(want, 10) {
			report.add("manifests", t.Name, "summary", fmt.Sprintf("%s is %s, want %d", name, got, want))
		}
	}
	return nil
}

// checkHistory looks for everything that the metadata names: earlier versions of itself, and the files of every snapshot that
// is kept.
func checkHistory(report *Report, t *Table, tbl *table.Table, fs io.IO) {
	for entry := range tbl.Metadata().PreviousFiles() {
		if f, err := fs.Open(entry.MetadataFile); err != nil {
			report.add("manifests", t.Name, "metadata-log", "an earlier version is gone: "+err.Error())
		} else {
			f.Close()
		}
	}
	for _, snapshot := range tbl.Metadata().Snapshots() {
		manifests, err := snapshot.Manifests(fs)
		if err != nil {
			report.add("manifests", t.Name, "earlier snapshot", err.Error())
			continue
		}
		for _, m := range manifests {
			for e, err := range m.Entries(fs, true) {
				if err != nil {
					report.add("manifests", t.Name, "earlier snapshot", err.Error())
					break
				}
				if info, err := os.Stat(local(e.DataFile().FilePath())); err != nil || info.Size() != e.DataFile().FileSizeBytes() {
					report.add("manifests", t.Name, "earlier snapshot", "a file is gone or has another size: "+filepath.Base(e.DataFile().FilePath()))
				}
			}
		}
	}
}

// checkDataFile compares one entry.
func checkDataFile(report *Report, t *Table, d iceberg.DataFile, want *fileFacts) {
	bad := func(what, format string, args ...any) {
		report.add("manifests", t.Name, what, filepath.Base(d.FilePath())+": "+fmt.Sprintf(format, args...))
	}
	if want == nil {
		bad("file", "listed, and not among the files of the snapshot")
		return
	}
	if d.Count() != want.rows || d.FileSizeBytes() != want.bytes {
		bad("size", "%d rows and %d bytes, want %d and %d", d.Count(), d.FileSizeBytes(), want.rows, want.bytes)
	}
	leaves := map[int]bool{}
	for i := range t.Columns {
		leaves[t.Columns[i].leaf()] = true
		checkColumn(bad, &t.Columns[i], d, &want.columns[i])
	}
	for what, ids := range map[string][]int{
		"column_sizes": keys(d.ColumnSizes()), "value_counts": keys(d.ValueCounts()), "null_value_counts": keys(d.NullValueCounts()),
		"nan_value_counts": keys(d.NaNValueCounts()), "lower_bounds": keys(d.LowerBoundValues()), "upper_bounds": keys(d.UpperBoundValues()),
	} {
		for _, id := range ids {
			if !leaves[id] {
				bad("unknown field id", "%s holds the field id %d, which no column has", what, id)
			}
		}
	}
	checkDay(bad, t, d, want)
}

// checkColumn compares what an entry says about one column.
func checkColumn(bad complain, col *Column, d iceberg.DataFile, want *columnFacts) {
	id := col.leaf()
	if got, ok := d.ColumnSizes()[id]; ok && got != want.stored {
		bad("column_sizes", "%s: %d, want %d", col.Name, got, want.stored)
	}
	values, hasValues := d.ValueCounts()[id]
	nulls, hasNulls := d.NullValueCounts()[id]
	if col.Kind != Int32s && (!hasValues || !hasNulls) {
		bad("null_value_counts", "%s: there is no count", col.Name)
	}
	if hasValues && values != want.values {
		bad("value_counts", "%s: %d, want %d", col.Name, values, want.values)
	}
	if hasNulls && nulls != want.nulls {
		bad("null_value_counts", "%s: %d, want %d", col.Name, nulls, want.nulls)
	}
	lower, upper := d.LowerBoundValues()[id], d.UpperBoundValues()[id]
	if lower != nil && (want.min == nil || !lowerFits(col.Kind, lower, want.min)) {
		bad("lower_bounds", "%s: not the least value", col.Name)
	}
	if upper != nil && (want.max == nil || !upperFits(col.Kind, upper, want.max)) {
		bad("upper_bounds", "%s: not the greatest value", col.Name)
	}
}

// checkDay compares the partition with the rows: all of them were received on that day, or are sums of days of that month.
func checkDay(bad complain, t *Table, d iceberg.DataFile, want *fileFacts) {
	for i := range t.Columns {
		if c := &t.Columns[i]; c.Kind == Time && (c.Name == "received_at" || c.Name == "hour" || c.Name == "day") {
			first := int64(binary.LittleEndian.Uint64(want.columns[i].min)) / microsPerDay
			last := int64(binary.LittleEndian.Uint64(want.columns[i].max)) / microsPerDay
			for _, v := range d.Partition() {
				if t == Days {
					if month, ok := v.(int32); !ok || month != monthOf(first) || month != monthOf(last) {
						bad("partition", "%v, want the month of day %d to %d", v, first, last)
					}
				} else if day, ok := v.(iceberg.Date); !ok || int64(day) != first || int64(day) != last {
					bad("partition", "%v, want day %d to %d", v, first, last)
				}
			}
			if len(d.Partition()) != 1 {
				bad("partition", "%d values, want one", len(d.Partition()))
			}
		}
	}
}

// monthOf is the month of a day, both counted from 1970 on.
func monthOf(day int64) int32 {
	at := time.Unix(day*86400, 0).UTC()
	return int32(12*(at.Year()-1970) + int(at.Month()) - 1)
}

// local is the path of a file that a manifest lists.
func local(location string) string { return strings.TrimPrefix(location, "file://") }

func keys[V any](m map[int]V) (out []int) {
	for k := range m {
		out = append(out, k)
	}
	return out
}
