package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"sluice/internal/enginetest"
)

// newEmbedded makes a data directory with an engine that holds a stream of two partitions, a dataset and a journal.
func newEmbedded(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	e := openFor(t, Options{Dir: dir})
	defer closeNow(t, e)
	ps := partitions(t, e, PartitionOptions{Count: 2, MaxAge: 50 * time.Hour})
	if _, err := ps.List[1].Publish(t.Context(), []byte("frame")); err != nil {
		t.Fatal(err)
	}
	putEntry(t, e, Datasets, "shop", "a dataset")
	putEntry(t, e, Erasures, "stone", "a tombstone")
	putEntry(t, e, StreamEnds, "high.1", "1")
	if _, err := e.Secret(t.Context(), "submissions"); err != nil {
		t.Fatal(err)
	}
	appendEntries(t, e, 0, 3)
	return dir
}

func openFor(t *testing.T, o Options) *Engine {
	t.Helper()
	e, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// opens says whether an engine opens, and closes it.
func opens(t *testing.T, o Options) error {
	t.Helper()
	e, err := Open(t.Context(), o)
	if err == nil {
		closeNow(t, e)
	}
	return err
}

func closeNow(t *testing.T, e *Engine) {
	t.Helper()
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

func putEntry(t *testing.T, e *Engine, k Kind, key, value string) {
	t.Helper()
	b, err := e.Bucket(t.Context(), k)
	if err == nil {
		_, err = b.Put(t.Context(), key, []byte(value))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func value(t *testing.T, e *Engine, k Kind, key string) string {
	t.Helper()
	b, err := e.Bucket(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	found, err := b.Get(t.Context(), key)
	if err != nil {
		return err.Error()
	}
	return string(found.Value)
}

func appendEntries(t *testing.T, e *Engine, after, n uint64) {
	t.Helper()
	j, err := e.Journal(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := j.Append(t.Context(), fmt.Append(nil, "entry", after+i+1), after+i); err != nil {
			t.Fatal(err)
		}
	}
}

// join moves a directory, but not its frames, and ends at the n-th step that it comes to; 0 is for none.
func join(t *testing.T, dir string, srv *enginetest.Server, want Record, n int) (*Join, error) {
	t.Helper()
	from := openFor(t, Options{Dir: dir, Join: true})
	defer closeNow(t, from)
	to := openFor(t, Options{URL: srv.URL(), Token: enginetest.Token, Replicas: 1, Join: true})
	defer closeNow(t, to)
	want.Replicas = 1
	j, err := PlanJoin(t.Context(), from, to, want)
	if err != nil {
		return nil, err
	}
	j.Step = func(name string) error {
		if n--; n == 0 {
			return fmt.Errorf("%w at %s", errStopped, name)
		}
		return nil
	}
	if j.State != JoinFinished {
		if err := j.Begin(t.Context()); err != nil {
			return j, err
		}
		if _, err := j.CopyBuckets(t.Context()); err != nil {
			return j, err
		}
		if _, err := j.CopyJournal(t.Context()); err != nil {
			return j, err
		}
		if _, err := to.Partitions(t.Context(), PartitionOptions{Count: j.Record.Partitions, MaxAge: j.Record.StreamRetention, MaxBytes: j.Record.MaxStream, Origin: &j.Origin}); err != nil {
			return j, err
		}
	}
	return j, j.Finish(t.Context())
}

var errStopped = errors.New("stopped")

// A join that is stopped at every step and repeated ends with everything in the cluster, once. Between the first step and
// the last neither the directory nor the cluster can be used by others.
func TestJoin(t *testing.T) {
	dir := newEmbedded(t)
	srv := enginetest.Start(t, "")
	stops := 0
	for n := 1; ; n++ {
		_, stopped := join(t, dir, srv, Record{LakeID: "tables", Partitions: 3}, n)
		if stopped == nil {
			break
		}
		if stops++; !errors.Is(stopped, errStopped) {
			t.Fatal(stopped)
		}
		if n == 1 { // nothing was done yet
			continue
		}
		if err := opens(t, Options{URL: srv.URL(), Token: enginetest.Token}); !errors.Is(err, ErrJoining) && !strings.Contains(stopped.Error(), "join.noted") {
			t.Errorf("%v: a node opens the cluster with %v, want ErrJoining", stopped, err)
		}
		checkEarlierStops(t, srv, stopped)
		if err := opens(t, Options{URL: srv.URL(), Token: enginetest.Token, Dir: dir}); err == nil {
			t.Errorf("%v: a node opens the cluster and the directory", stopped)
		}
		if err := opens(t, Options{Dir: dir}); n > 2 && (err == nil || !strings.Contains(err.Error(), "sluice cluster join")) {
			t.Errorf("%v: the directory opens with %v, want the command to finish", stopped, err)
		}
	}
	if stops < 9 {
		t.Errorf("got %d stops, want 9 or more", stops)
	}
	if again, err := join(t, dir, srv, Record{}, 0); err != nil || again.State != JoinFinished {
		t.Errorf("once more: got %v, %v, want that it is finished", again, err)
	}
	checkJoined(t, dir, srv)
}

// checkEarlierStops compares what is stored during a join with what versions before it look at: a record without replicas
// stops them.
func checkEarlierStops(t *testing.T, srv *enginetest.Server, stopped error) {
	t.Helper()
	kv, err := srv.JetStream().KeyValue(t.Context(), "SLUICE_SETTINGS")
	if err != nil {
		t.Fatal(err)
	}
	found, err := kv.Get(t.Context(), "cluster")
	var earlier struct{ Cluster, Replicas, Partitions any }
	if err == nil {
		err = json.Unmarshal(found.Value(), &earlier)
	}
	if finished := strings.Contains(stopped.Error(), "join.noted"); err != nil || earlier.Cluster == nil || (earlier.Replicas != nil) != finished {
		t.Errorf("%v: got %+v, %v", stopped, earlier, err)
	}
}

func checkJoined(t *testing.T, dir string, srv *enginetest.Server) {
	t.Helper()
	_, err := Open(t.Context(), Options{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "was moved into the cluster") {
		t.Errorf("the directory by itself: got %v, want that it was moved", err)
	}
	e := openFor(t, Options{Dir: dir, URL: srv.URL(), Token: enginetest.Token}) // the directory of a node
	defer closeNow(t, e)
	r, err := e.Agree(t.Context(), Record{})
	if err != nil || r.Partitions != 3 || r.StreamRetention != 50*time.Hour || r.LakeID != "tables" {
		t.Errorf("got %+v, %v, want 3 partitions and 50 h", r, err)
	}
	ps := partitions(t, e, PartitionOptions{})
	if ps.ID != r.Stream || !ps.ByHash || ps.Keyed != 3 || len(ps.List) != 3 {
		t.Errorf("got %+v, want the identity %s", ps, r.Stream)
	}
	for key, k := range map[string]Kind{"shop": Datasets, "stone": Erasures, "high.1": StreamEnds, "secret.submissions": Settings} {
		if got := value(t, e, k, key); got == ErrNotFound.Error() {
			t.Errorf("%s is not there", key)
		}
	}
	j, err := e.Journal(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if first, last, err := j.Ends(t.Context()); err != nil || first != 1 || last != 3 {
		t.Errorf("journal: got %d to %d, %v, want 1 to 3", first, last, err)
	}
	// Tables of another identity are not written down as the place of the right ones.
	if _, err := e.Agree(t.Context(), Record{Lake: "s3://wrong"}); err != nil {
		t.Error(err)
	}
	if _, err := e.Agree(t.Context(), Record{Lake: "s3://wrong", LakeID: "others"}); !errors.Is(err, ErrDisagree) {
		t.Errorf("other tables: got %v, want ErrDisagree", err)
	}
	if r, err := e.Agree(t.Context(), Record{Lake: "s3://right", LakeID: "tables"}); err != nil || r.Lake != "s3://right" {
		t.Errorf("the right tables: got %+v, %v, want their place", r, err)
	}
}

// What a join cannot do right it does not begin.
func TestJoinRejects(t *testing.T) {
	dir := newEmbedded(t)
	occupied := enginetest.Start(t, "")
	node := open(t, Options{URL: occupied.URL(), Token: enginetest.Token})
	agree(t, node, Record{})
	foreign := enginetest.Start(t, "")
	if _, err := foreign.JetStream().CreateStream(t.Context(), jetstream.StreamConfig{Name: "SLUICE_0", Subjects: []string{"x"}}); err != nil {
		t.Fatal(err)
	}
	begun := enginetest.Start(t, "")
	if _, err := join(t, newEmbedded(t), begun, Record{}, 4); !errors.Is(err, errStopped) {
		t.Fatal(err)
	}
	unused := t.TempDir()
	closeNow(t, openFor(t, Options{Dir: unused}))
	member := t.TempDir()
	closeNow(t, openFor(t, Options{Dir: member}))
	if err := writeMembership(member, membership{Cluster: "theirs"}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		dir  string
		srv  *enginetest.Server
		want Record
		says string
	}{
		"a cluster that has nodes":      {dir, occupied, Record{}, "hold data of Sluice's already: the cluster"},
		"streams without a record":      {dir, foreign, Record{}, "hold data of Sluice's already: SLUICE_0"},
		"another directory's join":      {dir, begun, Record{}, "another data directory"},
		"fewer partitions":              {dir, enginetest.Start(t, ""), Record{Partitions: 1}, "can be 2 to 64"},
		"a directory without a stream":  {unused, enginetest.Start(t, ""), Record{}, "holds no stream"},
		"a directory of a cluster node": {member, enginetest.Start(t, ""), Record{}, "holds no stream"},
	} {
		if _, err := join(t, c.dir, c.srv, c.want, 0); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want %q", name, err, c.says)
		}
	}
	running := open(t, Options{Dir: dir, Listen: true})
	if running.Mode() != Embedded {
		t.Fatalf("after all of them the directory opens as %v", running.Mode())
	}
	if _, err := join(t, dir, enginetest.Start(t, ""), Record{}, 0); err == nil || !strings.Contains(err.Error(), "stop it first") {
		t.Errorf("a server on the directory: got %v, want that it must be stopped", err)
	}
}

// A join that was begun is continued with the same flags and servers only, and only if the directory was not used since.
func TestJoinContinues(t *testing.T) {
	dir, srv := newEmbedded(t), enginetest.Start(t, "")
	const copying = 6
	if _, err := join(t, dir, srv, Record{}, copying); !errors.Is(err, errStopped) {
		t.Fatal(err)
	}
	if _, err := join(t, dir, srv, Record{Partitions: 5}, 0); !errors.Is(err, ErrDisagree) {
		t.Errorf("other flags: got %v, want ErrDisagree", err)
	}
	if _, err := join(t, dir, enginetest.Start(t, ""), Record{}, 0); err == nil || !strings.Contains(err.Error(), "do not have it") {
		t.Errorf("other servers: got %v, want that they are the wrong ones", err)
	}
	if err := os.Remove(filepath.Join(dir, clusterName)); err != nil { // by hand
		t.Fatal(err)
	}
	e := openFor(t, Options{Dir: dir})
	ps := partitions(t, e, PartitionOptions{})
	if _, err := ps.List[0].Publish(t.Context(), []byte("later")); err != nil {
		t.Fatal(err)
	}
	closeNow(t, e)
	if _, err := join(t, dir, srv, Record{}, 0); !errors.Is(err, errUsedSince) {
		t.Errorf("used since: got %v, want that the copy must be deleted", err)
	}
	undo(t, dir, srv)
	if opens(t, Options{Dir: dir}) != nil {
		t.Error("the directory does not open after the undo")
	}
	if _, err := join(t, dir, srv, Record{Partitions: 3, LakeID: "tables"}, 0); err != nil {
		t.Fatal(err)
	}
	checkJoined(t, dir, srv)
}

func undo(t *testing.T, dir string, srv *enginetest.Server) {
	t.Helper()
	from := openFor(t, Options{Dir: dir, Join: true})
	defer closeNow(t, from)
	to := openFor(t, Options{URL: srv.URL(), Token: enginetest.Token, Join: true})
	defer closeNow(t, to)
	for n := 1; ; n++ {
		left := n
		err := UndoJoin(t.Context(), from, to, func(string) error {
			if left--; left == 0 {
				return errStopped
			}
			return nil
		})
		if err == nil {
			return
		}
		if !errors.Is(err, errStopped) {
			t.Fatal(err)
		}
		if _, err := PlanJoin(t.Context(), from, to, Record{Replicas: 1}); n > 1 && (err == nil || !strings.Contains(err.Error(), "--undo")) {
			t.Errorf("a join while the one before is given up: got %v, want that it must be finished", err)
		}
	}
}

// A join that is given up leaves the directory as it was and the servers empty, whenever it is stopped. A finished one cannot
// be given up.
func TestUndoJoin(t *testing.T) {
	dir, srv := newEmbedded(t), enginetest.Start(t, "")
	for n := 2; ; n++ {
		_, err := join(t, dir, srv, Record{}, n)
		if err != nil && !errors.Is(err, errStopped) {
			t.Fatal(err)
		}
		if err == nil || strings.Contains(err.Error(), "join.noted") {
			break
		}
		undo(t, dir, srv)
		if _, err := os.Stat(filepath.Join(dir, clusterName)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("stopped at step %d: the directory has a note: %v", n, err)
		}
		if lister := srv.JetStream().StreamNames(t.Context()); len(lister.Name()) > 0 {
			t.Errorf("stopped at step %d: the servers hold streams", n)
		}
		e := openFor(t, Options{Dir: dir})
		if got := value(t, e, Datasets, "shop"); got != "a dataset" {
			t.Errorf("stopped at step %d: got %q, want the dataset", n, got)
		}
		closeNow(t, e)
	}
	from := open(t, Options{Dir: dir, Join: true})
	other := open(t, Options{URL: enginetest.Start(t, "").URL(), Token: enginetest.Token, Join: true})
	if err := UndoJoin(t.Context(), from, other, nil); err == nil || !strings.Contains(err.Error(), "do not have it") {
		t.Errorf("other servers: got %v, want that they are the wrong ones: the cluster may be complete", err)
	}
	to := open(t, Options{URL: srv.URL(), Token: enginetest.Token, Join: true})
	if err := UndoJoin(t.Context(), from, to, nil); err == nil || !strings.Contains(err.Error(), "is finished") {
		t.Errorf("got %v, want that a finished join stays", err)
	}
}

// Servers that are used again after an undo that was stopped right before its end do not keep the directory from being used.
func TestUndoJoinOnServersInUse(t *testing.T) {
	dir, srv := newEmbedded(t), enginetest.Start(t, "")
	if err := writeMembership(dir, membership{Cluster: "given up", Join: joinUndo}); err != nil {
		t.Fatal(err)
	}
	agree(t, open(t, Options{URL: srv.URL(), Token: enginetest.Token}), Record{})
	undo(t, dir, srv)
	if err := opens(t, Options{Dir: dir}); err != nil {
		t.Error(err)
	}
}

// A journal that has dropped its oldest entries keeps the numbers of the others, and still nobody can delete from it.
func TestJoinOfAFullJournal(t *testing.T) {
	dir, srv := newEmbedded(t), enginetest.Start(t, "")
	from := open(t, Options{Dir: dir, Join: true})
	js, err := from.js.Stream(t.Context(), journalName)
	if err != nil {
		t.Fatal(err)
	}
	small := js.CachedInfo().Config
	small.MaxMsgs = 5
	if _, err := from.js.UpdateStream(t.Context(), small); err != nil {
		t.Fatal(err)
	}
	appendEntries(t, from, 3, 300)
	to := open(t, Options{URL: srv.URL(), Token: enginetest.Token, Join: true})
	plan, err := PlanJoin(t.Context(), from, to, Record{Replicas: 1})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if n, err := plan.CopyJournal(t.Context()); err != nil || n != 5 {
			t.Fatalf("got %d entries, %v, want 5", n, err)
		}
	}
	target, err := to.Journal(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if first, last, err := target.Ends(t.Context()); err != nil || first != 299 || last != 303 {
		t.Errorf("got %d to %d, %v, want 299 to 303", first, last, err)
	}
	if entry, err := target.Get(t.Context(), 300); err != nil || string(entry) != "entry300" {
		t.Errorf("got %q, %v, want entry300", entry, err)
	}
	made, err := to.js.Stream(t.Context(), journalName)
	if err != nil {
		t.Fatal(err)
	}
	if err := made.Purge(t.Context()); err == nil {
		t.Error("the journal was purged")
	}
}
