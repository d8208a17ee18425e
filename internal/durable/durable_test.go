package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state.json")
	for _, want := range []string{"first", "second one", ""} {
		if err := WriteFile(path, []byte(want)); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v, want a file for the owner alone", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.tmp")); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
	if err := WriteFile(filepath.Join(dir, "missing", "x"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want a missing directory", err)
	}
	// What cannot be replaced stays, and nothing else is left.
	if err := os.Mkdir(filepath.Join(dir, "taken"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(filepath.Join(dir, "taken"), []byte("x")); err == nil {
		t.Error("a directory was replaced by a file")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.tmp")); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
}

// Replace makes no file but the one asked for in a directory that another program reads.
func TestReplace(t *testing.T) {
	tmp := t.TempDir()
	dir := filepath.Join(tmp, "read-by-others")
	path := filepath.Join(dir, "1.blk")
	if err := os.MkdirAll(path, 0o700); err != nil { // a directory at path: the rename fails
		t.Fatal(err)
	}
	if err := Replace(tmp, path, []byte("x")); err == nil {
		t.Error("a directory was replaced by a file")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := Replace(tmp, path, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "x" {
		t.Errorf("got %q, %v", got, err)
	}
	for _, d := range []string{tmp, dir} {
		if left, err := os.ReadDir(d); err != nil || len(left) != 1 {
			t.Errorf("%s: got %v, %v, want one entry", d, left, err)
		}
	}
	if err := Replace(filepath.Join(tmp, "missing"), path, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want a missing directory", err)
	}
}

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	a, b, c := open(), open(), open()
	if err := errors.Join(TryLock(a, Shared), TryLock(b, Shared)); err != nil {
		t.Errorf("two readers: got %v", err)
	}
	if err := TryLock(c, Exclusive); !errors.Is(err, ErrLocked) {
		t.Errorf("a writer beside readers: got %v, want ErrLocked", err)
	}
	a.Close()
	if err := TryLock(c, Exclusive); !errors.Is(err, ErrLocked) {
		t.Errorf("a writer beside one reader: got %v, want ErrLocked", err)
	}
	b.Close()
	if err := TryLock(c, Exclusive); err != nil {
		t.Errorf("after the readers: got %v", err)
	}
}

func TestSpace(t *testing.T) {
	d, err := Space(t.TempDir())
	if err != nil || d.Free <= 0 || d.Size < d.Free || d.Files < -1 {
		t.Errorf("got %+v, %v", d, err)
	}
	if _, err := Space(filepath.Join(t.TempDir(), "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want a missing directory", err)
	}
}
