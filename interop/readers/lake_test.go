package readers

import (
	"context"
	"testing"
	"time"

	"sluice/event"
	"sluice/internal/identifier"
	"sluice/internal/lake"
)

// All calls of the code under test that open, write and list the tables are in this file.

// settings are those of a lake that histories choose.
type settings struct {
	dir    string
	now    func() time.Time
	retain time.Duration
	bytes  int64 // compaction merges files up to this size; 0 means as in production
}

// retention lets go of all that is too old: the histories let many days pass at once.
func (s settings) retention(context.Context) (lake.Retention, error) {
	return lake.Retention{Keep: s.retain, Confirmed: s.now()}, nil
}

func openLake(ctx context.Context, s settings) (*lake.Lake, error) {
	return lake.OpenDir(ctx, s.dir, lake.Options{Now: s.now, Retention: s.retention, FileBytes: s.bytes})
}

// commit adds rows to the tables behind what is in them.
func commit(ctx context.Context, l *lake.Lake, events []event.Row, rejections []lake.Rejection, hours []lake.Hour) error {
	marks, err := l.Watermarks(ctx, 0)
	if err != nil {
		return err
	}
	return l.Commit(ctx, lake.Batch{Spans: []lake.Span{{From: marks, To: marks.Events + 1}}, Events: events, Rejections: rejections, Hours: hours}, 0)
}

// erase takes away the rows that carry an identifier, and says how many went.
func erase(ctx context.Context, l *lake.Lake, column, value string) (int64, error) {
	id := identifier.ID{Kind: identifier.Kind(column), Value: value}
	done, err := l.Erase(ctx, lake.Choice{Kinds: []identifier.Kind{id.Kind}, Match: id.In}, nil)
	return done.Rows, err
}

// source lists the files of a lake.
func source(t *testing.T, l *lake.Lake, dir string) Source {
	t.Helper()
	src := Source{Dir: dir, Files: map[string][]string{}}
	for _, table := range Tables {
		files, err := l.Files(t.Context(), table.Name)
		if err != nil {
			t.Fatal(err)
		}
		src.Files[table.Name] = files
	}
	return src
}
