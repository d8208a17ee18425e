package iceberg

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"sluice/internal/objectstore"
	"sluice/internal/parquetfile"
	"sluice/internal/watermark"
)

// widerSchema is sampleSchema with a column that came later.
var widerSchema = func() *Schema[sample] {
	d := sampleSchema.Definition
	added := parquetfile.Text(13, "added", "", func(r *sample) *string { return &r.Added }).Null()
	d.Columns = append(slices.Clone(d.Columns), added)
	return NewSchema(d)
}()

func openAs(t testing.TB, s *Schema[sample], dir string) *Table[sample] {
	t.Helper()
	store, err := objectstore.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	table, err := open(context.Background(), s, Options{
		Store: store, Now: func() time.Time { return noon }, SnapshotRetention: 24 * time.Hour, FileBytes: 1 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// scanned are the rows of a table in its order, as a scan gives them.
func scanned(t testing.TB, table *Table[sample]) (out []sample) {
	t.Helper()
	err := table.Scan(t.Context(), Query[sample]{}, func(rows []sample) error {
		out = append(out, slices.Clone(rows)...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(out, func(a, b sample) int { return slices.Compare(a.ID[:], b.ID[:]) })
	return out
}

// A table that lacks a column gets it in one commit when it is opened to write. Old rows have no value in it, new rows do,
// also when both are merged.
func TestColumnIsAdded(t *testing.T) {
	dir := t.TempDir()
	old := openSamples(t, dir)
	appendSamples(t, old, 3, 50, nil)
	before, want := old.state.Load(), scanned(t, old)

	table := openAs(t, widerSchema, dir)
	after := table.state.Load()
	if after.version != before.version+1 || after.widened || after.meta.CurrentSchemaID != 1 || len(after.meta.Schemas) != 2 || after.meta.LastColumnID != 13 {
		t.Fatalf("got version %d, schema %d of %d, last column %d, want %d, 1 of 2, 13",
			after.version, after.meta.CurrentSchemaID, len(after.meta.Schemas), after.meta.LastColumnID, before.version+1)
	}
	if again := openAs(t, widerSchema, dir).state.Load(); again.version != after.version {
		t.Errorf("opened again: got version %d, want %d", again.version, after.version)
	}
	if got := scanned(t, table); !reflect.DeepEqual(got, want) {
		t.Error("rows that were there before have changed")
	}

	more := slices.Clone(want[:20])
	for i := range more {
		more[i].ID[0], more[i].Added = more[i].ID[0]^0xff, "now"
	}
	if err := table.Append(t.Context(), more, watermark.Origin{Spans: []watermark.Span{{From: 3, To: 4}}}, nil); err != nil {
		t.Fatal(err)
	}
	want = append(want, more...)
	slices.SortFunc(want, func(a, b sample) int { return slices.Compare(a.ID[:], b.ID[:]) })
	if got := scanned(t, table); !reflect.DeepEqual(got, want) {
		t.Error("rows of both kinds do not come back as they were")
	}
	meta := table.state.Load().meta
	if id := meta.Current().SchemaID; id != 1 || meta.Snapshots[0].SchemaID != 0 {
		t.Errorf("got snapshots of schemas %d and %d, want 0 and 1", meta.Snapshots[0].SchemaID, id)
	}
	merged, err := table.mergeSorted(t.Context(), table.state.Load().files(), parquetfile.PackedPage, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := table.replace(t.Context(), replaced, table.state.Load().files(), merged, ""); err != nil {
		t.Fatal(err)
	}
	if got := scanned(t, table); !reflect.DeepEqual(got, want) {
		t.Error("the rows of a merge differ")
	}
	checked, err := table.Check(t.Context(), func(f Finding) { t.Error(f.File, f.Problem) }, func(int, int) {})
	if err != nil || checked.Files != 5 {
		t.Errorf("got %+v, %v, want 5 files", checked, err)
	}
}

// What the table has and this program does not know stays: a column of a later version, and the id of its schema.
func TestUnknownColumnStays(t *testing.T) {
	dir := t.TempDir()
	openSamples(t, dir)
	openAs(t, widerSchema, dir)
	old := openSamples(t, dir)
	appendSamples(t, old, 1, 5, nil)
	meta := old.state.Load().meta
	if meta.CurrentSchemaID != 1 || len(meta.Schemas) != 2 || meta.LastColumnID != 13 {
		t.Errorf("got schema %d of %d, last column %d, want 1 of 2, 13", meta.CurrentSchemaID, len(meta.Schemas), meta.LastColumnID)
	}
	var s struct{ Fields []struct{ Name string } }
	if err := json.Unmarshal(meta.Schemas[1], &s); err != nil || len(s.Fields) != 12 || s.Fields[11].Name != "added" {
		t.Errorf("got %+v, %v, want twelve columns, the last added", s, err)
	}
}

// A table that was moved gets its columns with the commit that makes it readable from its new place. One that is only read
// stays as it is.
func TestColumnIsAddedElsewhere(t *testing.T) {
	dir := t.TempDir()
	old := openSamples(t, dir)
	appendSamples(t, old, 1, 5, nil)
	version := old.state.Load().version
	moved := filepath.Join(t.TempDir(), "moved")
	if err := os.CopyFS(moved, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if s := openAs(t, widerSchema, moved).state.Load(); s.version != version+1 || s.meta.CurrentSchemaID != 1 {
		t.Errorf("moved: got version %d and schema %d, want %d and 1", s.version, s.meta.CurrentSchemaID, version+1)
	}
	store, err := objectstore.OpenDirToRead(dir)
	if err != nil {
		t.Fatal(err)
	}
	read, err := open(t.Context(), widerSchema, Options{Store: store, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	if got := scanned(t, read); len(got) != 5 {
		t.Errorf("to read only: got %d rows, want 5", len(got))
	}
	if s := openSamples(t, dir).state.Load(); s.version != version || s.meta.CurrentSchemaID != 0 {
		t.Errorf("to read only: got version %d and schema %d, want %d and 0", s.version, s.meta.CurrentSchemaID, version)
	}
}
