package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"sluice/internal/enginetest"
)

// counters are keys whose values grow all the time.
type counters struct {
	acknowledged [8]atomic.Uint64
}

func (c *counters) run(ctx context.Context, b *Bucket) {
	for n := uint64(1); ctx.Err() == nil; n++ {
		k := n % uint64(len(c.acknowledged))
		_, err := b.Put(ctx, fmt.Sprint("counter", k), strconv.AppendUint(nil, n, 10))
		if err == nil {
			c.acknowledged[k].Store(n)
		}
	}
}

func (c *counters) now() (values [8]uint64) {
	for k := range values {
		values[k] = c.acknowledged[k].Load()
	}
	return values
}

// A server whose disk was replaced reads a bucket out for clients before it has a copy of it. What Sluice reads is whole, and
// not older than what was written before.
func TestReadsWhileAServerIsReplaced(t *testing.T) {
	servers := enginetest.StartCluster(t, 3)
	e := open(t, Options{URL: servers[0].URL(), Token: enginetest.Token, Replicas: 3, Wait: time.Minute})
	b, err := e.Bucket(t.Context(), Erasures)
	if err != nil {
		t.Fatal(err)
	}
	const entries = 1500
	padding := []byte(strings.Repeat("x", 2000)) // a copy takes a while
	var together errgroup.Group
	together.SetLimit(32)
	for i := range entries {
		together.Go(func() error {
			_, err := b.Put(t.Context(), fmt.Sprint("key", i), padding)
			return err
		})
	}
	if err := together.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := b.Delete(t.Context(), "key0", 0); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var c counters
	written := make(chan struct{})
	go func() { defer close(written); c.run(ctx, b) }()
	defer func() { stop(); <-written }()
	for _, replaced := range []int{1, 2} {
		newest := fmt.Sprint("when server ", replaced, " was replaced")
		if _, err := b.Put(t.Context(), "key1", []byte(newest)); err != nil {
			t.Fatal(err)
		}
		servers[replaced].Replace()
		readUntilInStep(t, b, time.Now(), &c, func(all map[string]string) error {
			if _, there := all["key0"]; there || all["key1"] != newest || len(all) != entries-1 {
				return fmt.Errorf("got %d entries, want %d; the deleted one is there: %v; the newest is %q", len(all), entries-1, there, all["key1"])
			}
			return nil
		})
	}
}

// readUntilInStep reads the bucket again and again until every server has a copy of it. What NATS tells at first is still
// that of the disk that was replaced: to replace the next server then would destroy two of three copies.
func readUntilInStep(t *testing.T, b *Bucket, replaced time.Time, c *counters, check func(map[string]string) error) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for reads, inStep := 0, false; !inStep || reads < 20; {
		if time.Now().After(deadline) {
			t.Fatalf("after a minute and %d reads, got copies in step: %v", reads, inStep)
		}
		st := b.log.e.streamStatus(t.Context(), b.log.name)
		inStep = st.Err == nil && st.InStep == 3 && time.Since(replaced) > 2*silentPeer
		before := c.now()
		list, _, err := b.All(t.Context())
		if errors.Is(err, ErrUnavailable) || errors.Is(err, ErrTimeout) { // an election: it says so
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		reads++
		all := map[string]string{}
		for _, e := range list {
			all[e.Key] = string(e.Value)
		}
		for k, least := range before {
			name := fmt.Sprint("counter", k)
			if got, _ := strconv.ParseUint(all[name], 10, 64); got < least {
				t.Errorf("read %d: got %s %q, and %d was acknowledged before", reads, name, all[name], least)
			}
			delete(all, name)
		}
		if err := check(all); err != nil {
			t.Errorf("read %d: %v", reads, err)
		}
	}
}

// lag adds a server to those that answer direct reads of a stream, which has nothing behind a number: a mirror answers as a
// replica does. It answers about half of them.
func lag(t *testing.T, js jetstream.JetStream, stream string, has uint64) {
	t.Helper()
	source, err := js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	mirror, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "LAGS", Mirror: &jetstream.StreamSource{Name: stream}, MirrorDirect: true})
	if err != nil {
		t.Fatal(err)
	}
	last := source.CachedInfo().State.LastSeq
	for deadline := time.Now().Add(20 * time.Second); ; {
		info, err := mirror.Info(t.Context())
		if err == nil && info.State.LastSeq == last {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the mirror has not everything within 20 s: %v", err)
		}
	}
	for seq := has + 1; seq <= last; seq++ {
		if err := mirror.DeleteMsg(t.Context(), seq); err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) && !errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) {
			t.Fatal(err)
		}
	}
	for range 1000 { // it takes part some time after it has everything
		if _, err := source.GetMsg(t.Context(), last); errors.Is(err, jetstream.ErrMsgNotFound) {
			return
		}
	}
	t.Fatal("the mirror answers nothing")
}

