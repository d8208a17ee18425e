package stream

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/engine"
)

// Of many callers with one key, one stores its record; everybody else is told that there is one.
func TestOneKeyManyCallers(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, b backend) {
		s := runStream(t, b.engine, Options{Partitions: 3})
		for i := range 20 {
			name := fmt.Sprint("key ", i)
			var stored, exists atomic.Int64
			var wg sync.WaitGroup
			for c := range 64 {
				wg.Go(func() {
					_, err := s.AppendKeyed(t.Context(), name, fmt.Appendf(nil, "%d/%d", i, c))
					switch {
					case err == nil:
						stored.Add(1)
					case errors.Is(err, ErrExists):
						exists.Add(1)
					default:
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if stored.Load() != 1 || exists.Load() != 63 {
				t.Errorf("%s: stored %d times and rejected %d times, want 1 and 63", name, stored.Load(), exists.Load())
			}
		}
	})
}

// Keys are known after a restart: with the journal, without it, with a part of it, and when the process was killed
// before it wrote any.
func TestKeysOutliveProcess(t *testing.T) {
	dir := t.TempDir()
	e := openEngine(t, dir)
	first := openStream(t, e, Options{Partitions: 2})
	first.Close()
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}

	journal := filepath.Join(dir, "keys")
	next := 0
	for round, damage := range []func() error{
		func() error { return nil },
		func() error { return os.RemoveAll(journal) },
		func() error { return truncateNewest(journal) },
		func() error { return nil },
	} {
		e := openEngine(t, dir)
		s := openStream(t, e, Options{})
		stop := run(t, s)
		for i := range next {
			checkKey(t, s, fmt.Sprint("new ", i), fmt.Sprint("record ", i))
		}
		for ; next < 300*(round+1); next++ {
			if _, err := s.AppendKeyed(t.Context(), fmt.Sprint("new ", next), fmt.Appendf(nil, "record %d", next)); err != nil {
				t.Fatal(err)
			}
		}
		stop()
		s.Close()
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		if err := damage(); err != nil {
			t.Fatal(err)
		}
	}
	e = openEngine(t, dir)
	s := openStream(t, e, Options{})
	found := map[key]bool{}
	for p := range uint8(2) {
		err := s.Scan(t.Context(), p, 0, func(fr Frame) error {
			for _, k := range fr.keys {
				found[k.key] = true
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(found) != next {
		t.Errorf("got %d keys with the frames, want %d", len(found), next)
	}
	if got := len(contents(t, s, 0)) + len(contents(t, s, 1)); got != next {
		t.Errorf("got %d records, want %d", got, next)
	}
}

func checkKey(t *testing.T, s *Stream, name, want string) {
	t.Helper()
	if _, err := s.AppendKeyed(t.Context(), name, []byte("second")); !errors.Is(err, ErrExists) {
		t.Errorf("%s a second time: %v, want ErrExists", name, err)
	}
	rec, at, err := s.ReadKeyed(t.Context(), name)
	if err != nil || string(rec) != want {
		t.Errorf("read %s: %q, %v, want %q", name, rec, err, want)
		return
	}
	if again, err := s.Read(t.Context(), at); err != nil || string(again) != want {
		t.Errorf("read %s at %v: %q, %v", name, at, again, err)
	}
}

func truncateNewest(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*"+journalExt))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no journal: %v", err)
	}
	info, err := os.Stat(files[len(files)-1])
	if err != nil {
		return err
	}
	return os.Truncate(files[len(files)-1], info.Size()*2/3)
}

// While it is not known whether a record is stored, its key is neither free nor found. Then it is one of the two.
func TestUnknownOutcomeIsSettled(t *testing.T) {
	for _, c := range []struct {
		step   string
		stored bool
	}{{"keyed.publish", false}, {"keyed.stored", true}} {
		t.Run(c.step, func(t *testing.T) {
			var armed atomic.Bool
			s := runStream(t, openEngine(t, t.TempDir()), Options{Step: func(name string) error {
				if name == c.step && armed.CompareAndSwap(true, false) {
					return errors.New("stop")
				}
				return nil
			}})
			armed.Store(true)
			if _, err := s.AppendKeyed(t.Context(), "key", []byte("first")); !errors.Is(err, ErrTimeout) {
				t.Fatalf("got %v, want ErrTimeout", err)
			}
			// Until it is known, neither a record is found nor another one stored. Then it is one of the two.
			want := "first"
			for {
				if _, err := s.AppendKeyed(t.Context(), "key", []byte("second")); err == nil {
					want = "second"
					break
				}
				if _, _, err := s.ReadKeyed(t.Context(), "key"); err == nil {
					break
				} else if !errors.Is(err, ErrTimeout) && !errors.Is(err, ErrNotFound) {
					t.Fatalf("read a key whose outcome is not known: %v", err)
				}
			}
			if (want == "first") != c.stored {
				t.Errorf("the first record was stored: %v, and the %s one counts", c.stored, want)
			}
			checkKey(t, s, "key", want)
			n := 0
			for _, rec := range contents(t, s, 0) {
				if rec != "" {
					n++
				}
			}
			if n != 1 {
				t.Errorf("got %d records, want 1", n)
			}
		})
	}
}

// Past the limit no further key is taken; records without a key are, and known keys are found. Nodes of a cluster count
// together.
func TestTooManyKeys(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, b backend) {
		s := runStream(t, b.engine, Options{Partitions: 2, MaxKeys: 3})
		for i := range 3 {
			if _, err := s.AppendKeyed(t.Context(), fmt.Sprint(i), fmt.Append(nil, "record ", i)); err != nil {
				t.Fatal(err)
			}
		}
		nodes := []*Stream{s}
		if b.engine.Mode() == engine.External {
			nodes = append(nodes, runStream(t, b.engine, Options{MaxKeys: 3}))
		}
		for _, s := range nodes {
			if _, err := s.AppendKeyed(t.Context(), "3", []byte("record")); !errors.Is(err, ErrTooManyKeys) {
				t.Errorf("a new key: got %v, want ErrTooManyKeys", err)
			}
			checkKey(t, s, "1", "record 1")
			if _, err := s.Append(t.Context(), []byte("record")); err != nil {
				t.Error(err)
			}
		}
	})
}

// More keys are on the disk than there is space for. The stream starts with the newest, however it learns of them. A key that
// was left out is not taken for a new one, and no new key is taken, until those that were left out have aged out.
func TestMoreKeysThanSpace(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(journal string) error
	}{
		{"journal", func(string) error { return nil }},
		{"no journal", os.RemoveAll},
		{"torn journal", truncateNewest},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			const keys, most = 60, 20
			open := func(o Options) (*Stream, func()) {
				e := openEngine(t, dir)
				s := openStream(t, e, o)
				stop := run(t, s)
				return s, func() {
					stop()
					if err := errors.Join(s.Close(), e.Close()); err != nil {
						t.Fatal(err)
					}
				}
			}
			s, stop := open(Options{})
			for i := range keys {
				if _, err := s.AppendKeyed(t.Context(), fmt.Sprint(i), fmt.Append(nil, "record ", i)); err != nil {
					t.Fatal(err)
				}
			}
			stop()
			if err := c.damage(filepath.Join(dir, "keys")); err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second time with the journal that the first one wrote
				s, stop = open(Options{MaxKeys: most})
				for i := range keys - most {
					if _, err := s.AppendKeyed(t.Context(), fmt.Sprint(i), []byte("second")); !errors.Is(err, ErrTooManyKeys) {
						t.Fatalf("key %d was left out: got %v, want ErrTooManyKeys", i, err)
					}
					if _, _, err := s.ReadKeyed(t.Context(), fmt.Sprint(i)); !errors.Is(err, ErrTooManyKeys) {
						t.Fatalf("key %d was left out: read %v, want ErrTooManyKeys", i, err)
					}
				}
				for i := keys - most; i < keys; i++ {
					checkKey(t, s, fmt.Sprint(i), fmt.Sprint("record ", i))
				}
				if _, err := s.AppendKeyed(t.Context(), "new", []byte("record")); !errors.Is(err, ErrTooManyKeys) {
					t.Errorf("a new key: got %v, want ErrTooManyKeys", err)
				}
				if n := len(contents(t, s, 0)); n != keys {
					t.Errorf("got %d records, want %d", n, keys)
				}
				stop()
			}
			s, stop = open(Options{MaxKeys: most, MaxAge: time.Second})
			defer stop()
			eventually(t, "space for a new key", func() bool {
				st, err := s.writers[0].log.State(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				s.keys.(*keyIndex).table.first[0].Store(st.FirstSeq) // as the watcher does once a minute
				s.keys.(*keyIndex).table.sweep()
				_, err = s.AppendKeyed(t.Context(), "new", []byte("record"))
				return err == nil
			})
		})
	}
}

