package stream

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// store is a stopped stream's files.
type store struct {
	blocks []string // oldest first
	index  string
}

func findStore(t *testing.T, dir string) store {
	t.Helper()
	msgs := filepath.Join(dir, "engine", "jetstream", "$G", "streams", "SLUICE_0", "msgs")
	blocks, err := filepath.Glob(filepath.Join(msgs, "*.blk"))
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(blocks, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	})
	return store{blocks, filepath.Join(msgs, "index.db")}
}

func (s store) last() string { return s.blocks[len(s.blocks)-1] }

// flip turns one bit in the middle of a file.
func flip(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	data[len(data)/2] ^= 0x10
	return os.WriteFile(path, data, 0o600)
}

func cut(path string, keep int64) error { return os.Truncate(path, keep) }

// TestDamage hurts the files of a stopped stream. Whatever is hurt: the stream opens, what survives is what was stored,
// every frame that does not is reported, and new records get numbers that no reader has passed.
func TestDamage(t *testing.T) {
	const frames = 100 // about thirty to a block
	for _, c := range []struct {
		name    string
		hurt    func(s store) error
		survive int // at least
		whole   bool
	}{
		{"nothing", func(s store) error { return nil }, frames, true},
		{"no index", func(s store) error { return os.Remove(s.index) }, frames, true},
		{"bit in the index", func(s store) error { return flip(s.index) }, frames, true},
		{"index cut", func(s store) error { return cut(s.index, 10) }, frames, true},
		{"bit in the first block", func(s store) error { return flip(s.blocks[0]) }, 80, false},
		{"bit in a middle block", func(s store) error { return flip(s.blocks[1]) }, 80, false},
		{"bit in the last block", func(s store) error { return flip(s.last()) }, 90, false},
		{"bit in the last block, no index", func(s store) error { return errors.Join(os.Remove(s.index), flip(s.last())) }, 90, false},
		{"first block cut", func(s store) error { return cut(s.blocks[0], 10_000) }, 75, false},
		{"last block cut", func(s store) error { return cut(s.last(), 2_000) }, 85, false},
		{"last block empty", func(s store) error { return cut(s.last(), 0) }, 85, false},
		{"last block gone", func(s store) error { return os.Remove(s.last()) }, 85, false},
		{"first block gone", func(s store) error { return os.Remove(s.blocks[0]) }, 65, false},
		{"middle block gone", func(s store) error { return os.Remove(s.blocks[1]) }, 65, false},
		{"all blocks gone", func(s store) error {
			return errors.Join(os.Remove(s.blocks[0]), os.Remove(s.blocks[1]), os.Remove(s.blocks[2]), os.Remove(s.last()))
		}, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			stored := fillStore(t, dir, frames)
			files := findStore(t, dir)
			if len(files.blocks) != 4 {
				t.Fatalf("%d blocks, want 4", len(files.blocks))
			}
			if err := c.hurt(files); err != nil {
				t.Fatal(err)
			}
			s := runStream(t, openEngine(t, dir), Options{MaxBytes: damageBytes})
			fresh, err := s.Append(t.Context(), []byte("fresh"))
			if err != nil {
				t.Fatal(err)
			}
			for at := range stored {
				if fresh.Seq <= at.Seq {
					t.Fatalf("new record got number %d, %d was given out before", fresh.Seq, at.Seq)
				}
			}
			survived, reported := survivors(t, s, stored, fresh)
			if survived < c.survive {
				t.Errorf("%d frames survived, want %d", survived, c.survive)
			}
			if c.whole && reported != 0 {
				t.Errorf("%d frames reported lost, want none", reported)
			}
			// The first and the last number may belong to probes, which hold no record.
			if survived+reported < frames {
				t.Errorf("%d survived and %d reported lost of %d: some went silently", survived, reported, frames)
			}
		})
	}
}

const damageBytes = 120_000 // the engine then makes blocks of 32 KB

// fillStore makes a stream with so many frames and stops it.
func fillStore(t *testing.T, dir string, frames int) map[Position]string {
	t.Helper()
	e := openEngine(t, dir)
	s := openStream(t, e, Options{MaxBytes: damageBytes})
	stop := run(t, s)
	stored := map[Position]string{}
	for i := range frames {
		rec := fmt.Sprintf("%1000d", i)
		at, err := s.Append(t.Context(), []byte(rec))
		if err != nil {
			t.Fatal(err)
		}
		stored[at] = rec
	}
	stop()
	s.Close()
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	return stored
}

