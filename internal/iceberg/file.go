package iceberg

import (
	"crypto/rand"
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"time"

	apache "github.com/apache/iceberg-go"

	"sluice/internal/objectstore"
	"sluice/internal/parquetfile"
)

// dataFile is one Parquet file of a table, as its manifest lists it. It never changes.
type dataFile struct {
	name   string // below the table: data/day=2026-11-14/….parquet
	day    int32  // since 1970-01-01, UTC; of a table by months the first of the month
	rows   int64
	bytes  int64
	nulls  map[int]int64  // by field id
	lower  map[int][]byte // Iceberg's single-value form; strings may be cut
	upper  map[int][]byte
	splits []int64       // where row groups begin
	sizes  map[int]int64 // bytes by field id, compressed
	// unsorted says that rows are sorted by the first column of the table's order only: see copyGroups.
	unsorted bool

	snapshot int64 // that added it, 0 before
	sequence int64
}

const secondsPerDay = 24 * 60 * 60

func dayOf(unix int64) int32 {
	d := unix / secondsPerDay
	if unix%secondsPerDay < 0 {
		d--
	}
	return int32(d)
}

func dayTime(day int32) time.Time { return time.Unix(int64(day)*secondsPerDay, 0).UTC() }

func dayName(day int32) string { return dayTime(day).Format(time.DateOnly) }

// newName is a name nobody else will think of.
func newName() string {
	return strings.ToLower(rand.Text()[:16]) // 80 bits
}

// dataFile is the file as iceberg-go writes it into a manifest.
func (p *dataFile) dataFile(l *layout, at objectstore.Store) (apache.DataFile, error) {
	b, err := apache.NewDataFileBuilder(
		l.spec(), apache.EntryContentData, at.Location(p.name), apache.ParquetFile,
		map[int]any{dayField: l.partitionValue(p.day)}, l.partitionType(), nil, p.rows, p.bytes,
	)
	if err != nil {
		return nil, err
	}
	counts := make(map[int]int64, len(p.nulls))
	for id := range p.nulls {
		counts[id] = p.rows
	}
	b = b.ColumnSizes(p.sizes).
		ValueCounts(counts).NullValueCounts(p.nulls).LowerBoundValues(p.lower).UpperBoundValues(p.upper).
		SplitOffsets(p.splits)
	if !p.unsorted {
		b = b.SortOrderID(sortOrderID)
	}
	return b.Build(), nil
}

// readDataFile takes a file from a manifest entry.
func readDataFile(l *layout, e apache.ManifestEntry) (*dataFile, error) {
	f := e.DataFile()
	name, ok := below(f.FilePath(), "data")
	if !ok {
		return nil, fmt.Errorf("a data file outside of the table")
	}
	day, ok := l.readPartition(f.Partition()[dayField])
	if !ok {
		return nil, fmt.Errorf("a data file without a day")
	}
	p := &dataFile{
		name: name, day: day, rows: f.Count(), bytes: f.FileSizeBytes(), sizes: f.ColumnSizes(),
		nulls: f.NullValueCounts(), lower: f.LowerBoundValues(), upper: f.UpperBoundValues(), splits: f.SplitOffsets(),
		snapshot: e.SnapshotID(), sequence: e.SequenceNum(),
	}
	if order := f.SortOrderID(); order == nil || *order != sortOrderID {
		p.unsorted = true
	}
	return p, nil
}

// below cuts a location down to the name inside the table. Locations are absolute, as Iceberg wants them; what
// stands before the table's own directories is not looked at, so that a table can be moved or restored elsewhere. It
// answers false for a location that leads out of them.
func below(location, dir string) (string, bool) {
	i := strings.LastIndex(location, "/"+dir+"/")
	if i < 0 {
		return "", false
	}
	name := location[i+1:]
	return name, filepath.IsLocal(name) && path.Clean(name) == name
}

// measure fills in what is in a finished file.
func (p *dataFile) measure(contents *parquetfile.Contents) {
	p.rows, p.bytes, p.splits = contents.Rows, contents.Bytes, contents.Groups
	p.nulls, p.lower, p.upper, p.sizes = map[int]int64{}, map[int][]byte{}, map[int][]byte{}, map[int]int64{}
	if p.rows == 0 {
		return
	}
	for i := range contents.Columns {
		c := &contents.Columns[i]
		if c.Element != 0 {
			p.sizes[c.Element] = c.Bytes
			continue // Iceberg counts rows, Parquet elements
		}
		p.sizes[c.ID], p.nulls[c.ID] = c.Bytes, c.Nulls
		if c.Lower != nil {
			p.lower[c.ID] = c.Lower
		}
		if c.Upper != nil {
			p.upper[c.ID] = c.Upper
		}
	}
}
