// Package objectstoretest is for tests: it holds every Store to what the interface says.
package objectstoretest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
	"testing"

	"sluice/internal/objectstore"
)

// Run runs the tests, each on a store that open makes and that is empty.
func Run(t *testing.T, open func(t *testing.T) objectstore.Store) {
	for name, test := range map[string]func(*testing.T, objectstore.Store){
		"create": testCreate, "exclusive": testExclusive, "replace": testReplace, "ranges": testRanges,
		"sizes": testSizes, "list": testList, "remove": testRemove, "sub": testSub, "names": testNames,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

// testCreate holds that an object is there when it is closed, and not before.
func testCreate(t *testing.T, s objectstore.Store) {
	missing(t, s, "a/b/object")
	w, err := s.Create(t.Context(), "a/b/object")
	must(t, err)
	_, err = w.Write([]byte("one "))
	must(t, err)
	_, err = w.Write([]byte("two"))
	must(t, err)
	must(t, w.Close())
	holds(t, s, "a/b/object", "one two")

	w, err = s.Create(t.Context(), "a/b/given-up")
	must(t, err)
	_, err = w.Write([]byte("half"))
	must(t, err)
	w.Abort()
	missing(t, s, "a/b/given-up")
	must(t, objectstore.WriteAll(t.Context(), s, "a/b/given-up", []byte("again")))
	holds(t, s, "a/b/given-up", "again")
}

// testExclusive holds that of all who write a name one has it, and that nobody changes it after that.
func testExclusive(t *testing.T, s objectstore.Store) {
	must(t, s.CreateExclusive(t.Context(), "v1", []byte("first")))
	if err := s.CreateExclusive(t.Context(), "v1", []byte("second")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a name that is taken: got %v, want fs.ErrExist", err)
	}
	holds(t, s, "v1", "first")
	must(t, objectstore.WriteAll(t.Context(), s, "v2", []byte("created")))
	if err := s.CreateExclusive(t.Context(), "v2", []byte("second")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a name that Create took: got %v, want fs.ErrExist", err)
	}

	const writers = 8
	results := make([]error, writers)
	var group sync.WaitGroup
	for i := range writers {
		group.Go(func() { results[i] = s.CreateExclusive(t.Context(), "meta/v3", fmt.Append(nil, "writer ", i)) })
	}
	group.Wait()
	won := -1
	for i, err := range results {
		switch {
		case err == nil && won < 0:
			won = i
		case err == nil:
			t.Errorf("writers %d and %d both have the name", won, i)
		case !errors.Is(err, fs.ErrExist):
			t.Errorf("writer %d: got %v, want fs.ErrExist", i, err)
		}
	}
	if won < 0 {
		t.Fatal("no writer has the name")
	}
	holds(t, s, "meta/v3", fmt.Sprint("writer ", won))
}

func testReplace(t *testing.T, s objectstore.Store) {
	must(t, s.CreateExclusive(t.Context(), "hint", []byte("a longer text")))
	for _, text := range []string{"1", "", "2"} {
		must(t, s.Replace(t.Context(), "hint", []byte(text), nil))
		holds(t, s, "hint", text)
	}
	must(t, s.Replace(t.Context(), "new", []byte("x"), nil))
	holds(t, s, "new", "x")
	for _, keep := range []bool{true, false} {
		looked := ""
		must(t, s.Replace(t.Context(), "new", []byte("y"), func(there []byte) bool { looked = string(there); return keep }))
		if looked != "x" {
			t.Errorf("got %q to look at, want x", looked)
		}
		holds(t, s, "new", map[bool]string{true: "x", false: "y"}[keep])
	}
	must(t, s.Replace(t.Context(), "newer", []byte("z"), func([]byte) bool {
		t.Error("there is nothing to keep")
		return true
	}))
	holds(t, s, "newer", "z")
}

// testRanges holds what ReadAt answers inside, across and behind the end of an object.
func testRanges(t *testing.T, s objectstore.Store) {
	content := sample(700 << 10)
	must(t, objectstore.WriteAll(t.Context(), s, "object", content))
	o, err := s.Open(t.Context(), "object")
	must(t, err)
	defer o.Close()
	if o.Size() != int64(len(content)) {
		t.Fatalf("got %d bytes, want %d", o.Size(), len(content))
	}
	size := o.Size()
	for _, c := range []struct {
		at, n int64
		end   bool // the range passes the end
	}{
		{0, 10, false},
		{0, size, false},
		{256<<10 - 5, 10, false},
		{123_456, 300 << 10, false},
		{size - 10, 10, false},
		{size - 10, 11, true},
		{size, 1, true},
		{size + 100, 1, true},
		{0, size + 1, true},
		{5, 0, false},
	} {
		p := make([]byte, c.n)
		n, err := o.ReadAt(p, c.at)
		from := min(c.at, size)
		if want := content[from:min(from+c.n, size)]; !bytes.Equal(p[:n], want) {
			t.Errorf("%d bytes at %d: got %d, other or fewer than %d", c.n, c.at, n, len(want))
		}
		if c.end && err != io.EOF || !c.end && err != nil && err != io.EOF || !c.end && int64(n) < c.n {
			t.Errorf("%d bytes at %d: got %d bytes and %v", c.n, c.at, n, err)
		}
	}
	for n, want := range map[int][]byte{33: content[size-33:], len(content): content} {
		if got, err := s.ReadEnd(t.Context(), "object", n); err != nil || !bytes.Equal(got, want) {
			t.Errorf("the last %d bytes: got %d, %v, want the last %d", n, len(got), err, len(want))
		}
	}
	must(t, s.Replace(t.Context(), "object", []byte("another"), nil))
	if got, err := s.ReadEnd(t.Context(), "object", 5); err != nil || string(got) != "other" {
		t.Errorf("the end of an object that was replaced: got %q, %v", got, err)
	}
	if _, err := s.ReadEnd(t.Context(), "nothing", 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the end of no object: got %v, want fs.ErrNotExist", err)
	}
	if _, err := s.Open(t.Context(), "nothing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no object: got %v, want fs.ErrNotExist", err)
	}
}

// testSizes holds that objects of all sizes come back as they were written, also those that a bucket gets in parts.
func testSizes(t *testing.T, s objectstore.Store) {
	for _, n := range []int{0, 1, 256 << 10, 256<<10 + 1, 16 << 20, 16<<20 + 1, 33 << 20} {
		content := sample(n)
		w, err := s.Create(t.Context(), "object")
		must(t, err)
		for piece := range slices.Chunk(content, 1<<20) {
			_, err := w.Write(piece)
			must(t, err)
		}
		must(t, w.Close())
		got, err := s.Read(t.Context(), "object")
		if err != nil || !bytes.Equal(got, content) {
			t.Errorf("%d bytes: got %d, %v, or others", n, len(got), err)
		}
		must(t, s.Remove(t.Context(), "object"))
	}
}

func testList(t *testing.T, s objectstore.Store) {
	for name, size := range map[string]int{
		"data/day=1/a": 3, "data/day=1/b": 0, "data/day=2/c": 5, "data/top": 7,
		"data2/other": 1,
	} {
		must(t, objectstore.WriteAll(t.Context(), s, name, make([]byte, size)))
	}
	for _, c := range []struct {
		dir  string
		deep bool
		want string
	}{
		{"data", false, "[data/day=1/ data/day=2/ data/top:7]"},
		{"data", true, "[data/day=1/a:3 data/day=1/b:0 data/day=2/c:5 data/top:7]"},
		{"data/day=1", false, "[data/day=1/a:3 data/day=1/b:0]"},
		{"nothing", false, "[]"},
		{"nothing", true, "[]"},
	} {
		entries, err := s.List(t.Context(), c.dir, c.deep)
		must(t, err)
		names := []string{}
		for _, e := range entries {
			if e.Dir {
				names = append(names, e.Name+"/")
				continue
			}
			if e.Modified.IsZero() {
				t.Errorf("%s: no time", e.Name)
			}
			names = append(names, fmt.Sprint(e.Name, ":", e.Size))
		}
		slices.Sort(names)
		if got := fmt.Sprint(names); got != c.want {
			t.Errorf("%s, deep %v: got %s, want %s", c.dir, c.deep, got, c.want)
		}
	}
}

func testRemove(t *testing.T, s objectstore.Store) {
	must(t, objectstore.WriteAll(t.Context(), s, "a/object", []byte("x")))
	must(t, objectstore.WriteAll(t.Context(), s, "a/other", []byte("y")))
	for range 2 { // the second time it is removed already
		must(t, s.Remove(t.Context(), "a/object"))
		missing(t, s, "a/object")
	}
	must(t, s.Sync(t.Context()))
	holds(t, s, "a/other", "y")
	must(t, s.CreateExclusive(t.Context(), "a/object", []byte("again")))
	holds(t, s, "a/object", "again")
}

func testSub(t *testing.T, s objectstore.Store) {
	sub := s.Sub("tables")
	must(t, sub.CreateExclusive(t.Context(), "events/v1", []byte("x")))
	holds(t, s, "tables/events/v1", "x")
	holds(t, s.Sub("tables").Sub("events"), "v1", "x")
	if got, want := sub.Location("events/v1"), s.Location("tables/events/v1"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := sub.Location(""), s.Location("")+"/tables"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// testNames holds that no name leads out of a place.
func testNames(t *testing.T, s objectstore.Store) {
	ctx := t.Context()
	must(t, objectstore.WriteAll(ctx, s, "other/object", []byte("x")))
	place := s.Sub("place")
	must(t, objectstore.WriteAll(ctx, place, "a/object", []byte("y")))
	for _, name := range []string{
		"../other/object", "a/../../other/object", "/other/object", "a/../a/object", "a//object",
		"./a/object", "..",
	} {
		_, openErr := place.Open(ctx, name)
		_, readErr := place.Read(ctx, name)
		_, existsErr := place.Exists(ctx, name)
		_, listErr := place.List(ctx, name, true)
		w, createErr := place.Create(ctx, name+"/new")
		if createErr == nil {
			createErr = w.Close()
		}
		for did, err := range map[string]error{
			"open": openErr, "read": readErr, "exists": existsErr, "list": listErr, "create": createErr,
			"create exclusive": place.CreateExclusive(ctx, name+"/new", []byte("z")),
			"replace":          place.Replace(ctx, name, []byte("z"), nil),
			"remove":           place.Remove(ctx, name),
		} {
			if err == nil || errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s %s: got %v, want an error that says that the name is wrong", did, name, err)
			}
		}
	}
	holds(t, s, "other/object", "x")
	holds(t, place, "a/object", "y")
	if all, err := s.List(ctx, "", true); err != nil || len(all) != 2 {
		t.Errorf("got %v, %v, want the two objects", all, err)
	}
}

// holds wants an object with this text.
func holds(t *testing.T, s objectstore.Store, name, want string) {
	t.Helper()
	got, err := s.Read(t.Context(), name)
	if err != nil || string(got) != want {
		t.Errorf("%s: got %q, %v, want %q", name, got, err, want)
	}
	if there, err := s.Exists(t.Context(), name); err != nil || !there {
		t.Errorf("%s: exists %v, %v, want true", name, there, err)
	}
}

// missing wants no object by that name.
func missing(t *testing.T, s objectstore.Store, name string) {
	t.Helper()
	if _, err := s.Read(t.Context(), name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: got %v, want fs.ErrNotExist", name, err)
	}
	if there, err := s.Exists(t.Context(), name); err != nil || there {
		t.Errorf("%s: exists %v, %v, want false", name, there, err)
	}
}

// sample is n bytes that differ from block to block.
func sample(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>11)
	}
	return b
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