// survivors scans and counts the frames that are as they were, and those that the scan tells are not there.
func survivors(t *testing.T, s *Stream, stored map[Position]string, fresh Position) (survived, reported int) {
	t.Helper()
	sawFresh := false
	if err := s.Scan(t.Context(), 0, 1, func(f Frame) error {
		reported += int(f.Missing)
		if f.Damaged != nil {
			reported++
		}
		for i, r := range f.Records {
			at := Position{Seq: f.Seq, Slot: uint16(i)}
			if at == fresh {
				sawFresh = true
				continue
			}
			if stored[at] != string(r) {
				t.Errorf("at %v is a record that was not stored there", at)
			}
			survived++
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if !sawFresh {
		t.Error("the scan did not reach the new record")
	}
	return survived, reported
}

// TestResume is for frames that only the reader can tell of: it has stored more than was noted. They are not lost.
func TestResume(t *testing.T) {
	e := openEngine(t, t.TempDir())
	s := openStream(t, e, Options{})
	s.Resume(0, 50)
	t.Cleanup(run(t, s))
	at, err := s.Append(t.Context(), []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	if at.Seq <= 50 {
		t.Errorf("record got number %d, its reader is at 50", at.Seq)
	}
	if st := s.Stats(); st.Lost != 0 {
		t.Errorf("%d lost, want none", st.Lost)
	}
	damaged := 0
	if err := s.Scan(t.Context(), 0, 1, func(f Frame) error {
		if errors.Is(f.Damaged, ErrDamaged) && f.Raw == nil {
			damaged++
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if damaged != 50 {
		t.Errorf("the scan tells of %d lost frames, want 50", damaged)
	}
	if _, err := s.Read(t.Context(), Position{Seq: 7}); !errors.Is(err, ErrDamaged) {
		t.Errorf("Read of a lost frame: %v, want ErrDamaged", err)
	}
}

// A large loss costs a write for each thousand of the lost numbers, not for each one.
func TestLostNumbersShareWrites(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, b backend) {
		const lost = 2500
		var writes atomic.Int64
		s := openStream(t, b.engine, Options{Step: func(name string) error {
			if name == "probe.publish" || name == "lost.publish" {
				writes.Add(1)
			}
			return nil
		}})
		const stored = 300
		s.Resume(0, stored)
		s.writers[0].raise(lost) // as it was noted
		t.Cleanup(run(t, s))
		at, err := s.Append(t.Context(), []byte("x"))
		if err != nil || at.Seq <= lost {
			t.Fatalf("got %v, %v, want a number above %d", at, err, lost)
		}
		if st := s.Stats(); st.Lost != lost-stored {
			t.Errorf("%d lost, want %d", st.Lost, lost-stored)
		}
		if n := writes.Load(); n > 10 {
			t.Errorf("got %d writes, want one for each thousand lost numbers, and a few", n)
		}
		told := 0
		if err := s.Scan(t.Context(), 0, 1, func(f Frame) error {
			if f.Damaged != nil {
				told++
			}
			return nil
		}); err != nil || told != lost {
			t.Errorf("the scan tells of %d lost frames, %v, want %d", told, err, lost)
		}
	})
}

// TestForeignBytes puts messages into the stream that are no frames; what follows them is still read.
func TestForeignBytes(t *testing.T) {
	e := openEngine(t, t.TempDir())
	s := runStream(t, e, Options{})
	if _, err := s.Append(t.Context(), []byte("before")); err != nil {
		t.Fatal(err)
	}
	bad := AppendFrame(nil, []byte("was whole"))
	bad[len(bad)-1] ^= 1
	for _, data := range [][]byte{bad, []byte("something else"), {}} {
		if _, err := s.writers[0].log.Publish(t.Context(), data); err != nil {
			t.Fatal(err)
		}
	}
	last, err := s.Append(t.Context(), []byte("after"))
	if err != nil {
		t.Fatal(err)
	}
	var records []string
	var raw [][]byte
	if err := s.Scan(t.Context(), 0, 1, func(f Frame) error {
		if f.Damaged != nil {
			if !errors.Is(f.Damaged, ErrDamaged) {
				t.Errorf("damage %v does not say so", f.Damaged)
			}
			raw = append(raw, f.Raw)
		}
		for _, r := range f.Records {
			records = append(records, string(r))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(records, []string{"before", "after"}) || len(raw) != 3 || string(raw[0]) != string(bad) {
		t.Errorf("records %q and %d damaged frames, want two and three, the bytes kept", records, len(raw))
	}
	if _, err := s.Read(t.Context(), Position{Seq: last.Seq - 1}); !errors.Is(err, ErrDamaged) {
		t.Errorf("Read of foreign bytes: %v, want ErrDamaged", err)
	}
}
