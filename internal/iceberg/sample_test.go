package iceberg

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"sluice/internal/objectstore"
	"sluice/internal/parquetfile"
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
	Added   string // only in a wider table
}

var sampleSchema = NewSchema(Definition[sample]{
	Name: "samples",
	Columns: []parquetfile.Column[sample]{
		parquetfile.Time(1, "at", "delta", func(r *sample) *int64 { return &r.At }).Bound(),
		parquetfile.Text(2, "set", "dict", func(r *sample) *string { return &r.Set }).Bound(),
		parquetfile.UUID(3, "id", "", func(r *sample) *[16]byte { return &r.ID }),
		parquetfile.Text(4, "note", "dict", func(r *sample) *string { return &r.Note }).Null(),
		parquetfile.Hash(5, "hash", "uncompressed", func(r *sample) *string { return &r.Hash }),
		parquetfile.Float(6, "amount", func(r *sample) *float64 { return &r.Amount }, func(r *sample) *bool { return &r.Has }),
		parquetfile.List(7, 12, "numbers", "dict", func(r *sample) *[]int32 { return &r.Numbers }),
		parquetfile.Int32(8, "small", "delta", func(r *sample) *int32 { return &r.Small }),
		parquetfile.Int64(9, "large", "dict", func(r *sample) *int64 { return &r.Large }),
		parquetfile.Bool(10, "yes", func(r *sample) *bool { return &r.Yes }),
		parquetfile.Enum(11, "word", "dict", func(r *sample) string { return fmt.Sprint(r.Yes) }, func(*sample, string) {}),
	},
	Day: "at", Order: []string{"set", "at"},
	Time:    func(r *sample) int64 { return r.At },
	Compare: func(a, b *sample) int { return cmp.Or(strings.Compare(a.Set, b.Set), cmp.Compare(a.At, b.At)) },
})

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
			At: noon.Unix() + int64(i), Set: fmt.Sprint("set-", r.IntN(3)), Small: int32(i), Large: r.Int64(), Yes: r.IntN(2) == 0,
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

// open is a table that is open.
func open(ctx context.Context, s *Schema[sample], o Options) (*Table[sample], error) {
	t := New(s, o)
	return t, t.Open(ctx)
}

func openSamples(t testing.TB, dir string) *Table[sample] {
	t.Helper()
	store, err := objectstore.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	table, err := open(context.Background(), sampleSchema, Options{
		Store: store, Now: func() time.Time { return noon }, SnapshotRetention: 24 * time.Hour, FileBytes: 1 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	return table
}
