package table

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/io"
	ice "github.com/apache/iceberg-go/table"

	"sluice/internal/lake"
)

// versions is a catalog as other programs have one for a table of files: the newest version is the table, and a commit
// makes the next one unless there is one.
type versions struct{ dir string }

func (v versions) newest() int {
	n := 1
	for {
		if _, err := os.Stat(v.name(n + 1)); err != nil {
			return n
		}
		n++
	}
}

func (v versions) name(n int) string {
	return filepath.Join(v.dir, "metadata", fmt.Sprintf("v%d.metadata.json", n))
}

func (v versions) LoadTable(ctx context.Context, name ice.Identifier) (*ice.Table, error) {
	location := v.name(v.newest())
	return ice.NewFromLocation(ctx, name, location, io.LoadFSFunc(nil, location), v)
}

func (v versions) CommitTable(ctx context.Context, name ice.Identifier, needs []ice.Requirement, updates []ice.Update) (ice.Metadata, string, error) {
	cur, err := v.LoadTable(ctx, name)
	if err != nil {
		return nil, "", err
	}
	for _, need := range needs {
		if err := need.Validate(cur.Metadata()); err != nil {
			return nil, "", err
		}
	}
	b, err := ice.MetadataBuilderFromBase(cur.Metadata(), cur.MetadataLocation())
	if err != nil {
		return nil, "", err
	}
	for _, u := range updates {
		if err := u.Apply(b); err != nil {
			return nil, "", err
		}
	}
	next, err := b.Build()
	if err != nil {
		return nil, "", err
	}
	text, err := json.Marshal(next)
	if err != nil {
		return nil, "", err
	}
	at := v.name(v.newest() + 1)
	f, err := os.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, "", err
	}
	if _, err := f.Write(text); err != nil {
		return nil, "", err
	}
	return next, at, f.Close()
}

// compact replaces one data file by a copy of it, as a managed service does that compacts tables, and then expires every
// snapshot but its own.
func compact(t *testing.T, dir string, expire bool) {
	t.Helper()
	tbl, err := versions{dir}.LoadTable(t.Context(), ice.Identifier{"sluice", "events"})
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := tbl.Scan().PlanFiles(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	old := strings.TrimPrefix(tasks[0].File.FilePath(), "file://")
	b, err := os.ReadFile(old)
	if err != nil {
		t.Fatal(err)
	}
	made := filepath.Join(filepath.Dir(old), fmt.Sprintf("foreign-%d.parquet", time.Now().UnixNano()))
	if err := os.WriteFile(made, b, 0o600); err != nil {
		t.Fatal(err)
	}
	file := tasks[0].File
	builder, err := iceberg.NewDataFileBuilder(tbl.Spec(), iceberg.EntryContentData, "file://"+made, iceberg.ParquetFile, file.Partition(), nil, nil, file.Count(), file.FileSizeBytes())
	if err != nil {
		t.Fatal(err)
	}
	replacement := builder.NullValueCounts(file.NullValueCounts()).ValueCounts(file.ValueCounts()).
		LowerBoundValues(file.LowerBoundValues()).UpperBoundValues(file.UpperBoundValues()).Build()
	tx := tbl.NewTransaction()
	if err := tx.ReplaceDataFilesWithDataFiles(t.Context(), []iceberg.DataFile{file}, []iceberg.DataFile{replacement}, nil); err != nil {
		t.Fatal(err)
	}
	if tbl, err = tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, ok := tbl.CurrentSnapshot().Summary.Properties["sluice.watermark"]; ok {
		t.Fatal("got a watermark in another program's snapshot, so the test proves nothing")
	}
	if !expire {
		return
	}
	// Our tables forbid it. Who does it all the same must not do harm.
	tx = tbl.NewTransaction()
	if err := tx.SetProperties(iceberg.Properties{"gc.enabled": "true"}); err != nil {
		t.Fatal(err)
	}
	if tbl, err = tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	tx = tbl.NewTransaction()
	if err := tx.ExpireSnapshots(ice.WithOlderThan(0), ice.WithRetainLast(1), ice.WithPostCommit(false)); err != nil {
		t.Fatal(err)
	}
	if tbl, err = tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(tbl.Metadata().Snapshots()); n != 1 {
		t.Fatalf("got %d snapshots, want the other program's alone", n)
	}
}

// Another program compacts the table with iceberg-go's own transactions, between our commits, and expires our snapshots:
// the watermarks and the name of the stream stay, and each row is there once.
func TestSnapshotsOfAnotherProgram(t *testing.T) {
	for name, expire := range map[string]bool{"compaction": false, "compaction and expiry": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l, err := lake.OpenDir(t.Context(), dir, lake.Options{Now: time.Now, Stream: "ours"})
			if err != nil {
				t.Fatal(err)
			}
			rows := varied(60)
			for i := range 3 {
				commit(t, l, rows[20*i:20*i+20])
				compact(t, filepath.Join(dir, "events"), expire)
				if w, err := l.Watermarks(t.Context(), 0); err != nil || w.Events != uint64(i+1) {
					t.Fatalf("got %+v, %v, want watermark %d", w, err, i+1)
				}
			}
			other, err := lake.OpenDir(t.Context(), dir, lake.Options{Now: time.Now, Stream: "another"})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := other.Watermarks(t.Context(), 0); err == nil {
				t.Error("got watermarks for another stream, want an error")
			}
			n := 0
			for _, err := range l.Scan(t.Context(), lake.Query{}) {
				if err != nil {
					t.Fatal(err)
				}
				n++
			}
			if n != len(rows) {
				t.Errorf("got %d rows, want %d", n, len(rows))
			}
		})
	}
}
