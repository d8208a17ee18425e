package stream

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"testing"
	"time"

	"sluice/internal/engine"
	"sluice/internal/enginetest"
)

// origin is an embedded stream with everything that a move must carry, and what is known of it.
type origin struct {
	engine *engine.Engine
	id     string
	made   time.Time
	bounds []Bounds
	plain  map[Position]string // records without a key
	keyed  map[string]Position // by key; the record is the key
	lost   Position            // a frame that the engine has lost
	gone   Position            // one that has aged out
}

func (o *origin) limits(count int) engine.PartitionOptions {
	return engine.PartitionOptions{Count: count, MaxAge: time.Hour, Origin: &engine.Origin{ID: o.id, Created: o.made}}
}

// newOrigin makes one of two partitions: frames with many records, keys in frames, a key in the form of earlier versions, a
// gap, and a partition that does not begin with 1.
func newOrigin(t *testing.T) *origin {
	t.Helper()
	dir := t.TempDir()
	o := &origin{plain: map[Position]string{}, keyed: map[string]Position{}}
	o.engine = openOptions(t, engine.Options{Dir: dir, Listen: true})
	s := openStream(t, o.engine, Options{Partitions: 2})
	stop := run(t, s)
	for i := range 600 {
		if text := fmt.Sprint("key", i); i%3 == 0 {
			at, err := s.AppendKeyed(t.Context(), text, []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			o.keyed[text] = at
			continue
		}
		text := fmt.Sprint("record", i)
		at, err := s.Append(t.Context(), []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		o.plain[at] = text
	}
	stop()
	old, home := s.keyName("old")
	seq, err := home.log.PublishNew(t.Context(), base64.RawURLEncoding.EncodeToString(old[:]), AppendFrame(nil, []byte("old")))
	if err != nil {
		t.Fatal(err)
	}
	o.keyed["old"] = Position{Partition: home.part, Seq: seq}
	o.spoil(t, dir, s)
	if o.bounds, err = s.Bounds(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.id, o.made = s.ID(), o.bounds[0].Created
	return o
}

// spoil loses a frame in the middle of partition 0, and lets the oldest of partition 1 age out.
func (o *origin) spoil(t *testing.T, dir string, s *Stream) {
	t.Helper()
	o.lost, o.gone = Position{Seq: 40}, Position{Partition: 1, Seq: 10}
	js, err := enginetest.Attach(t, dir).Stream(t.Context(), "SLUICE_0")
	if err == nil {
		err = js.DeleteMsg(t.Context(), o.lost.Seq)
	}
	if err == nil {
		err = s.Advance(t.Context(), 1, o.gone.Seq)
	}
	if err != nil {
		t.Fatal(err)
	}
	isGone := func(at Position) bool {
		return at.Partition == 0 && at.Seq == o.lost.Seq || at.Partition == 1 && at.Seq <= o.gone.Seq
	}
	for at := range o.plain {
		if isGone(at) {
			delete(o.plain, at)
		}
	}
	for text, at := range o.keyed {
		if isGone(at) {
			delete(o.keyed, text)
		}
	}
}

// check compares the stream of the external engine with the origin.
func (o *origin) check(t *testing.T, s *Stream) {
	t.Helper()
	if s.ID() != o.id {
		t.Errorf("identity: got %s, want %s", s.ID(), o.id)
	}
	bounds, err := s.Bounds(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for p, want := range o.bounds {
		if got := bounds[p]; got.First != want.First || got.Last < want.Last || p == 0 && !got.Created.Equal(want.Created) {
			t.Errorf("partition %d: got %+v, want %+v and more", p, got, want)
		}
	}
	for at, want := range o.plain {
		if got, err := s.Read(t.Context(), at); err != nil || string(got) != want {
			t.Fatalf("%v: got %q, %v, want %q", at, got, err, want)
		}
	}
	for text, want := range o.keyed {
		got, at, err := s.ReadKeyed(t.Context(), text)
		if err != nil || string(got) != text || at != want {
			t.Fatalf("key %s: got %q at %v, %v, want %v", text, got, at, err, want)
		}
	}
	if _, err := s.Read(t.Context(), o.lost); !errors.Is(err, ErrDamaged) {
		t.Errorf("a frame that was lost before: got %v, want ErrDamaged", err)
	}
	if _, err := s.Read(t.Context(), o.gone); !errors.Is(err, ErrGone) {
		t.Errorf("a frame that had aged out: got %v, want ErrGone", err)
	}
	for p := range s.Partitions() {
		seen := 0
		err := s.Scan(t.Context(), uint8(p), 0, func(f Frame) error {
			seen += len(f.Records)
			if f.Missing > 0 || f.Damaged != nil && (p != 0 || f.Seq != o.lost.Seq) {
				t.Errorf("partition %d, frame %d: got %d missing, %v", p, f.Seq, f.Missing, f.Damaged)
			}
			return nil
		})
		if err != nil || p < 2 && seen == 0 {
			t.Errorf("partition %d: got %d records, %v", p, seen, err)
		}
	}
}

// A moved stream has every record under its position and every key, and goes on behind them. A move that is interrupted at
// any write, again and again, ends the same.
func TestMove(t *testing.T) {
	o := newOrigin(t)
	for name, interrupt := range map[string]bool{"at once": false, "interrupted": true} {
		t.Run(name, func(t *testing.T) {
			srv := enginetest.Start(t, "")
			to := openOptions(t, engine.Options{URL: srv.URL(), Token: enginetest.Token, Join: true})
			interrupted := errors.New("interrupted")
			move := func(at int) (frames, keys uint64, err error) { // it ends at the write with this number
				calls := 0
				m, err := OpenMove(t.Context(), MoveOptions{From: o.engine, To: to, Limits: o.limits(3), Step: func(string) error {
					if calls++; calls == at {
						return interrupted
					}
					return nil
				}})
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				if frames, err = m.Frames(t.Context()); err == nil {
					keys, err = m.Keys(t.Context())
				}
				return frames, keys, err
			}
			runs := 1
			var frames, keys uint64
			err := interrupted
			if !interrupt {
				frames, keys, err = move(0)
			}
			for ; interrupt && errors.Is(err, interrupted); runs++ {
				frames, keys, err = move(runs)
			}
			if interrupt && runs < 4 {
				t.Fatalf("got %d runs, want more: nothing was interrupted", runs)
			}
			want := o.bounds[0].Last - 1 + o.bounds[1].Last - o.gone.Seq
			if err != nil || frames != want || keys != uint64(len(o.keyed)) {
				t.Fatalf("got %d frames, %d keys, %v, want %d, %d", frames, keys, err, want, len(o.keyed))
			}
			s := runStream(t, openExternal(t, srv), Options{})
			o.check(t, s)
			o.checkCopy(t, to)
			o.goOn(t, s)
		})
	}
}

// checkCopy makes an embedded stream of the moved one, as a restored backup is: it has every record and key. A cursor of
// the feed does not belong to it, because it gives numbers out again.
func (o *origin) checkCopy(t *testing.T, from *engine.Engine) {
	t.Helper()
	e := openEngine(t, t.TempDir())
	for p := range uint8(3) {
		var b bytes.Buffer
		made, err := from.CopyPartition(t.Context(), p, &b)
		if err == nil {
			err = e.RestorePartition(t.Context(), p, made, &b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s := runStream(t, e, Options{})
	for text, want := range o.keyed {
		if got, at, err := s.ReadKeyed(t.Context(), text); err != nil || string(got) != text || at != want {
			t.Fatalf("key %s of the copy: got %q at %v, %v, want %v", text, got, at, err, want)
		}
	}
	bounds, err := s.Bounds(t.Context())
	if err != nil || s.ID() != o.id || bounds[0].Created.Equal(o.made) {
		t.Errorf("got %s made at %v, %v, want %s and another time than %v", s.ID(), bounds[0].Created, err, o.id, o.made)
	}
}

// goOn uses the moved stream.
func (o *origin) goOn(t *testing.T, s *Stream) {
	t.Helper()
	for text := range o.keyed {
		if _, err := s.AppendKeyed(t.Context(), text, []byte("another")); !errors.Is(err, ErrExists) {
			t.Fatalf("key %s again: got %v, want ErrExists", text, err)
		}
	}
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
	// When the record of a key has aged out, the key is free: whatever refers to it.
	const text = "key300"
	was := o.keyed[text]
	if err := s.Advance(t.Context(), was.Partition, was.Seq); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.ReadKeyed(t.Context(), text); !errors.Is(err, ErrNotFound) {
		t.Errorf("a key that has aged out: got %v, want ErrNotFound", err)
	}
	at, err := s.AppendKeyed(t.Context(), text, []byte("second"))
	if err != nil {
		t.Fatalf("a key that has aged out, used again: %v", err)
	}
	if got, found, err := s.ReadKeyed(t.Context(), text); err != nil || found != at || string(got) != "second" {
		t.Errorf("got %q at %v, %v, want the second record at %v", got, found, err, at)
	}
	if _, err := s.AppendKeyed(t.Context(), text, []byte("third")); !errors.Is(err, ErrExists) {
		t.Errorf("a third time: got %v, want ErrExists", err)
	}
}

// A move outlives a server that is restarted under it.
func TestMoveOverRestart(t *testing.T) {
	o := newOrigin(t)
	srv := enginetest.Start(t, "")
	to := openOptions(t, engine.Options{URL: srv.URL(), Token: enginetest.Token, Join: true})
	calls := 0
	m, err := OpenMove(t.Context(), MoveOptions{From: o.engine, To: to, Limits: o.limits(2), Step: func(string) error {
		if calls++; calls%3 == 0 {
			srv.Restart()
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	moveAll(t, m)
	o.check(t, runStream(t, openExternal(t, srv), Options{}))
}

// moveAll moves frames and keys.
func moveAll(t *testing.T, m *Move) {
	t.Helper()
	defer m.Close()
	if _, err := m.Frames(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Keys(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestReference(t *testing.T) {
	want := Position{Partition: 63, Seq: 1<<45 - 1, Slot: MaxSlots - 1}
	frame := referenceTo(want)
	if got, ok := reference(frame); !ok || got != want {
		t.Errorf("got %v, %v, want %v", got, ok, want)
	}
	// As it was first written: every later version reads it.
	const stored = "534c4603c47c5c5200003fffffffffff1f0000ff0f"
	if got := hex.EncodeToString(frame); got != stored {
		t.Errorf("got %s, want %s", got, stored)
	}
	if records, err := DecodeFrame(frame); err != nil || len(records) != 0 {
		t.Errorf("got %d records, %v, want none", len(records), err)
	}
	for name, b := range map[string][]byte{
		"empty":     nil,
		"a frame":   AppendFrame(nil, []byte("record")),
		"cut":       frame[:len(frame)-1],
		"longer":    append(bytes.Clone(frame), 0),
		"a changed": append(bytes.Clone(frame[:len(frame)-1]), 7),
	} {
		if at, ok := reference(b); ok {
			t.Errorf("%s: got %v, want no reference", name, at)
		}
	}
}

// A move into a cluster outlives the death of the leader: frames that were on their way are stored once, under their number.
func TestMoveOverElection(t *testing.T) {
	o := newOrigin(t)
	nodes := enginetest.StartCluster(t, 3)
	options := engine.Options{URL: nodes.URL(), Token: enginetest.Token, Replicas: 3, Join: true}
	to := openCluster(t, options)
	calls, killed := 0, make(chan struct{})
	var m *Move
	m, err := OpenMove(t.Context(), MoveOptions{From: o.engine, To: to, Limits: o.limits(2), Step: func(string) error {
		calls++
		if calls != 2 {
			return nil
		}
		st, err := m.to.List[0].State(t.Context())
		if err != nil {
			return err
		}
		for i, n := range nodes {
			if st.Leader == fmt.Sprint("n", i) {
				time.AfterFunc(time.Millisecond, func() { n.Kill(); close(killed) }) // while frames are on their way
			}
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	moveAll(t, m)
	<-killed
	options.Join = false
	o.check(t, runStream(t, openCluster(t, options), Options{}))
}