// Only the keys that were left out must have aged out, and one more for each new one.
func TestSpaceComesBack(t *testing.T) {
	table := keyTable{most: 10}
	for seq := range uint64(15) {
		k := testKey(seq)
		at := Position{Seq: seq + 1}.pack()
		if seq < 5 {
			table.leave(at)
		} else {
			table.load(k[0], k.sum(), at)
		}
	}
	for _, c := range []struct {
		first          uint64
		complete, full bool
	}{{5, false, true}, {6, true, true}, {7, true, false}} { // 1 to 5 were left out
		table.first[0].Store(c.first)
		table.sweep()
		if complete, full := table.complete(), table.full(); complete != c.complete || full != c.full {
			t.Errorf("from %d on: complete %v and full %v, want %v and %v", c.first, complete, full, c.complete, c.full)
		}
	}
}

// Keys of before a restart count: the memory that they take is the same.
func TestKeysOfBeforeARestartCount(t *testing.T) {
	dir := t.TempDir()
	e := openEngine(t, dir)
	s := openStream(t, e, Options{MaxKeys: 3})
	stop := run(t, s)
	for i := range 3 {
		if _, err := s.AppendKeyed(t.Context(), fmt.Sprint(i), []byte("record")); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	if err := errors.Join(s.Close(), e.Close()); err != nil {
		t.Fatal(err)
	}
	s = runStream(t, openEngine(t, dir), Options{MaxKeys: 3})
	if _, err := s.AppendKeyed(t.Context(), "3", []byte("record")); !errors.Is(err, ErrTooManyKeys) {
		t.Errorf("got %v, want ErrTooManyKeys", err)
	}
}

// A process beside the server writes nothing, and does not say what it cannot know.
func TestAttachedProcessWritesNothing(t *testing.T) {
	dir := t.TempDir()
	s := runStream(t, openOptions(t, engine.Options{Dir: dir, Listen: true}), Options{})
	at, err := s.AppendKeyed(t.Context(), "key", []byte("record"))
	if err != nil {
		t.Fatal(err)
	}
	other := openEngine(t, dir)
	if other.Mode() != engine.Attached {
		t.Fatalf("got mode %v, want attached", other.Mode())
	}
	reader := runStream(t, other, Options{})
	if rec, err := reader.Read(t.Context(), at); err != nil || string(rec) != "record" {
		t.Errorf("got %q, %v", rec, err)
	}
	if _, _, err := reader.ReadKeyed(t.Context(), "key"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("read by key: got %v, want ErrUnavailable", err)
	}
	if _, err := reader.AppendKeyed(t.Context(), "other", []byte("record")); !errors.Is(err, ErrUnavailable) {
		t.Errorf("with a key: got %v, want ErrUnavailable", err)
	}
	if _, err := reader.Append(t.Context(), []byte("record")); !errors.Is(err, ErrUnavailable) {
		t.Errorf("without a key: got %v, want ErrUnavailable", err)
	}
}