// The reads of a bucket do not believe a replica that lags.
func TestBucketBesideAReplicaThatLags(t *testing.T) {
	srv := enginetest.Start(t, "")
	e := open(t, Options{URL: srv.URL(), Token: enginetest.Token})
	b, err := e.Bucket(t.Context(), Datasets)
	if err != nil {
		t.Fatal(err)
	}
	write := func(key, value string) (revision uint64) {
		if value == "" {
			err = b.Delete(t.Context(), key, 0)
		} else {
			revision, err = b.Put(t.Context(), key, []byte(value))
		}
		if err != nil {
			t.Fatal(err)
		}
		return revision
	}
	write("same", "1")
	write("deleted", "1")
	write("changed", "1")
	has := write("older", "1")
	write("changed", "2")
	write("deleted", "")
	last := write("new", "1")
	lag(t, srv.JetStream(), b.log.name, has)
	want := []Entry{{Key: "same", Value: []byte("1")}, {Key: "older", Value: []byte("1")}, {Key: "changed", Value: []byte("2")}, {Key: "new", Value: []byte("1")}}
	same := func(a, b Entry) bool { return a.Key == b.Key && bytes.Equal(a.Value, b.Value) }
	for range 30 {
		after := map[string]string{}
		revision, err := b.ScanAfter(t.Context(), has, func(e Entry, deleted bool) error { after[e.Key] = fmt.Sprint(string(e.Value), deleted); return nil })
		if err != nil || revision != last || fmt.Sprint(after) != "map[changed:2false deleted:true new:1false]" {
			t.Fatalf("after %d: got revision %d, entries %v, error %v", has, revision, after, err)
		}
		revision, err = b.ScanAfter(t.Context(), last, func(Entry, bool) error { return errors.New("there is nothing") })
		if err != nil || revision != last {
			t.Fatalf("after the last: got revision %d, error %v", revision, err)
		}
		all, revision, err := b.All(t.Context())
		if err != nil || revision != last || !slices.EqualFunc(all, want, same) {
			t.Fatalf("got revision %d, entries %v, error %v; want %d, %v", revision, all, err, last, want)
		}
		for _, w := range want {
			if got, err := b.Get(t.Context(), w.Key); err != nil || !same(got, w) {
				t.Fatalf("got %q, %v for %s, want %q", got.Value, err, w.Key, w.Value)
			}
		}
		for _, key := range []string{"deleted", "never", "*", ">"} {
			if _, err := b.Get(t.Context(), key); !errors.Is(err, ErrNotFound) {
				t.Fatalf("got %v for %s, want %v", err, key, ErrNotFound)
			}
		}
		if _, err := b.Create(t.Context(), "new", nil); !errors.Is(err, ErrExists) {
			t.Fatalf("got %v for a key that exists, want %v", err, ErrExists)
		}
	}
	if _, err := b.Create(t.Context(), "deleted", []byte("2")); err != nil {
		t.Errorf("got %v for a key that was deleted, want it created", err)
	}
}

// The reads of a partition and of the journal do not believe a replica that lags.
func TestLogBesideAReplicaThatLags(t *testing.T) {
	srv := enginetest.Start(t, "")
	e := open(t, Options{URL: srv.URL(), Token: enginetest.Token})
	p := partitions(t, e, PartitionOptions{}).List[0]
	has, err := p.PublishNew(t.Context(), "key", []byte("older"))
	if err != nil {
		t.Fatal(err)
	}
	last, err := p.publish(t.Context(), &nats.Msg{Subject: keyPrefix(p.id) + "key", Data: []byte("newer")})
	if err != nil {
		t.Fatal(err)
	}
	lag(t, srv.JetStream(), p.name, has)
	for range 30 {
		if m, err := p.GetKey(t.Context(), "key"); err != nil || string(m.Data) != "newer" {
			t.Fatalf("got %q, %v by key, want the newest", m.Data, err)
		}
		if m, err := p.Get(t.Context(), last); err != nil || string(m.Data) != "newer" {
			t.Fatalf("got %q, %v by number, want the newest", m.Data, err)
		}
	}
	if err := srv.JetStream().DeleteStream(t.Context(), "LAGS"); err != nil {
		t.Fatal(err)
	}
	j, err := e.Journal(t.Context(), AuditJournal)
	if err != nil {
		t.Fatal(err)
	}
	for after := range uint64(4) {
		if err := j.Append(t.Context(), []byte("entry"), after); err != nil {
			t.Fatal(err)
		}
	}
	lag(t, srv.JetStream(), j.p.name, 2)
	for range 30 {
		var got []uint64
		err := j.Scan(t.Context(), 1, func(n uint64, _ []byte) error { got = append(got, n); return nil })
		if err != nil || !slices.Equal(got, []uint64{1, 2, 3, 4}) {
			t.Fatalf("got entries %d, %v, want 4", got, err)
		}
	}
}

// A leader that lacks what was written before is not believed: under load a server with a new disk can lead for a moment.
func TestBucketBesideALeaderThatIsBehind(t *testing.T) {
	srv := enginetest.Start(t, "")
	e := open(t, Options{URL: srv.URL(), Token: enginetest.Token})
	b, err := e.Bucket(t.Context(), Datasets)
	if err != nil {
		t.Fatal(err)
	}
	last, err := b.Put(t.Context(), "key", []byte("value"))
	if err != nil {
		t.Fatal(err)
	}
	if _, revision, err := b.All(t.Context()); err != nil || revision != last {
		t.Fatalf("got revision %d, %v, want %d", revision, err, last)
	}
	b.note(last + 1) // as if another entry had been acknowledged
	if _, _, err := b.All(t.Context()); !errors.Is(err, ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
}
