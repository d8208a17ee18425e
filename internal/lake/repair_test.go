package lake

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"sluice/event"
	"sluice/internal/objectstore"
)

// unpack is a copy of the lake of a data directory that an earlier version wrote.
func unpack(t testing.TB, archive string) string {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for in := tar.NewReader(z); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return filepath.Join(dir, "lake")
		}
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, filepath.Clean("/"+h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(name, 0o700)
		} else {
			var b []byte
			if b, err = io.ReadAll(in); err == nil {
				err = os.WriteFile(name, b, 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// stored is what the list beside an archive says is in the table, by event id.
func stored(t testing.TB, list string) map[string]map[string]any {
	t.Helper()
	f, err := os.Open(list)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := map[string]map[string]any{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct {
			In  string
			Row map[string]any
		}
		d := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		d.UseNumber()
		if err := d.Decode(&line); err != nil {
			t.Fatal(err)
		}
		if line.In == "table" && line.Row != nil {
			out[line.Row["event_id"].(string)] = line.Row
		}
	}
	return out
}

// plain is a row as the list spells it: absent members are left out, times are microseconds.
func plain(t testing.TB, r *event.Row) map[string]any {
	t.Helper()
	out := map[string]any{}
	d := json.NewDecoder(bytes.NewReader(event.AppendJSON(nil, r)))
	d.UseNumber()
	if err := d.Decode(&out); err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(out, func(_ string, v any) bool { return v == nil })
	out["received_at"], out["event_time"] = json.Number(fmt.Sprint(r.ReceivedAt*1_000_000)), json.Number(fmt.Sprint(r.EventTime*1_000_000))
	if r.CustomData != "" {
		out["custom_data"] = r.CustomData
	}
	return out
}

func holdStored(t testing.TB, l *Lake, want map[string]map[string]any) {
	t.Helper()
	got := collect(t, l, Query{})
	if len(got) != len(want) {
		t.Fatalf("got %d rows, want %d", len(got), len(want))
	}
	for i := range got {
		id := got[i].EventID.String()
		if a, b := fmt.Sprint(plain(t, &got[i])), fmt.Sprint(want[id]); a != b {
			t.Fatalf("event %s: got\n%s, want\n%s", id, a, b)
		}
	}
}

// findings is how often Check says what.
func findings(t testing.TB, l *Lake) map[string]int {
	t.Helper()
	out := map[string]int{}
	c, err := l.Check(t.Context(), func(f Finding) {
		problem := f.Problem
		if rest, ok := strings.CutPrefix(problem, "column "); ok {
			_, problem, _ = strings.Cut(rest, " ")
		}
		out[problem]++
	}, func(int, int) {})
	if err != nil {
		t.Fatal(err)
	}
	if c.Files == 0 || c.Manifests == 0 || c.Rows == 0 {
		t.Fatalf("got %+v, want something that was checked", c)
	}
	return out
}

const (
	oldArchive = "testdata/data-524a9ec.tar.gz"
	oldList    = "testdata/data-524a9ec.sent.ndjson"
)

func silent(int, int) {}

// A data directory of version 1 has files that cannot be read by name and values where there were none. Both ways of
// repairing it keep every row and leave nothing to be found.
func TestRepairOfVersion1(t *testing.T) {
	want := stored(t, oldList)
	for name, repair := range map[string]func(*Lake) error{
		"by command": func(l *Lake) error {
			done, err := l.Repair(t.Context(), silent)
			if err == nil && (done.Files == 0 || done.Left != 0) {
				err = fmt.Errorf("got %+v, want files and none left", done)
			}
			return err
		},
		"by itself": func(l *Lake) error { compactAll(t, l); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			dir := unpack(t, oldArchive)
			l := openLake(t, Options{Store: at(t, dir)})
			holdStored(t, l, want)
			before := findings(t, l)
			for _, problem := range []string{"cannot be found by its name in the footer", "holds a value where there was none"} {
				if before[problem] == 0 {
					t.Errorf("got findings %v, want %q", before, problem)
				}
			}
			hours := sumHours(t, l)
			if err := repair(l); err != nil {
				t.Fatal(err)
			}
			for _, l := range []*Lake{l, openLake(t, Options{Store: at(t, dir)})} {
				holdStored(t, l, want)
				if after := findings(t, l); len(after) != 0 {
					t.Errorf("got findings %v, want none", after)
				}
				if after := sumHours(t, l); after[0] != hours[0] || math.Abs(after[1]-hours[1]) > 1e-9*hours[1] {
					t.Errorf("got hours %v, want %v", after, hours)
				}
			}
			if left := wrongFiles(t, dir); len(left) > 0 {
				t.Errorf("got %v, want no file of version 1", left)
			}
		})
	}
}

func reversed(list []string) []string {
	list = slices.Clone(list)
	slices.Reverse(list)
	return list
}

func sumHours(t testing.TB, l *Lake) (sum [2]float64) {
	t.Helper()
	if err := l.ScanHours(t.Context(), HourQuery{}, func(h *Hour) error {
		sum[0] += float64(h.Count)
		sum[1] += h.Value
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return sum
}

// wrongFiles lists the Parquet files whose footers do not name their columns.
func wrongFiles(t testing.TB, dir string) (out []string) {
	t.Helper()
	for _, name := range files(t, dir) {
		if filepath.Ext(name) != ".parquet" {
			continue
		}
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		f, err := parquet.OpenFile(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range f.Metadata().RowGroups[0].Columns {
			if len(c.MetaData.PathInSchema) == 0 || c.MetaData.PathInSchema[0] == "" {
				out = append(out, name)
				break
			}
		}
	}
	return out
}

// A crash at any step of a repair, of the move that comes before it too, then another process: nothing is lost, nothing
// is there twice, and the repair can be finished.
func TestRepairCrashesAtEveryStep(t *testing.T) {
	want := stored(t, oldList)
	work := func(ctx context.Context, o Options) error {
		o.Now = func() time.Time { return noon }
		l, err := Open(ctx, o)
		if err != nil {
			return err
		}
		_, err = l.Repair(ctx, silent)
		return err
	}
	var steps []string
	err := work(t.Context(), Options{Store: at(t, unpack(t, oldArchive)), Step: func(name string) error {
		steps = append(steps, name)
		return nil
	}})
	if err != nil || len(steps) < 30 {
		t.Fatalf("got %v, %v, want the steps of a repair", steps, err)
	}
	for i, name := range steps {
		if slices.Index(steps, name) != i && len(steps)-1-slices.Index(reversed(steps), name) != i {
			continue // the first and the last of each: those between are much alike
		}
		t.Run(fmt.Sprint(i, name), func(t *testing.T) {
			t.Parallel()
			dir := unpack(t, oldArchive)
			var n atomic.Int64
			err := work(t.Context(), Options{Store: at(t, dir), Step: func(string) error {
				if n.Add(1) > int64(i) {
					return errCrash
				}
				return nil
			}})
			if !errors.Is(err, objectstore.ErrUncertain) {
				t.Fatalf("got %v, want the crash", err)
			}
			holdStored(t, openLake(t, Options{Store: at(t, dir)}), want)
			if err := work(t.Context(), Options{Store: at(t, dir)}); err != nil {
				t.Fatal(err)
			}
			l := openLake(t, Options{Store: at(t, dir)})
			holdStored(t, l, want)
			if after := findings(t, l); len(after) != 0 {
				t.Errorf("got findings %v, want none", after)
			}
		})
	}
}

// Which files are of version 1 is known after every commit and restart, until they are repaired, whatever process moved
// the table or merged manifests before.
func TestVersion1IsKnownAfterARestart(t *testing.T) {
	for name, between := range map[string]func(l *Lake){
		"moved": func(*Lake) {},
		"manifests merged": func(l *Lake) {
			s := newSampler(1, 1, 9)
			for range 32 {
				commit(t, l, s.rows(3, noon))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := unpack(t, oldArchive)
			between(openLake(t, Options{Store: at(t, dir)})) // it was moved here by being unpacked
			l := openLake(t, Options{Store: at(t, dir)})     // another process
			compactAll(t, l)
			if after := findings(t, l); len(after) != 0 {
				t.Errorf("got findings %v, want none", after)
			}
			if left := wrongFiles(t, dir); len(left) > 0 {
				t.Errorf("got %d files of version 1, want none", len(left))
			}
		})
	}
}
