package stream

import (
	"crypto/sha256"
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
)

func testKey(i uint64) key {
	sum := sha256.Sum256(binary.LittleEndian.AppendUint64(nil, i))
	return key(sum[:24])
}

func TestPositionPack(t *testing.T) {
	for _, at := range []Position{
		{}, {Partition: 63, Seq: 1<<46 - 1, Slot: MaxSlots - 1}, {Partition: 1, Seq: 2, Slot: 3}, {Seq: 1}, {Slot: 1}, {Partition: 32},
	} {
		if got := unpack(at.pack()); got != at {
			t.Errorf("got %v, want %v", got, at)
		}
	}
}

// Every key is found at its place; keys that were never added are found nowhere, but for a few in a million.
func TestKeyTable(t *testing.T) {
	const n = 200_000
	var table keyTable
	place := func(i uint64) Position { return Position{Partition: uint8(i % 3), Seq: 1 + i/2, Slot: uint16(i % 2)} }
	for i := range uint64(n) {
		k := testKey(i)
		table.insert(&k, place(i))
		table.insert(&k, place(i))
	}
	if table.len() != n {
		t.Errorf("got %d keys, want %d", table.len(), n)
	}
	strangers := 0
	for i := range uint64(2 * n) {
		k := testKey(i)
		found := table.find(&k, nil)
		if i < n && !slices.Contains(found, place(i)) {
			t.Fatalf("key %d: found at %v, want %v", i, found, place(i))
		}
		if i >= n {
			strangers += len(found)
		}
	}
	if strangers > 5 {
		t.Errorf("%d of %d unknown keys have a candidate", strangers, n)
	}
	for p := range 3 {
		table.first[p].Store(1 + n/4)
	}
	table.sweep()
	if table.len() != n/2 {
		t.Errorf("after a half has aged out: got %d keys, want %d", table.len(), n/2)
	}
	for i := uint64(n / 2); i < n; i++ {
		k := testKey(i)
		if !slices.Contains(table.find(&k, nil), place(i)) {
			t.Fatalf("key %d has not aged out and is not found", i)
		}
	}
}

// A key takes at most 16 bytes of memory, whatever the number of keys.
func TestKeyTableMemory(t *testing.T) {
	var table keyTable
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	next := uint64(0)
	for _, n := range []uint64{100_000, 250_000, 400_000, 1_000_000} {
		for ; next < n; next++ {
			k := testKey(next)
			table.insert(&k, Position{Seq: next + 1})
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if each := float64(after.HeapAlloc-before.HeapAlloc) / float64(n); each > 16.5 {
			t.Errorf("%d keys: %.1f bytes each, want at most 16", n, each)
		}
	}
	runtime.KeepAlive(&table)
}

// A journal holds what was flushed; what is torn is left out, and a journal of another stream or with a gap is empty.
func TestKeyJournal(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	write := func(stream string, from, to uint64) {
		t.Helper()
		j := keyJournal{dir: dir, stream: stream}
		if _, err := j.load(new(keyTable), 2); err != nil {
			t.Fatal(err)
		}
		for i := from; i < to; i++ {
			k := testKey(i)
			j.add(&k, Position{Partition: 1, Seq: i + 1})
			if i%100 == 99 {
				if err := j.flush([]uint64{7, i + 1}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := j.close([]uint64{7, to}); err != nil {
			t.Fatal(err)
		}
	}
	load := func(stream string) (int, []uint64) {
		t.Helper()
		j, table := keyJournal{dir: dir, stream: stream}, keyTable{}
		ends, err := j.load(&table, 2)
		if err != nil {
			t.Fatal(err)
		}
		return table.len(), ends
	}
	check := func(what string, keys int, end uint64) {
		t.Helper()
		if n, ends := load("a"); n != keys || ends[1] != end {
			t.Errorf("%s: got %d keys up to %v, want %d up to %d", what, n, ends, keys, end)
		}
	}
	write("a", 0, 1000)
	check("one file", 1000, 1000)
	write("a", 1000, 1500)
	check("two files", 1500, 1500)

	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 2 {
		t.Fatalf("got files %v, %v, want 2", files, err)
	}
	info, err := os.Stat(files[1])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(files[1], info.Size()-1); err != nil {
		t.Fatal(err)
	}
	check("a torn block", 1400, 1400)
	write("a", 1400, 1600)
	check("a file behind a torn block", 1600, 1600)
	if err := os.Remove(files[1]); err != nil {
		t.Fatal(err)
	}
	check("a gap", 0, 0)
	write("a", 0, 300)
	check("anew", 300, 300)
	if n, ends := load("b"); n != 0 || ends[1] != 0 {
		t.Errorf("another stream: got %d keys up to %v, want none", n, ends)
	}
}

// Files whose frames have all aged out are deleted; the rest still loads.
func TestKeyJournalExpires(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	for i := range uint64(4) {
		j := keyJournal{dir: dir, stream: "a"}
		if _, err := j.load(new(keyTable), 1); err != nil {
			t.Fatal(err)
		}
		k := testKey(i)
		j.add(&k, Position{Seq: 10 * (i + 1)})
		if err := j.close([]uint64{10 * (i + 1)}); err != nil {
			t.Fatal(err)
		}
	}
	j, table := keyJournal{dir: dir, stream: "a"}, keyTable{}
	if _, err := j.load(&table, 1); err != nil {
		t.Fatal(err)
	}
	if err := j.expire([]uint64{21}); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 2 {
		t.Errorf("got files %v, %v, want the two newest", files, err)
	}
	j, table = keyJournal{dir: dir, stream: "a"}, keyTable{}
	if ends, err := j.load(&table, 1); err != nil || ends[0] != 40 || table.len() != 2 {
		t.Errorf("got %d keys up to %v, %v, want 2 up to 40", table.len(), ends, err)
	}
}

// Bytes of a damaged journal make no panic and no allocation beyond a block.
func FuzzKeyJournal(f *testing.F) {
	dir := f.TempDir()
	j := keyJournal{dir: dir, stream: "a"}
	if _, err := j.load(new(keyTable), 1); err != nil {
		f.Fatal(err)
	}
	k := testKey(1)
	j.add(&k, Position{Seq: 1})
	if err := j.close([]uint64{1}); err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(j.path(1))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Fuzz(func(t *testing.T, data []byte) {
		j := keyJournal{dir: t.TempDir(), stream: "a"}
		if err := os.WriteFile(j.path(1), data, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := j.load(new(keyTable), 1); err != nil {
			t.Fatal(err)
		}
	})
}
