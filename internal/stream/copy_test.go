package stream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/engine"
	"sluice/internal/enginetest"
)

// copiedStream is what Copy made of every partition.
type copiedStream struct {
	about  []engine.PartitionCopy
	frames [][]byte
}

func copyAll(t *testing.T, s *Stream, keep func([]byte) []byte) (c copiedStream) {
	t.Helper()
	for p := range s.Partitions() {
		var out bytes.Buffer
		about, err := s.Copy(t.Context(), uint8(p), &out, keep)
		if err != nil {
			t.Fatal(err)
		}
		c.about, c.frames = append(c.about, about), append(c.frames, out.Bytes())
	}
	return c
}

func (c *copiedStream) restore(t *testing.T, e *engine.Engine, partitions int, step func(string) error) error {
	return Restore(t.Context(), e, RestoreOptions{
		Partitions: partitions, Copies: c.about, Step: step,
		Open: func(p uint8) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(c.frames[p])), nil },
	})
}

// origin is a stream of two partitions with everything that a copy must have, and what is known of it.
type origin struct {
	*Stream
	bounds []Bounds
	plain  map[Position]string // records without a key
	keyed  map[string]Position // by key; the record is the key
	gone   Position            // of a frame that has aged out
}

// newOrigin makes one: frames with many records, keys among them, and a partition that does not begin with 1.
func newOrigin(t *testing.T, e *engine.Engine) *origin {
	t.Helper()
	o := &origin{
		Stream: runStream(t, e, Options{Partitions: 2}), plain: map[Position]string{}, keyed: map[string]Position{},
		gone: Position{Partition: 1, Seq: 5},
	}
	var mu sync.Mutex
	var senders sync.WaitGroup
	for first := range 8 {
		senders.Go(func() {
			for i := first; i < 600; i += 8 {
				text := fmt.Sprint("record ", i)
				var at Position
				var err error
				if i%3 == 0 {
					at, err = o.AppendKeyed(t.Context(), text, []byte(text))
				} else {
					at, err = o.Append(t.Context(), []byte(text))
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if i%3 == 0 {
					o.keyed[text] = at
				} else {
					o.plain[at] = text
				}
				mu.Unlock()
			}
		})
	}
	senders.Wait()
	if err := o.Advance(t.Context(), o.gone.Partition, o.gone.Seq); err != nil {
		t.Fatal(err)
	}
	var err error
	if o.bounds, err = o.Bounds(t.Context()); err != nil {
		t.Fatal(err)
	}
	return o
}

func (o *origin) isGone(at Position) bool {
	return at.Partition == o.gone.Partition && at.Seq <= o.gone.Seq
}

// check compares a restored stream with the origin.
func (o *origin) check(t *testing.T, s *Stream) {
	t.Helper()
	if s.ID() != o.ID() {
		t.Errorf("identity: got %s, want %s", s.ID(), o.ID())
	}
	bounds, err := s.Bounds(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for p, want := range o.bounds {
		if got := bounds[p]; got.First != want.First || got.Last < want.Last || !got.Created.Equal(want.Created) {
			t.Errorf("partition %d: got %+v, want %+v and more", p, got, want)
		}
	}
	for at, want := range o.plain {
		got, err := s.Read(t.Context(), at)
		if gone := o.isGone(at); gone && !errors.Is(err, ErrGone) || !gone && (err != nil || string(got) != want) {
			t.Fatalf("%v: got %q, %v, want %q, gone: %v", at, got, err, want, gone)
		}
	}
	o.checkKeys(t, s)
	for p := range s.Partitions() {
		err := s.Scan(t.Context(), uint8(p), 0, func(f Frame) error {
			if f.Missing > 0 || f.Damaged != nil {
				t.Errorf("partition %d, frame %d: got %d missing, %v", p, f.Seq, f.Missing, f.Damaged)
			}
			return nil
		})
		if err != nil {
			t.Errorf("partition %d: %v", p, err)
		}
	}
}

// checkKeys holds that every key that is not gone is known, and stores nothing a second time. An external engine knows no
// more than when it was restored.
func (o *origin) checkKeys(t *testing.T, s *Stream) {
	t.Helper()
	for text, want := range o.keyed {
		got, at, err := s.ReadKeyed(t.Context(), text)
		restored, ok := errors.AsType[*RestoredError](err)
		switch {
		case o.isGone(want):
			if !errors.Is(err, ErrNotFound) {
				t.Fatalf("key %s of a frame that is gone: got %v, want ErrNotFound", text, err)
			}
			continue
		case s.e.Mode() == engine.External:
			if !ok || time.Since(restored.At) > time.Minute {
				t.Fatalf("key %s: got %v, want the time of the restore", text, err)
			}
		case err != nil || string(got) != text || at != want:
			t.Fatalf("key %s: got %q at %v, %v, want it at %v", text, got, at, err, want)
		}
		if _, err := s.AppendKeyed(t.Context(), text, []byte("another")); !errors.Is(err, ErrExists) {
			t.Fatalf("key %s again: got %v, want ErrExists", text, err)
		}
	}
}

// goOn uses the restored stream.
func (o *origin) goOn(t *testing.T, s *Stream) {
	t.Helper()
	for i := range 6 {
		text := fmt.Sprint("new", i)
		at, err := s.AppendKeyed(t.Context(), text, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if int(at.Partition) < len(o.bounds) && at.Seq <= o.bounds[at.Partition].Last {
			t.Errorf("got the position %v a second time", at)
		}
		if got, found, err := s.ReadKeyed(t.Context(), text); err != nil || found != at || string(got) != text {
			t.Errorf("got %q at %v, %v, want %v", got, found, err, at)
		}
	}
}

// A stream that was copied and restored, from each engine into each, has every record under its position and every key, and
// goes on behind them; also a copy of the copy.
func TestCopyAndRestore(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, b backend) {
		o := newOrigin(t, b.engine)
		c := copyAll(t, o.Stream, nil)
		half := copiedStream{c.about, [][]byte{c.frames[0], c.frames[1][:len(c.frames[1])/2]}}
		if err := half.restore(t, openEngine(t, t.TempDir()), 2, nil); !errors.Is(err, errCopy) {
			t.Errorf("half a copy: got %v, want %v", err, errCopy)
		}
		if err := c.restore(t, openEngine(t, t.TempDir()), 1, nil); !errors.Is(err, engine.ErrPartitions) {
			t.Errorf("fewer partitions: got %v, want %v", err, engine.ErrPartitions)
		}
		onEveryEngine(t, func(t *testing.T, b backend) {
			if err := c.restore(t, b.engine, 3, nil); err != nil {
				t.Fatal(err)
			}
			s := runStream(t, b.engine, Options{})
			o.check(t, s)
			o.goOn(t, s)
			again := copyAll(t, s, nil)
			onEveryEngine(t, func(t *testing.T, b backend) {
				if err := again.restore(t, b.engine, 3, nil); err != nil {
					t.Fatal(err)
				}
				o.check(t, runStream(t, b.engine, Options{}))
			})
		})
	})
}

// A key outlives its frame in an external engine, because it was stored later; and another copy has it, too.
func TestKeyOfARestoredStream(t *testing.T) {
	o := newOrigin(t, openEngine(t, t.TempDir()))
	c := copyAll(t, o.Stream, nil)
	e := openExternal(t, enginetest.Start(t, ""))
	if err := c.restore(t, e, 2, nil); err != nil {
		t.Fatal(err)
	}
	s := runStream(t, e, Options{})
	for p, b := range o.bounds {
		if err := s.Advance(t.Context(), uint8(p), b.Last); err != nil {
			t.Fatal(err)
		}
	}
	o.checkKeys(t, s)
	c = copyAll(t, s, nil)
	onEveryEngine(t, func(t *testing.T, b backend) {
		if err := c.restore(t, b.engine, 2, nil); err != nil {
			t.Fatal(err)
		}
		s := runStream(t, b.engine, Options{})
		for text, was := range o.keyed {
			if o.isGone(was) {
				continue
			}
			if _, _, err := s.ReadKeyed(t.Context(), text); !used(err) || err == nil {
				t.Fatalf("key %s: got %v, want the time of the restore", text, err)
			}
			if _, err := s.AppendKeyed(t.Context(), text, []byte("another")); !errors.Is(err, ErrExists) {
				t.Fatalf("key %s again: got %v, want ErrExists", text, err)
			}
		}
	})
}

// A stream that goes on where it was copied gives its numbers out again in the copy: a cursor of the one is none of the other.
func TestCopyOfAStreamThatGoesOn(t *testing.T) {
	o := newOrigin(t, openEngine(t, t.TempDir()))
	c := copyAll(t, o.Stream, nil)
	for p := range c.about {
		c.about[p].Created = time.Time{}
	}
	e := openEngine(t, t.TempDir())
	if err := c.restore(t, e, 2, nil); err != nil {
		t.Fatal(err)
	}
	s := openStream(t, e, Options{})
	if bounds, err := s.Bounds(t.Context()); err != nil || bounds[0].Created.Equal(o.bounds[0].Created) || s.ID() != o.ID() {
		t.Errorf("got %v, %v, want the same stream, made at another time", bounds, err)
	}
}

// A restore into a cluster outlives the death of the leader: frames that were on their way are stored once, under their
// number.
func TestRestoreOverElection(t *testing.T) {
	o := newOrigin(t, openEngine(t, t.TempDir()))
	c := copyAll(t, o.Stream, nil)
	nodes := enginetest.StartCluster(t, 3)
	e := openCluster(t, engine.Options{URL: nodes.URL(), Token: enginetest.Token, Replicas: 3})
	killed := make(chan struct{})
	calls := 0
	err := c.restore(t, e, 2, func(string) error {
		if calls++; calls != 2 {
			return nil
		}
		st, err := e.Partition(1).State(t.Context())
		for i, n := range nodes {
			if err == nil && st.Leader == fmt.Sprint("n", i) {
				time.AfterFunc(time.Millisecond, func() { n.Kill(); close(killed) }) // while frames are on their way
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	<-killed
	o.check(t, runStream(t, e, Options{}))
}

// What is not kept of records is neither in the copy nor in what is restored.
func TestCopyKeeps(t *testing.T) {
	o := newOrigin(t, openEngine(t, t.TempDir()))
	without := func(text string) func([]byte) []byte {
		return func(record []byte) []byte { return bytes.ReplaceAll(record, []byte(text), nil) }
	}
	c := copyAll(t, o.Stream, without("7"))
	for _, b := range c.frames {
		if bytes.Contains(b, []byte("record 7")) {
			t.Error("the copy has what is not kept")
		}
	}
	e := openEngine(t, t.TempDir())
	err := Restore(t.Context(), e, RestoreOptions{
		Partitions: 2, Copies: c.about, Keep: without("8"),
		Open: func(p uint8) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(c.frames[p])), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	s := runStream(t, e, Options{})
	for text, at := range o.keyed {
		want := strings.NewReplacer("7", "", "8", "").Replace(text)
		if got, _, err := s.ReadKeyed(t.Context(), text); !o.isGone(at) && (err != nil || string(got) != want) {
			t.Errorf("key %s: got %q, %v, want %q", text, got, err, want)
		}
	}
}

// A frame that cannot be read is copied as it is, or as a lost one where records are looked at.
func TestCopyOfDamage(t *testing.T) {
	s := runStream(t, openEngine(t, t.TempDir()), Options{})
	if _, err := s.Append(t.Context(), []byte("first")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.parts.List[0].Publish(t.Context(), []byte("no frame, a secret")); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		keep func([]byte) []byte
		raw  string
	}{"as it is": {nil, "no frame, a secret"}, "looked at": {func(b []byte) []byte { return b }, ""}} {
		t.Run(name, func(t *testing.T) {
			e, out := openEngine(t, t.TempDir()), copyAll(t, s, c.keep)
			if err := out.restore(t, e, 1, nil); err != nil {
				t.Fatal(err)
			}
			again := openStream(t, e, Options{})
			var last Frame
			if err := again.Scan(t.Context(), 0, 1, func(f Frame) error { last = f; return nil }); err != nil {
				t.Fatal(err)
			}
			if last.Seq != out.about[0].Last || !errors.Is(last.Damaged, ErrDamaged) || string(last.Raw) != c.raw {
				t.Errorf("got frame %d, %v, %q, want frame %d, damaged, %q", last.Seq, last.Damaged, last.Raw, out.about[0].Last, c.raw)
			}
		})
	}
}
