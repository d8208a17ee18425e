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

// Files are for their owner alone, and no temporary file is left by any way of writing.
func TestDirFiles(t *testing.T) {
	root := t.TempDir()
	d := openDir(t, root)
	for _, err := range []error{
		d.CreateExclusive("metadata/v1", []byte("x")), d.Replace("metadata/hint", []byte("1")), objectstore.WriteAll(d, "data/day/file", []byte("x")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := d.CreateExclusive("metadata/v1", []byte("y")); !errors.Is(err, fs.ErrExist) {
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
	if err := objectstore.WriteAll(d, "file", []byte("content")); err != nil {
		t.Fatal(err)
	}
	o, err := d.Open("file")
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if err := d.Remove("file"); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 7)
	if _, err := o.ReadAt(p, 0); err != nil || string(p) != "content" {
		t.Errorf("got %q, %v", p, err)
	}
}

// Alone waits for every Share, in this process and in others, and ends with its context.
func TestDirLocks(t *testing.T) {
	root := t.TempDir()
	one, two := openDir(t, root), openDir(t, root)
	release, err := one.Share(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	again, err := two.Share(t.Context())
	if err != nil {
		t.Fatalf("two shares: %v", err)
	}
	again()
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := two.Alone(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("alone beside a share: got %v, want that it waits", err)
	}
	got := make(chan error, 1)
	go func() {
		end, err := two.Alone(t.Context())
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
	if _, err := d.List("file", false); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a listing of a file: got %v, want an error", err)
	}
	if err := d.CreateExclusive("file/below", []byte("x")); err == nil || errors.Is(err, fs.ErrExist) || errors.Is(err, objectstore.ErrUncertain) {
		t.Errorf("a file as a directory: got %v, want an error that says that nothing was written", err)
	}
}
