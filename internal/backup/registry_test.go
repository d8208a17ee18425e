package backup

import (
	"path/filepath"
	"testing"

	"sluice/internal/engine"
)

// Every bucket of a backup comes back: alarms too, so that one that lasts keeps its beginning.
func TestRegistryComesBack(t *testing.T) {
	open := func() *engine.Engine {
		e, err := engine.Open(t.Context(), engine.Options{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		return e
	}
	from, to, file := open(), open(), filepath.Join(t.TempDir(), "registry.ndjson")
	for name, kind := range buckets {
		b, err := from.Bucket(t.Context(), kind)
		if err == nil {
			_, err = b.Put(t.Context(), "one", []byte(`{"of":"`+name+`"}`))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := SaveRegistry(t.Context(), from, file); err != nil {
		t.Fatal(err)
	}
	if err := RestoreRegistry(t.Context(), to, file); err != nil {
		t.Fatal(err)
	}
	if buckets["alarms"] != engine.Alarms {
		t.Error("a backup has no alarms")
	}
	for name, kind := range buckets {
		b, err := to.Bucket(t.Context(), kind)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := b.Get(t.Context(), "one"); err != nil || string(got.Value) != `{"of":"`+name+`"}` {
			t.Errorf("%s: got %q, %v", name, got.Value, err)
		}
	}
}
