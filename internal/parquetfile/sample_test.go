package parquetfile

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 14, 12, 0, 0, 0, time.UTC)

// sample is a row with a column of every kind.
type sample struct {
	At      int64
	Set     string
	ID      [16]byte
	Note    string
	Hash    string
	Amount  float64
	Has     bool
	Numbers []int32
	Small   int32
	Large   int64
	Yes     bool
}

var sampleColumns = []Column[sample]{
	Time(1, "at", "delta", func(r *sample) *int64 { return &r.At }).Bound(),
	Text(2, "set", "dict", func(r *sample) *string { return &r.Set }).Bound(),
	UUID(3, "id", "", func(r *sample) *[16]byte { return &r.ID }),
	Text(4, "note", "dict", func(r *sample) *string { return &r.Note }).Null(),
	Hash(5, "hash", "uncompressed", func(r *sample) *string { return &r.Hash }),
	Float(6, "amount", func(r *sample) *float64 { return &r.Amount }, func(r *sample) *bool { return &r.Has }),
	List(7, 12, "numbers", "dict", func(r *sample) *[]int32 { return &r.Numbers }),
	Int32(8, "small", "delta", func(r *sample) *int32 { return &r.Small }),
	Int64(9, "large", "dict", func(r *sample) *int64 { return &r.Large }),
	Bool(10, "yes", func(r *sample) *bool { return &r.Yes }),
	Enum(11, "word", "dict", func(r *sample) string { return fmt.Sprint(r.Yes) }, func(*sample, string) {}),
}

var sampleSchema = NewSchema("samples", sampleColumns)

// Samples are sorted by set and time.
var sampleOrder = []string{"set", "at"}

func compareSamples(a, b *sample) int {
	return cmp.Or(strings.Compare(a.Set, b.Set), cmp.Compare(a.At, b.At))
}

// randomSamples are rows of which every optional member is there with a chance of its own.
func randomSamples(r *rand.Rand, n int) []sample {
	var chance [4]float64
	for i := range chance {
		chance[i] = r.Float64()
	}
	out := make([]sample, n)
	for i := range out {
		s := &out[i]
		*s = sample{
			At: noon.Unix() + int64(i), Set: fmt.Sprint("set-", r.IntN(3)), Small: int32(i), Large: r.Int64(),
			Yes: r.IntN(2) == 0,
		}
		for k := range s.ID {
			s.ID[k] = byte(r.Uint32())
		}
		if r.Float64() < chance[0] {
			s.Note = fmt.Sprint("note ", r.IntN(50))
		}
		if r.Float64() < chance[1] {
			s.Hash = fmt.Sprintf("%016x%016x%016x%016x", r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64()|1)
		}
		if r.Float64() < chance[2] {
			s.Amount, s.Has = r.NormFloat64(), true
		}
		if r.Float64() < chance[3] {
			for range 1 + r.IntN(4) {
				s.Numbers = append(s.Numbers, int32(r.IntN(20)))
			}
		}
	}
	return out
}

// file is a file in memory, and what its writer said of it.
type file struct {
	data []byte
	*Contents
}

func (f *file) source() Source {
	return Source{In: bytes.NewReader(f.data), Bytes: f.Bytes, Rows: f.Rows}
}

func sourcesOf(files []*file) (out []Source) {
	for _, f := range files {
		out = append(out, f.source())
	}
	return out
}

// makeFile makes a file of what write writes.
func makeFile(t testing.TB, page int, write func(w *Writer[sample]) error) *file {
	t.Helper()
	var out bytes.Buffer
	w := sampleSchema.NewWriter(&out, page, nil)
	if err := write(w); err != nil {
		t.Fatal(err)
	}
	contents, err := w.Finish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	if contents.Bytes != int64(out.Len()) {
		t.Errorf("the writer says %d bytes, the file has %d", contents.Bytes, out.Len())
	}
	return &file{out.Bytes(), contents}
}

// sortedPlaces are the places of rows in their order.
func sortedPlaces(rows []sample) []int32 {
	out := make([]int32, len(rows))
	for i := range out {
		out[i] = int32(i)
	}
	slices.SortFunc(out, func(i, j int32) int { return compareSamples(&rows[i], &rows[j]) })
	return out
}

// makeFiles makes sorted files of n rows each, whose order is unique.
func makeFiles(t testing.TB, files, n int, change func(file int, rows []sample)) (out []*file) {
	t.Helper()
	r := rand.New(rand.NewPCG(3, uint64(files*n)))
	for i := range files {
		list := randomSamples(r, n)
		for k := range list {
			list[k].At = noon.Unix() + int64(r.IntN(1000))*int64(files) + int64(i)
		}
		if change != nil {
			change(i, list)
		}
		rows := sampleSchema.NewRows()
		rows.Add(list)
		out = append(out, makeFile(t, FreshPage, func(w *Writer[sample]) error {
			return w.WriteRows(t.Context(), rows, sortedPlaces(list))
		}))
	}
	return out
}

// mergeByColumns and mergeByRows make one file of sorted ones.
func mergeByColumns(t testing.TB, files []*file, page int) *file {
	t.Helper()
	return makeFile(t, page, func(w *Writer[sample]) error {
		m, err := sampleSchema.OpenMerge(t.Context(), sourcesOf(files), sampleOrder, compareSamples, nil)
		if err != nil || m == nil {
			t.Fatalf("got %v, %v, want a merge by columns", m, err)
		}
		defer m.Close()
		return m.Write(t.Context(), w)
	})
}

func mergeByRows(t testing.TB, files []*file, page int) *file {
	t.Helper()
	return makeFile(t, page, func(w *Writer[sample]) error {
		return MergeRows(t.Context(), sourcesOf(files), sampleColumns, compareSamples, nil, func(row *sample) error {
			return w.Add(t.Context(), row)
		})
	})
}

// rowsOf reads a file.
func rowsOf(t testing.TB, f *file) (out []sample) {
	t.Helper()
	sel := &Selection[sample]{Rest: sampleColumns}
	damaged := func(err error) { t.Error(err) }
	err := ReadRows(t.Context(), bytes.NewReader(f.data), f.Bytes, sel, damaged, func(rows []sample) error {
		out = append(out, slices.Clone(rows)...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
