package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/engine"
)

// Commands and the server find the tables where they are, without a flag, and reject a flag that names other ones. They move
// on purpose alone, to a copy, and every event is there once.
func TestTablesElsewhere(t *testing.T) {
	t.Parallel()
	dir, first, second := t.TempDir(), filepath.Join(t.TempDir(), "a place"), filepath.Join(t.TempDir(), "second")
	key, _ := provisioned(t, dir, "shop")
	s := start(t, dir, "--commit-every", "200ms", "--lake", "file://"+first)
	sendMarked(t, s, key, "gone", goneHash, "")
	sendMarked(t, s, key, "stays-1", otherHash, "")
	if found := stored(t, dir, "shop"); len(found) != 2 {
		t.Errorf("export without --lake: got %v, want both events", found)
	}
	if out := sluice(t, "erase", "--data", dir, "--email-sha256", goneHash, "--yes"); !strings.Contains(out, "1 rows erased") {
		t.Errorf("erase without --lake: got %q", out)
	}
	files := sluice(t, "lake", "files", "events", "--data", dir)
	if !strings.Contains(files, "a place") {
		t.Errorf("lake files without --lake: got %q", files)
	}
	if _, err := os.Stat(filepath.Join(dir, "lake")); err == nil {
		t.Error("a command made tables in the data directory")
	}
	disagrees := func(args ...string) {
		t.Helper()
		wants(t, strings.Join(args, " "), fails(t, 1, append(args, "--data", dir, "--lake", "file://"+second)...), "a%20place", second, "sluice lake copy --to", "sluice lake use")
	}
	disagrees("export")
	disagrees("erase", "--ifa", "x1234567", "--yes")

	sendMarked(t, s, key, "gone-2", goneHash, "")
	stored(t, dir, "shop")
	sluice(t, "lake", "copy", "--data", dir, "--to", "file://"+second)
	sluice(t, "erase", "--data", dir, "--email-sha256", goneHash, "--yes") // is in the copy
	wants(t, "beside a server", fails(t, 1, "lake", "use", "file://"+second, "--data", dir), "stop it first")
	sendMarked(t, s, key, "stays-2", otherHash, "") // after the copy
	s.stop(syscall.SIGTERM)
	disagrees("serve", "--listen", "127.0.0.1:0", "--ops", "127.0.0.1:0")
	wants(t, "other tables", fails(t, 1, "lake", "use", "file://"+t.TempDir(), "--data", dir), "there are no tables")
	sluice(t, "lake", "use", "file://"+second, "--data", dir)
	s = start(t, dir, "--commit-every", "200ms")
	sendMarked(t, s, key, "stays-3", otherHash, "")
	var found map[string]int
	eventually(t, 30*time.Second, "what was erased to leave the copy", func() error {
		if found = stored(t, dir, "shop"); found["gone-2"] != 0 {
			return errors.New("it is there")
		}
		return nil
	})
	if len(found) != 3 || found["stays-1"] != 1 || found["stays-2"] != 1 || found["stays-3"] != 1 {
		t.Errorf("after the move: got %v, want each of three events once", found)
	}
	s.stop(syscall.SIGTERM)
	if out := sluice(t, "lake", "files", "events", "--data", dir); !strings.Contains(out, second) {
		t.Errorf("lake files after the move: got %q", out)
	}
	start(t, dir, "--lake", "file://"+second).stop(syscall.SIGTERM)

	// A data directory with its tables can be moved: their place is not an absolute path.
	own, moved := t.TempDir(), filepath.Join(t.TempDir(), "moved")
	key, _ = provisioned(t, own, "shop")
	s = start(t, own, "--commit-every", "200ms")
	sendMarked(t, s, key, "stays", otherHash, "")
	stored(t, own, "shop")
	s.stop(syscall.SIGTERM)
	if err := os.Rename(own, moved); err != nil {
		t.Fatal(err)
	}
	if found := stored(t, moved, "shop"); found["stays"] != 1 {
		t.Errorf("in a moved directory: got %v", found)
	}
}

// A copy that the stream cannot bring up to date is not used.
func TestLakeUseRejectsWhatIsTooOld(t *testing.T) {
	t.Parallel()
	dir, old := t.TempDir(), filepath.Join(t.TempDir(), "old")
	key, _ := provisioned(t, dir, "shop")
	s := start(t, dir, "--commit-every", "200ms")
	sluice(t, "lake", "copy", "--data", dir, "--to", "file://"+old)
	sendMarked(t, s, key, "one", otherHash, "")
	sendMarked(t, s, key, "two", otherHash, "")
	stored(t, dir, "shop")
	s.stop(syscall.SIGTERM)
	ageOut(t, dir)
	wants(t, "too old", fails(t, 1, "lake", "use", "file://"+old, "--data", dir), "too old", "sluice lake copy --to again")
	sluice(t, "lake", "copy", "--data", dir, "--to", "file://"+old)
	sluice(t, "lake", "use", "file://"+old, "--data", dir)
	if found := stored(t, dir, "shop"); len(found) != 2 {
		t.Errorf("got %v, want both events", found)
	}
}

// ageOut drops every frame of the stream of a data directory, as its retention does.
func ageOut(t *testing.T, dir string) {
	t.Helper()
	e, err := engine.Open(t.Context(), engine.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	ps, err := e.Partitions(t.Context(), engine.PartitionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer ps.Close()
	for _, p := range ps.List {
		st, err := p.State(t.Context())
		if err == nil {
			err = p.Advance(t.Context(), st.LastSeq)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Tables that are gone are not made anew in silence once the stream has forgotten what was in them: neither by a server nor by
// a command that reads. The command that is named does it, and says so.
func TestTablesThatAreGone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key, _ := provisioned(t, dir, "shop")
	s := start(t, dir, "--commit-every", "200ms")
	sendMarked(t, s, key, "one", otherHash, "")
	stored(t, dir, "shop")
	s.stop(syscall.SIGTERM)
	ageOut(t, dir)
	if err := os.RemoveAll(filepath.Join(dir, "lake")); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"serve", "--listen", "127.0.0.1:0", "--ops", "127.0.0.1:0"}, {"export", "--dataset", "shop"}} {
		wants(t, args[0], fails(t, 1, append(args, "--data", dir)...), "are gone", "sluice lake reload")
		if _, err := os.Stat(filepath.Join(dir, "lake", "events")); err == nil {
			t.Errorf("%s made new tables", args[0])
		}
	}
	wants(t, "without agreement", fails(t, 1, "lake", "reload", "--data", dir), "--yes")
	sluice(t, "lake", "reload", "--data", dir, "--yes")
	s = start(t, dir, "--commit-every", "200ms")
	sendMarked(t, s, key, "two", otherHash, "")
	if found := stored(t, dir, "shop"); len(found) != 1 || found["two"] != 1 {
		t.Errorf("got %v, want what came since", found)
	}
}
