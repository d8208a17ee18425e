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
)

// restoreSteps are where the restore is killed, one after the other. Each run begins anew.
var restoreSteps = []string{"restore.frames:2", "restore.keys:2"}

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

// restore runs sluice restore into the servers, with an environment.
func (o *single) restore(backup string, env ...string) error {
	program := o.w.program
	program.Env = append(append([]string{}, program.Env...), env...)
	args := append([]string{"restore", backup, "--replicas", "3", "--partitions", fmt.Sprint(partitions), "--table-retention", "0"}, o.w.flags...)
	_, err := program.Run(o.w.t.Context(), args...)
	return err
}

// A service on one machine with a backlog becomes a cluster of three, its tables move into a bucket, over a restore that is
// killed. Every receipt, key and cursor works on every node, and every event is in the tables once.
func TestMove(t *testing.T) {
	w := newServers(t, nil, "-tags", "failpoint")
	o := newSingle(w)
	backup := filepath.Join(w.dir, "backup")
	if _, err := w.program.Run(t.Context(), "backup", "--final", backup, "--data", o.dir); err != nil {
		t.Fatal(err)
	}
	for _, step := range restoreSteps {
		servicetest.Eventually(t, time.Minute, "a restore that is killed at "+step, func() error { // the lease of the one before ends
			if err := o.restore(backup, "SLUICE_FAILPOINT="+step); err == nil || !strings.Contains(err.Error(), "signal: killed") {
				return fmt.Errorf("got %v, want a kill", err)
			}
			return nil
		})
		_, err := w.program.Run(t.Context(), append([]string{"dataset", "list", "--data", w.operator()}, w.flags...)...)
		if err == nil || !strings.Contains(err.Error(), "has not finished") {
			t.Errorf("%s: the servers are used with %v, want that they are not", step, err)
		}
	}
	servicetest.Eventually(t, time.Minute, "the restore", func() error { return o.restore(backup) })
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
	if err := o.restore(backup); err == nil || !strings.Contains(err.Error(), "hold data of Sluice's already") {
		t.Errorf("a restore into the cluster: got %v, want that it is taken", err)
	}
}

// checkNodes asks every node for what the service on one machine has answered.
func (o *single) checkNodes(t *testing.T) {
	t.Helper()
	w := o.w
	o.ledger.ReplayMoved(t, w.node(1))
	for i, e := range o.ledger.Entries() {
		if e.Status != http.StatusOK {
			continue
		}
		if a, err := w.node(i).Call("GET", w.key, "/v1/submissions/"+e.ID, ""); err != nil || a.Status != http.StatusOK {
			t.Fatalf("look-up of %s: got %d %v %s, want 200", e.ID, a.Status, err, a.Body)
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
	if err != nil || !strings.Contains(log, `"dataset.create"`) || !strings.Contains(log, `"restore"`) {
		t.Errorf("audit log: got %s, %v, want what was done before", log, err)
	}
}
