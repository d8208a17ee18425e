package cluster

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice/internal/servicetest"
	s3 "sluice/interop/gateway"
)

// joinSteps are where the join is killed, one after the other. Each run does what the run before has left.
var joinSteps = []string{
	"join.record:1", "join.note:1", "join.bucket:1", "join.bucket:4", "join.journal:1",
	"move.frames:1", "move.frames:2", "move.frames:3", "move.keys:1", "move.keys:2", "join.finish:1", "join.noted:1",
}

// single is a service on one machine, and what its senders and a follower of its feed know.
type single struct {
	w      *world
	dir    string
	ledger servicetest.Ledger
	token  string // of a reader
	cursor string
	read   map[string]int // rows by mark, up to the cursor
}

// newSingle runs a service with two partitions that has loaded a part of what it acknowledged, and kills it.
func newSingle(w *world) *single {
	w.t.Helper()
	o := &single{w: w, dir: filepath.Join(w.dir, "single"), read: map[string]int{}}
	serve := func(env ...string) *servicetest.Server {
		s, err := servicetest.Launch{Program: w.program, Data: o.dir, Args: []string{"--partitions", "2", "--commit-every", "500ms"}, Env: env}.Start()
		if err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(func() { s.Stop(syscall.SIGKILL) })
		return s
	}
	s := serve()
	var err error
	o.ledger.ID = "shop"
	if o.ledger.Key, _, err = w.program.CreateDataset(w.t.Context(), o.dir, "shop"); err != nil {
		w.t.Fatal(err)
	}
	if o.token, err = w.program.Run(w.t.Context(), "reader", "create", "follower", "--allow", "feed", "--data", o.dir); err != nil {
		w.t.Fatal(err)
	}
	o.token = strings.TrimSpace(o.token)
	o.send(s)
	o.ledger.Settle(w.t, s, 60*time.Second)
	o.cursor = "earliest"
	o.follow(w.t, s)
	s.Stop(syscall.SIGKILL)
	s = serve("SLUICE_FAILPOINT_NOLOADER=1") // the backlog
	o.send(s)
	s.Stop(syscall.SIGKILL)
	return o
}

// send sends requests one by one, so that there are many frames, and then some together.
func (o *single) send(s *servicetest.Server) {
	o.w.t.Helper()
	for i := range 400 {
		o.ledger.Send(s, o.ledger.Request([]int{servicetest.Single, servicetest.KeyedSingle}[i%2]))
	}
	_, before := o.ledger.Acked()
	var stop atomic.Bool
	senders := o.ledger.Load(s, int(servicetest.Kinds), &stop)
	servicetest.Eventually(o.w.t, 60*time.Second, "load", func() error {
		if _, n := o.ledger.Acked(); n < before+2000 {
			return fmt.Errorf("%d acknowledged", n-before)
		}
		return nil
	})
	stop.Store(true)
	senders.Wait()
}

// follow reads the feed from the cursor on until it has caught up.
func (o *single) follow(t *testing.T, s *servicetest.Server) {
	t.Helper()
	for {
		r, err := http.NewRequest(http.MethodGet, strings.TrimSuffix(s.Ops(), "/")+"/feed/v1/events?purpose=measurement&limit=10000&cursor="+url.QueryEscape(o.cursor), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+o.token)
		a, err := servicetest.Client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(a.Body)
		_ = a.Body.Close()
		if err != nil || a.StatusCode != http.StatusOK {
			t.Fatalf("feed: got %d %v %.200s, want 200", a.StatusCode, err, body)
		}
		var end struct {
			Cursor   string `json:"cursor"`
			CaughtUp bool   `json:"caught_up"`
		}
		for line := range strings.Lines(string(body)) {
			var row struct {
				PartnerID string `json:"partner_id"`
			}
			if err := json.Unmarshal([]byte(line), &row); err != nil {
				t.Fatal(err)
			}
			if row.PartnerID != "" {
				o.read[row.PartnerID]++
			} else if err := json.Unmarshal([]byte(line), &end); err != nil {
				t.Fatal(err)
			}
		}
		if o.cursor = end.Cursor; end.CaughtUp {
			return
		}
	}
}

// without are the flags of the world but --nats, for a command on the directory.
func (w *world) without() []string { return w.flags[4:] }

// join runs sluice cluster join with an environment.
func (o *single) join(env ...string) error {
	program := o.w.program
	program.Env = append(append([]string{}, program.Env...), env...)
	_, err := program.Run(o.w.t.Context(), append([]string{"cluster", "join", "--data", o.dir, "--replicas", "3", "--partitions", fmt.Sprint(partitions)}, o.w.flags...)...)
	return err
}

