//go:build faults

package faults

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// Twenty million idempotency keys that are known from before fit into 256 MiB: the oldest are left out. Then a new key, and the
// replay of one that was left out, get 429 and store nothing; events without a key are accepted.
func TestTwentyMillionKeys(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir, launch{})
	l := newLedger("shop", provisioned(t, dir, "shop"))
	body := l.Event("keyed", 0)
	if a, err := s.post(l.Key, "/v1/events", body, "Idempotency-Key", "first"); err != nil || a.Status != http.StatusOK {
		t.Fatalf("got %d %s, %v", a.Status, a.Body, err)
	}
	s.Stop(syscall.SIGTERM)
	const keys = 19_600_000
	addKeys(t, dir, keys)
	begun := time.Now()
	s = start(t, dir, launch{group: controlGroup(t, 256<<20), within: time.Minute})
	t.Logf("ready after %v with %d MiB at most", time.Since(begun).Round(10*time.Millisecond), s.memory(t)>>20)
	for name, c := range map[string]struct {
		key  string
		want int
	}{"replay": {"first", http.StatusTooManyRequests}, "new": {"second", http.StatusTooManyRequests}, "keyless": {"", http.StatusOK}} {
		event := body
		if name != "replay" {
			event = l.Event(name, 0)
		}
		var header []string
		if c.key != "" {
			header = []string{"Idempotency-Key", c.key}
		}
		a, err := s.post(l.Key, "/v1/events", event, header...)
		if err != nil || a.Status != c.want {
			t.Errorf("%s: got %d %s, %v, want %d", name, a.Status, a.Body, err, c.want)
		}
	}
	if most := s.memory(t); most > 256<<20 {
		t.Errorf("%d MiB of memory, want 256 at most", most>>20)
	}
	l.Settle(t, s, time.Minute) // with an event of its own
	s.Stop(syscall.SIGTERM)
	query(t, dir, "events", "select 'rows', count(*) from t", func(_ string, n int64) {
		if n != 3 {
			t.Errorf("%d rows, want the first event and the two without a key", n)
		}
	})
}

// addKeys adds keys to the journal of a directory, as docs/format.md has it: as if they had come with its newest frame.
func addKeys(t *testing.T, dir string, n int) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*", "*.keys"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no journal of keys in %s, %v", dir, err)
	}
	slices.Sort(found)
	b, err := os.ReadFile(found[len(found)-1])
	if err != nil {
		t.Fatal(err)
	}
	blocks := [][]byte{}
	for len(b) >= 8 {
		size := binary.LittleEndian.Uint32(b)
		blocks = append(blocks, b[8:8+size])
		b = b[8+size:]
	}
	last := blocks[len(blocks)-1]
	head := 1 // how many partitions, and the end of each
	for range last[0] {
		_, w := binary.Uvarint(last[head:])
		head += w
	}
	var place []byte
	for _, block := range blocks[1:] {
		if len(block) >= head+13 {
			place = block[len(block)-8:]
		}
	}
	if place == nil {
		t.Fatal("the journal has no key")
	}
	var number int
	if _, err := fmt.Sscanf(filepath.Base(found[len(found)-1]), "%d", &number); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(filepath.Dir(found[0]), fmt.Sprintf("%012d.keys", number+1)))
	if err != nil {
		t.Fatal(err)
	}
	write := func(rest []byte) {
		body := append(bytes.Clone(last[:head]), rest...)
		out := binary.LittleEndian.AppendUint32(nil, uint32(len(body)))
		out = binary.LittleEndian.AppendUint32(out, crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
		if _, err := f.Write(append(out, body...)); err != nil {
			t.Fatal(err)
		}
	}
	first := blocks[0]
	name := 1
	for range first[0] {
		_, w := binary.Uvarint(first[name:])
		name += w
	}
	write(first[name:])
	r := rand.New(rand.NewPCG(1, 2))
	for n > 0 {
		some := min(n, 100_000)
		var entries []byte
		for range some {
			entries = append(entries, byte(r.Uint32()))
			entries = binary.LittleEndian.AppendUint32(entries, r.Uint32())
			entries = append(entries, place...)
		}
		write(entries)
		n -= some
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
