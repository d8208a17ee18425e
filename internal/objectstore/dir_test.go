package objectstore_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/objectstore"
	"sluice/internal/objectstoretest"
)

func openDir(t *testing.T, root string) *objectstore.Dir {
	t.Helper()
	d, err := objectstore.OpenDir(root)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDir(t *testing.T) {
	objectstoretest.Run(t, func(t *testing.T) objectstore.Store { return openDir(t, filepath.Join(t.TempDir(), "lake")) })
}

// A directory that somebody empties, moves away or puts another one in the place of, while it is open: what lies at its path
// counts, and what is written lies there.
func TestDirIsReplaced(t *testing.T) {
	root := filepath.Join(t.TempDir(), "lake")
	d := openDir(t, root).Sub("events")
	write := func(name string) {
		t.Helper()
		if err := d.CreateExclusive(t.Context(), name, []byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(root, "events", name)); err != nil {
			t.Fatal(err)
		}
	}
	there := func(name string, want bool) {
		t.Helper()
		if got, err := d.Exists(t.Context(), name); err != nil || got != want {
			t.Errorf("%s: got %v, %v, want %v", name, got, err, want)
		}
	}
	write("data/day/1")
	if err := os.RemoveAll(filepath.Join(root, "events")); err != nil {
		t.Fatal(err)
	}
	there("data/day/1", false)
	write("data/day/2")
	if err := os.Rename(root, root+".old"); err != nil {
		t.Fatal(err)
	}
	there("data/day/2", false)
	if list, err := d.List(t.Context(), "data", true); err != nil || len(list) != 0 {
		t.Errorf("got %v, %v, want nothing", list, err)
	}
	if err := objectstore.WriteAll(t.Context(), d, "data/day/3", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist: nobody else makes the directory", err)
	}
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	there("data/day/2", false)
	write("data/day/3")
}

// Files are for their owner alone, and no temporary file is left by any way of writing.
func TestDirFiles(t *testing.T) {
	root := t.TempDir()
	d := openDir(t, root)
	for _, err := range []error{
		d.CreateExclusive(t.Context(), "metadata/v1", []byte("x")), d.Replace(t.Context(), "metadata/hint", []byte("1"), nil), objectstore.WriteAll(t.Context(), d, "data/day/file", []byte("x")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := d.CreateExclusive(t.Context(), "metadata/v1", []byte("y")); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("got %v, want fs.ErrExist", err)
	}
	files := 0
	err := filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		files++
		info, err := e.Info()
		if err == nil && info.Mode().Perm() != 0o600 {
			t.Errorf("%s: got mode %v, want 0600", name, info.Mode())
		}
		if strings.HasSuffix(name, ".tmp") {
			t.Errorf("%s is left", name)
		}
		return err
	})
	if err != nil || files != 3 {
		t.Errorf("got %d files, %v, want 3", files, err)
	}
}

// A file that is open stays readable when it is removed.
func TestDirOpenAndRemoved(t *testing.T) {
	d := openDir(t, t.TempDir())
	if err := objectstore.WriteAll(t.Context(), d, "file", []byte("content")); err != nil {
		t.Fatal(err)
	}
	o, err := d.Open(t.Context(), "file")
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if err := d.Remove(t.Context(), "file"); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 7)
	if _, err := o.ReadAt(p, 0); err != nil || string(p) != "content" {
		t.Errorf("got %q, %v", p, err)
	}
}

// An exclusive lock waits for every shared one, in this process and in others, and ends with its context.
func TestDirLocks(t *testing.T) {
	root := t.TempDir()
	one, two := openDir(t, root), openDir(t, root)
	release, err := one.LockShared(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	again, err := two.LockShared(t.Context())
	if err != nil {
		t.Fatalf("two shares: %v", err)
	}
	again()
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := two.LockExclusive(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("alone beside a share: got %v, want that it waits", err)
	}
	got := make(chan error, 1)
	go func() {
		end, err := two.LockExclusive(t.Context())
		if err == nil {
			end()
		}
		got <- err
	}()
	release()
	select {
	case err := <-got:
		if err != nil {
			t.Errorf("alone after the share: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("alone still waits after the share was released")
	}
}

// A directory that cannot be used is an error, not an empty store.
func TestDirErrors(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := objectstore.OpenDir(file); err == nil {
		t.Error("a file was opened as a directory")
	}
	d := openDir(t, root)
	if _, err := d.List(t.Context(), "file", false); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a listing of a file: got %v, want an error", err)
	}
	if err := d.CreateExclusive(t.Context(), "file/below", []byte("x")); err == nil || errors.Is(err, fs.ErrExist) || errors.Is(err, objectstore.ErrUncertain) {
		t.Errorf("a file as a directory: got %v, want an error that says that nothing was written", err)
	}
}

// A symbolic link that leads out of the directory is not followed, whichever part of a name it is.
func TestDirSymbolicLinks(t *testing.T) {
	ctx := t.Context()
	root, outside := t.TempDir(), t.TempDir()
	file := filepath.Join(outside, "file")
	if err := os.WriteFile(file, []byte("outside"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"link": file, "dir": outside} {
		if err := os.Symlink(to, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	d := openDir(t, root)
	for _, name := range []string{"link", "dir/file"} {
		if b, err := d.Read(ctx, name); err == nil {
			t.Errorf("read %s: got %q, want an error", name, b)
		}
		if o, err := d.Open(ctx, name); err == nil {
			t.Errorf("open %s: got a file of %d bytes, want an error", name, o.Size())
		}
	}
	for did, err := range map[string]error{
		"create":           objectstore.WriteAll(ctx, d, "dir/new", []byte("x")),
		"create exclusive": d.CreateExclusive(ctx, "dir/new", []byte("x")),
		"replace":          d.Replace(ctx, "dir/file", []byte("x"), nil),
		"remove":           d.Remove(ctx, "dir/file"),
		"of a sub":         d.Sub("dir").Remove(ctx, "file"),
	} {
		if err == nil {
			t.Errorf("%s: got no error", did)
		}
	}
	left, err := os.ReadDir(outside)
	if b, rerr := os.ReadFile(file); string(b) != "outside" || rerr != nil || err != nil || len(left) != 1 {
		t.Errorf("got %q and %v, %v, want what was there", b, left, errors.Join(err, rerr))
	}
}