// A service on one machine with a backlog becomes a cluster of three, over a join that is killed at each of its steps. Every
// receipt, key, retry and cursor works on every node, and every event is in the tables once.
func TestJoin(t *testing.T) {
	w := newServers(t, nil, "-tags", "failpoint")
	o := newSingle(w)
	if _, err := w.program.Run(t.Context(), append([]string{"lake", "copy", "--data", o.dir, "--to", "s3://" + s3.Bucket + "/lake"}, w.without()...)...); err != nil {
		t.Fatal(err)
	}
	for i, step := range joinSteps {
		err := o.join("SLUICE_FAILPOINT=" + step)
		if err == nil || !strings.Contains(err.Error(), "signal: killed") {
			t.Fatalf("%s: got %v, want a kill", step, err)
		}
		if _, err := w.program.Run(t.Context(), "dataset", "list", "--data", o.dir); i > 1 && (err == nil || !strings.Contains(err.Error(), "sluice cluster join")) {
			t.Errorf("%s: the directory is used with %v, want the command to finish", step, err)
		}
	}
	if err := o.join(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.program.Run(t.Context(), "dataset", "list", "--data", o.dir); err == nil || !strings.Contains(err.Error(), "was moved into the cluster") {
		t.Errorf("the directory is used with %v, want that it was moved", err)
	}
	for i := range w.nodes {
		w.startNode(i)
	}
	w.key = o.ledger.Key
	o.checkNodes(t)
	o.ledger.Settle(t, w.node(2), 60*time.Second)
	o.checkTables(t)
	for i := range w.nodes {
		if said := w.node(i).Said(); strings.Contains(said, "has lost its newest frames") {
			t.Errorf("node %d reports frames as lost, and none is", i)
		}
	}
	o.checkOccupied(t)
}

// checkNodes asks every node for what the service on one machine has answered.
func (o *single) checkNodes(t *testing.T) {
	t.Helper()
	w := o.w
	o.ledger.Replay(t, w.node(1))
	for i, e := range o.ledger.Entries() {
		if e.Status != http.StatusOK {
			continue
		}
		if a, err := w.node(i).Call("GET", w.key, "/v1/submissions/"+e.ID, ""); err != nil || a.Status != http.StatusOK {
			t.Fatalf("look-up of %s: got %d %v %s, want 200", e.ID, a.Status, err, a.Body)
		}
		if e.IdempotencyKey == "" || i%10 != 0 {
			continue
		}
		other := o.ledger.Event("another-body", 0)
		if e.Path != "/v1/events" {
			other = "[" + other + "]"
		}
		if a, err := w.node(i).Call("POST", w.key, e.Path, other, "Idempotency-Key", e.IdempotencyKey); err != nil || a.Status != http.StatusUnprocessableEntity {
			t.Errorf("another body with a key of before: got %d %v %s, want 422", a.Status, err, a.Body)
		}
	}
	for i := range w.nodes {
		if e := o.ledger.Send(w.node(i), o.ledger.Request(servicetest.KeyedBatch)); e.Status != http.StatusOK {
			t.Errorf("a new request to node %d: got %d, want 200", i, e.Status)
		}
	}
}

// checkTables compares tables, feed and audit log with what senders and the follower know.
func (o *single) checkTables(t *testing.T) {
	t.Helper()
	w := o.w
	operator := append([]string{"--data", w.operator()}, w.flags...)
	o.ledger.Check(t, w.stored(t))
	before := len(o.read)
	o.follow(t, w.node(0))
	if before == 0 || len(o.read) <= before {
		t.Errorf("the follower had %d rows and now has %d", before, len(o.read))
	}
	o.ledger.Check(t, o.read)
	if _, err := w.program.Run(t.Context(), append([]string{"audit", "verify"}, operator...)...); err != nil {
		t.Error(err)
	}
	log, err := w.program.Run(t.Context(), append([]string{"audit", "list"}, operator...)...)
	if err != nil || !strings.Contains(log, `"dataset.create"`) || !strings.Contains(log, `"cluster.join"`) {
		t.Errorf("audit log: got %s, %v, want what was done before", log, err)
	}
}

// checkOccupied moves another directory into the cluster, which must not be possible.
func (o *single) checkOccupied(t *testing.T) {
	t.Helper()
	second := single{w: o.w, dir: filepath.Join(o.w.dir, "second")}
	s, err := servicetest.Launch{Program: o.w.program, Data: second.dir}.Start()
	if err != nil {
		t.Fatal(err)
	}
	s.Stop(syscall.SIGTERM)
	args := append([]string{"cluster", "join", "--data", second.dir}, o.w.flags[:2]...)
	if _, err := o.w.program.Run(t.Context(), args...); err == nil || !strings.Contains(err.Error(), "hold data of Sluice's already") {
		t.Errorf("another directory: got %v, want that the cluster is taken", err)
	}
}
