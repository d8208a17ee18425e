//go:build engines

package readers

import (
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"sluice/interop/engines"
)

// What docs/catalog.md says under "What to know" is so. Each function is for one engine, and ends with an erasure.
var traps = map[string]func(*world, *testing.T, *engines.Driver){
	"sparky": (*world).sparkTraps, "pyice": (*world).pyicebergTraps, "click": (*world).clickHouseTraps, "trin": (*world).trinoTraps,
}

// A stream from the time of a snapshot on gets what came after it, once, also over a compaction. It ends with an erasure. Two
// metadata tables cannot be read whole.
func (w *world) sparkTraps(t *testing.T, d *engines.Driver) {
	since := w.metadata(t).time(t) + 1
	before := len(w.want())
	for range 5 {
		w.send(t, 5)
	}
	checkpoint := filepath.Join(t.TempDir(), "checkpoint")
	follow := map[string]any{"do": "stream", "since": since, "checkpoint": checkpoint}
	_, done, err := d.Do(follow)
	if want := int64(len(w.want()) - before); err != nil || number(done, "rows") != want || number(done, "distinct") != want {
		t.Errorf("a stream after a snapshot: got %v, %v, want %d rows", done, err, want)
	}
	w.send(t, 5)
	w.erase(t)
	if _, done, err := d.Do(follow); err == nil {
		t.Errorf("a stream over an erasure: got %v, want an error, as the documentation says", done)
	}
	w.send(t, 5)
	_, done, err = d.Do(map[string]any{"do": "stream", "checkpoint": filepath.Join(t.TempDir(), "anew")})
	if all := int64(len(w.want())); err == nil && number(done, "rows") == all {
		t.Errorf("a stream without a start: got all of %d rows; the documentation says a part", all)
	}
	t.Logf("a stream without a start, after an erasure: %v of %d rows, %v", done, len(w.want()), err)
	for _, name := range []string{"files", "entries"} {
		if _, _, err := d.Do(map[string]any{"do": "everything", "name": name}); err == nil {
			t.Errorf("SELECT * FROM events.%s works: change the documentation", name)
		}
	}
}

// A stream in Spark that has no start gets a part of the rows, and no error, once commits have been thinned.
func TestEngineStreamWithoutAStart(t *testing.T) {
	for _, e := range engines.Chosen(t) {
		if e.Module != "sparky" {
			continue
		}
		now := noon
		l, err := openLake(t.Context(), settings{dir: t.TempDir(), now: func() time.Time { return now }, retain: 10000 * time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		m := &maker{Rand: rand.New(rand.NewPCG(31, 7))}
		const commits, each = 90, 10
		for range commits {
			now = now.Add(20 * time.Second)
			if err := commit(t.Context(), l, m.events(each, 1, 1, now), nil, nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Expire(t.Context()); err != nil {
			t.Fatal(err)
		}
		d := engines.Start(t, e, engines.Place{"catalog": (&engines.Shown{Lake: l}).Serve(t) + "/iceberg"})
		_, done, err := d.Do(map[string]any{"do": "stream", "checkpoint": filepath.Join(t.TempDir(), "checkpoint")})
		if n := number(done, "rows"); err != nil || n == 0 || n >= commits*each {
			t.Errorf("got %d of %d rows, %v; the documentation says a part, without an error", n, commits*each, err)
		}
		t.Logf("%s %s: %v of %d rows", d.Name, d.Version, done, commits*each)
	}
}

// A table that was loaded before an erasure cannot be read until it is refreshed. Two metadata tables cannot be read.
func (w *world) pyicebergTraps(t *testing.T, d *engines.Driver) {
	for _, name := range []string{"files", "entries"} {
		if _, _, err := d.Do(map[string]any{"do": "everything", "name": name}); err == nil {
			t.Errorf("inspect.%s() works: change the documentation", name)
		}
	}
	if _, _, err := d.Do(map[string]any{"do": "hold"}); err != nil {
		t.Fatal(err)
	}
	w.erase(t)
	if _, done, err := d.Do(map[string]any{"do": "again", "refresh": false}); err == nil {
		t.Errorf("a table from before an erasure: got %v, want an error, as the documentation says", done)
	}
	_, done, err := d.Do(map[string]any{"do": "again", "refresh": true})
	if want := int64(len(w.want())); err != nil || number(done, "rows") != want {
		t.Errorf("after refresh: got %v, %v, want %d rows", done, err, want)
	}
}

// A null list is an empty one. An event is found by its id as a UUID only without regard to the bounds in manifests.
func (w *world) clickHouseTraps(t *testing.T, d *engines.Driver) {
	none := int64(0)
	for _, row := range w.want() {
		if _, ok := row["gpp_sid"]; !ok {
			none++
		}
	}
	_, done, err := d.Do(map[string]any{"do": "lists"})
	if err != nil || number(done, "empty") != none || none == 0 {
		t.Errorf("empty lists: got %v, %v, want %d, as the documentation says", done, err, none)
	}
	_, done, err = d.Do(map[string]any{"do": "by_uuid", "value": w.want()[0]["event_id"]})
	if err != nil || number(done, "rows") != 0 || number(done, "without") != 1 {
		t.Errorf("by UUID: got %v, %v, want no row, and one without pruning, as the documentation says", done, err)
	}
}

// Files are passed over by dataset and by time, and not by event id.
func (w *world) trinoTraps(t *testing.T, d *engines.Driver) {
	want := w.want()
	all := int64(len(want))
	looked := func(column string, value any) int64 {
		_, done, err := d.Do(map[string]any{"do": "find", "column": column, "value": value})
		if err != nil {
			t.Fatal(err)
		}
		return number(done, "looked")
	}
	if n := looked("data_set_id", "other"); n == 0 || n >= all {
		t.Errorf("by dataset: looked at %d of %d rows, want fewer", n, all)
	}
	if n := looked("event_id", want[0]["event_id"]); n != all {
		t.Errorf("by event id: looked at %d of %d rows; the documentation says all", n, all)
	}
}
