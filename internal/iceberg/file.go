package iceberg

import (
	"crypto/rand"
	"encoding/base32"
	"fmt"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	apache "github.com/apache/iceberg-go"
	"github.com/parquet-go/parquet-go/format"

	"sluice/internal/objectstore"
)

// dataFile is one Parquet file of a table, as its manifest lists it. It never changes.
type dataFile struct {
	name   string // below the table: data/day=2026-11-14/….parquet
	day    int32  // since 1970-01-01, UTC
	rows   int64
	bytes  int64
	nulls  map[int]int64  // by field id
	lower  map[int][]byte // Iceberg's single-value form; strings may be cut
	upper  map[int][]byte
	splits []int64       // where row groups begin
	sizes  map[int]int64 // bytes by field id, compressed
	old    *oldCheck     // of a file that version 1 wrote
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

func dayName(day int32) string {
	return time.Unix(int64(day)*secondsPerDay, 0).UTC().Format(time.DateOnly)
}

// newName is a name nobody else will think of.
func newName() string {
	var b [10]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	return strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))
}

func newFileName(day int32) string {
	return path.Join("data", "day="+dayName(day), newName()+".parquet")
}

// dataFile is the file as iceberg-go writes it into a manifest.
func (p *dataFile) dataFile(l *layout, at objectstore.Store) (apache.DataFile, error) {
	b, err := apache.NewDataFileBuilder(
		l.spec(), apache.EntryContentData, at.Location(p.name), apache.ParquetFile,
		map[int]any{dayField: p.day}, map[int]string{dayField: "date"}, nil, p.rows, p.bytes,
	)
	if err != nil {
		return nil, err
	}
	counts := make(map[int]int64, len(p.nulls))
	for id := range p.nulls {
		counts[id] = p.rows
	}
	sizes := p.sizes
	if p.old != nil { // until the file is written anew, for a repair finds it by this
		sizes = map[int]int64{oldIndexAt: p.old.index, oldIndexCheck: int64(p.old.sum)}
	}
	b = b.ColumnSizes(sizes).
		ValueCounts(counts).NullValueCounts(p.nulls).LowerBoundValues(p.lower).UpperBoundValues(p.upper).
		SplitOffsets(p.splits)
	if !p.unsorted {
		b = b.SortOrderID(sortOrderID)
	}
	return b.Build(), nil
}

// readDataFile takes a file from a manifest entry.
func readDataFile(e apache.ManifestEntry) (*dataFile, error) {
	f := e.DataFile()
	name, ok := below(f.FilePath(), "data")
	if !ok {
		return nil, fmt.Errorf("a data file outside of the table")
	}
	day, ok := f.Partition()[dayField].(apache.Date)
	if !ok {
		return nil, fmt.Errorf("a data file without a day")
	}
	p := &dataFile{
		name: name, day: int32(day), rows: f.Count(), bytes: f.FileSizeBytes(), sizes: f.ColumnSizes(),
		nulls: f.NullValueCounts(), lower: f.LowerBoundValues(), upper: f.UpperBoundValues(), splits: f.SplitOffsets(),
		snapshot: e.SnapshotID(), sequence: e.SequenceNum(),
	}
	if order := f.SortOrderID(); order == nil || *order != sortOrderID {
		p.unsorted = true
	}
	p.takeOldCheck()
	return p, nil
}

// below cuts a location down to the name inside the table. Locations are absolute, as Iceberg wants them; what
// stands before the table's own directories is not looked at, so that a table can be moved or restored elsewhere.
func below(location, dir string) (string, bool) {
	i := strings.LastIndex(location, "/"+dir+"/")
	if i < 0 {
		return "", false
	}
	return location[i+1:], true
}

// measure fills in what a finished Parquet file says of itself.
func (p *dataFile) measure(l *layout, meta *format.FileMetaData) {
	p.rows = meta.NumRows
	p.nulls, p.lower, p.upper, p.sizes = map[int]int64{}, map[int][]byte{}, map[int][]byte{}, map[int]int64{}
	columns := leaves(meta)
	for _, group := range meta.RowGroups {
		p.splits = append(p.splits, group.Columns[0].MetaData.DataPageOffset)
		if d := group.Columns[0].MetaData.DictionaryPageOffset; d > 0 {
			p.splits[len(p.splits)-1] = d
		}
		for i := range group.Columns {
			id := columns[i].id
			p.sizes[id] += group.Columns[i].MetaData.TotalCompressedSize
			if columns[i].nested {
				continue // Iceberg counts rows, Parquet elements
			}
			s := &group.Columns[i].MetaData.Statistics
			p.nulls[id] += s.NullCount
			p.widen(l, id, s)
		}
	}
	for id, v := range p.upper {
		if cut, ok := cutUpper(l, id, v); ok {
			p.upper[id] = cut
		} else {
			delete(p.upper, id)
		}
	}
	for id, v := range p.lower {
		p.lower[id] = cutLower(l, id, v)
	}
}

func (p *dataFile) widen(l *layout, id int, s *format.Statistics) {
	if !l.bounded(id) || s.MinValue == nil || s.MaxValue == nil {
		return
	}
	if old, ok := p.lower[id]; !ok || l.compareValues(id, s.MinValue, old) < 0 {
		p.lower[id] = append([]byte(nil), s.MinValue...)
	}
	if old, ok := p.upper[id]; !ok || l.compareValues(id, s.MaxValue, old) > 0 {
		p.upper[id] = append([]byte(nil), s.MaxValue...)
	}
}

type leaf struct {
	id     int
	nested bool
}

func leaves(meta *format.FileMetaData) []leaf {
	var out []leaf
	inside := false // a group other than the root: in our tables that is a list of one leaf
	for _, e := range meta.Schema[1:] {
		if e.NumChildren.Valid {
			inside = true
			continue
		}
		out = append(out, leaf{int(e.FieldID), inside})
		inside = false
	}
	return out
}

// boundLength is to how many characters a bound is cut: Iceberg's own default.
const boundLength = 16

func cutLower(l *layout, id int, v []byte) []byte {
	if !l.isText(id) || utf8.RuneCount(v) <= boundLength {
		return v
	}
	return []byte(string([]rune(string(v))[:boundLength]))
}

// cutUpper answers false where no text of that length is above v.
func cutUpper(l *layout, id int, v []byte) ([]byte, bool) {
	if !l.isText(id) || utf8.RuneCount(v) <= boundLength {
		return v, true
	}
	up, ok := raise([]rune(string(v))[:boundLength])
	return []byte(string(up)), ok
}

// raise is the least text above all that begin with r, cut where a character can be raised; false where none can.
func raise(r []rune) ([]rune, bool) {
	for i := len(r) - 1; i >= 0; i-- {
		next := r[i] + 1
		if next == 0xd800 {
			next = 0xe000 // surrogates are no characters
		}
		if next <= utf8.MaxRune {
			r[i] = next
			return r[:i+1], true
		}
	}
	return nil, false
}
