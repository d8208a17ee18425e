package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice/internal/servicetest"
)

// fault is done to a cluster under load and ends with everything running again.
type fault struct {
	name string
	long bool // only with ROUNDS: a commit need not wait for it
	do   func(t *testing.T, w *world, l *ledger)
}

// faults are all faults, in the order in which they are tried on one cluster.
func faults() []fault {
	return slices.Concat(kills, cuts, spoils, harms, restarts, mistakes, people)
}

var kills = []fault{
	{"follower killed", false, func(_ *testing.T, w *world, _ *ledger) { w.restart((w.leader(0) + 1) % servers) }},
	{"leader killed", false, killLeader},
	{"node killed", false, func(_ *testing.T, w *world, _ *ledger) {
		w.node(0).Stop(syscall.SIGKILL)
		w.startNode(0)
	}},
	{"committer killed", false, killCommitter},
	{"two of three nodes killed", true, func(_ *testing.T, w *world, _ *ledger) {
		w.node(1).Stop(syscall.SIGKILL)
		w.node(2).Stop(syscall.SIGKILL)
		w.startNode(1)
		w.startNode(2)
	}},
	{"leader paused", true, func(t *testing.T, w *world, l *ledger) {
		w.lead(t, 0, 1, 2)
		s := w.servers[0]
		s.Pause()
		resume := time.After(15 * time.Second)
		// A node whose own server is the paused one leaves it: 0.9 s without an answer, 2 s for a ping, and an election.
		t.Logf("every node accepted events %v after the pause began", w.served(t, l, 10*time.Second).Round(time.Millisecond))
		<-resume // the fault itself
		s.Resume()
	}},
	{"NATS server of a node paused", true, pauseBeside},
	{"server down until its copies count as behind", true, func(t *testing.T, w *world, _ *ledger) {
		i := w.leader(0)
		w.servers[i].Kill()
		w.alarmed(t, "SluiceCopiesBehind", true, 80*time.Second)
		w.complains(t, "SLUICE_0")
		w.servers[i].Restart()
		w.alarmed(t, "SluiceCopiesBehind", false, 60*time.Second)
	}},
	{"two of three servers down", true, func(_ *testing.T, w *world, _ *ledger) {
		w.servers[0].Kill()
		w.servers[1].Kill()
		time.Sleep(20 * time.Second) // the fault itself
		w.servers[0].Restart()
		w.servers[1].Restart()
	}},
	{"all servers down", true, func(_ *testing.T, w *world, _ *ledger) {
		for _, s := range w.servers {
			s.Kill()
		}
		time.Sleep(5 * time.Second) // the fault itself
		for _, s := range w.servers {
			s.Restart()
		}
	}},
	{"one server leads all partitions", true, oneLeader},
	{"server replaced with an empty disk", false, func(_ *testing.T, w *world, _ *ledger) { w.servers[w.leader(1)].Replace() }},
}

// pauseBeside pauses the server that a node is connected to, which leads no partition.
func pauseBeside(t *testing.T, w *world, l *ledger) {
	links := w.sites[0].servers
	setAll(reset, links[1:]...)
	servicetest.Eventually(t, 30*time.Second, "a node at one server", func() error {
		if !links[0].busy() || links[1].busy() || links[2].busy() {
			return errors.New("it has other connections")
		}
		return nil
	})
	w.served(t, l, moveWithin)
	setAll(whole, links[1:]...)
	w.lead(t, 1, 2, 1)
	w.servers[0].Pause()
	resume := time.After(15 * time.Second)
	t.Logf("every node accepted events %v after the pause began", w.served(t, l, 10*time.Second).Round(time.Millisecond))
	<-resume // the fault itself
	w.servers[0].Resume()
}

// restart kills a server and runs it again.
func (w *world) restart(i int) {
	w.servers[i].Kill()
	w.servers[i].Restart()
}

// killLeader kills a server that leads partitions, and restarts it when NATS has chosen others. Senders of keys of these
// partitions must have their 200 within a second of that, and the other events never stop.
func killLeader(t *testing.T, w *world, l *ledger) {
	before := w.lead(t, 0, 1, 2)
	dead := w.leader(0)
	begun := time.Now()
	w.servers[dead].Kill()
	var chosen time.Time
	for p := range partitions {
		name := fmt.Sprint("SLUICE_", p)
		if before[name] == fmt.Sprint("n", dead) {
			at := w.elected(t, name, begun)
			t.Logf("NATS chose another leader of partition %d after %v", p, at.Sub(begun).Round(time.Millisecond))
			if at.After(chosen) {
				chosen = at
			}
		}
	}
	var last time.Time // of the 200s that waited
	servicetest.Eventually(t, 20*time.Second, "a 200 for each key", func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, e := range l.entries {
			if !e.keyed || e.sent.After(chosen) {
				continue
			}
			if e.answer == "" {
				return fmt.Errorf("%s has none", e.mark)
			}
			if e.acked.After(last) {
				last = e.acked
			}
		}
		return nil
	})
	anyone, _ := l.gap(begun)
	after := max(0, last.Sub(chosen))
	t.Logf("the last key that waited had its 200 %v after the last election; the longest time without any 200 was %v",
		after.Round(time.Millisecond), anyone.Round(time.Millisecond))
	// Goals: 1 s, and no stop at all. What a machine that is busy with six servers and nodes adds is allowed for.
	if after > 3*time.Second || anyone > 3*time.Second {
		t.Errorf("got %v after the election and %v without any 200, want at most 3 s", after, anyone)
	}
	w.servers[dead].Restart()
}

// lead makes a server the leader of each partition, and returns the leaders of all streams.
func (w *world) lead(t *testing.T, server ...int) (leaders map[string]string) {
	t.Helper()
	nc := w.servers[0].JetStream().Conn()
	defer nc.Close()
	servicetest.Eventually(t, 30*time.Second, "the leaders that are wanted", func() (err error) {
		if leaders, err = w.leaders(); err != nil {
			return err
		}
		for p, i := range server {
			stream, want := fmt.Sprint("SLUICE_", p), fmt.Sprint("n", i)
			if leaders[stream] == want {
				continue
			}
			order := fmt.Sprintf(`{"placement":{"preferred":%q}}`, want)
			_, asked := nc.Request("$JS.API.STREAM.LEADER.STEPDOWN."+stream, []byte(order), 2*time.Second)
			err = errors.Join(err, fmt.Errorf("%s is led by %s, want %s", stream, leaders[stream], want), asked)
		}
		return err
	})
	return leaders
}

// oneLeader lets one server lead all partitions, and waits until a node has moved their leaders.
func oneLeader(t *testing.T, w *world, _ *ledger) {
	w.lead(t, 1, 1, 1)
	begun := time.Now()
	servicetest.Eventually(t, 4*time.Minute, "a leader on each server", func() error {
		leaders, err := w.leaders()
		led := map[string]bool{}
		for p := range partitions {
			led[leaders[fmt.Sprint("SLUICE_", p)]] = true
		}
		if err == nil && len(led) < servers {
			err = fmt.Errorf("got %v", leaders)
		}
		return err
	})
	t.Logf("each server led a partition after %v", time.Since(begun).Round(time.Second))
}

// elected is when a server became the leader of a stream, as its own log says.
func (w *world) elected(t *testing.T, stream string, since time.Time) (at time.Time) {
	t.Helper()
	servicetest.Eventually(t, 30*time.Second, "a leader of "+stream, func() error {
		for _, s := range w.servers {
			for line := range strings.Lines(s.Log()) {
				if !strings.Contains(line, "new stream leader for '$G > "+stream+"'") {
					continue
				}
				_, text, _ := strings.Cut(line, "] ")
				when, err := time.Parse("2006/01/02 15:04:05.000000", text[:min(26, len(text))])
				if err != nil {
					return err
				}
				if when.After(since) {
					at = when
					return nil
				}
			}
		}
		return fmt.Errorf("none")
	})
	return at
}

// killCommitter kills the node that commits to the tables. Another one must have its leases, and have stored a new event,
// within ten seconds.
func killCommitter(t *testing.T, w *world, l *ledger) {
	node, id := w.holder("committer")
	begun := time.Now()
	w.node(node).Stop(syscall.SIGKILL)
	servicetest.Eventually(t, 30*time.Second, "another committer", func() error {
		st, _ := w.status() // with a problem: nobody loads
		for _, lease := range st.Leases {
			if lease.Name == "committer" && lease.NodeID != id {
				return nil
			}
		}
		return fmt.Errorf("got leases %v", st.Leases)
	})
	leases := time.Since(begun)
	w.processed(t, l, node+1)
	stored := time.Since(begun)
	t.Logf("another node was the committer after %v, and an event that came after the kill was in the table after %v",
		leases.Round(time.Millisecond), stored.Round(time.Millisecond))
	// Goal: 10 s for the leases, which run out after 9 s. The command that asks takes up to a second here.
	if leases > 12*time.Second {
		t.Errorf("got another committer after %v, want 10 s", leases)
	}
	w.startNode(node)
}

// processed sends an event through a node and waits until it is in the table.
func (w *world) processed(t *testing.T, l *ledger, node int) {
	t.Helper()
	w.processedWithin(t, l, node, 90*time.Second)
}

func (w *world) processedWithin(t *testing.T, l *ledger, node int, within time.Duration) {
	t.Helper()
	id := ""
	servicetest.Eventually(t, 60*time.Second, "an event accepted", func() error {
		e := l.add(fmt.Sprint("p", time.Now().UnixNano()), node, false)
		if status := w.try(l, e, node); status != http.StatusOK {
			return fmt.Errorf("got %d", status)
		}
		var receipt struct {
			ID string `json:"submission_id"`
		}
		err := json.Unmarshal([]byte(e.answer), &receipt)
		id = receipt.ID
		return err
	})
	servicetest.Eventually(t, within, "an event in the table", func() error {
		a, err := w.node(node).Call("GET", w.key, "/v1/submissions/"+id, "")
		if err != nil || !strings.Contains(string(a.Body), `"status":"PROCESSED"`) {
			return fmt.Errorf("%d %s %v", a.Status, a.Body, err)
		}
		return nil
	})
}

// served waits until each node has acknowledged an event that came after this call, and returns how long the last one took.
func (w *world) served(t *testing.T, l *ledger, within time.Duration) time.Duration {
	t.Helper()
	begun := time.Now()
	var wg sync.WaitGroup
	took := make([]time.Duration, nodes)
	for i := range nodes {
		wg.Go(func() {
			for n := 0; time.Since(begun) < 60*time.Second; n++ {
				if w.try(l, l.add(fmt.Sprintf("s%d-%d-%d", begun.UnixNano(), i, n), i, false), i) == http.StatusOK {
					took[i] = time.Since(begun)
					return
				}
				<-time.After(50 * time.Millisecond)
			}
			took[i] = time.Since(begun)
		})
	}
	wg.Wait()
	if longest := slices.Max(took); longest > within {
		t.Errorf("the nodes accepted events again after %v, want %v", took, within)
	}
	return slices.Max(took)
}

// rounds is how often each fault is tried: ROUNDS, or once without the long ones.
func rounds(t *testing.T) (n int, all bool) {
	text := os.Getenv("ROUNDS")
	if text == "" {
		return 1, false
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("ROUNDS=%q is not a number of rounds", text)
	}
	return n, true
}

// each says of how many acknowledged events one is looked up and sent again: all, but for the quick run.
func each(all bool) int {
	if all {
		return 1
	}
	return 10
}

// Nothing acknowledged is lost or doubled, whatever is killed or cut, senders are served again by themselves, and every
// receipt comes back from other nodes.
func TestFaults(t *testing.T) { newWorld(t).endure(t, faults()) }

// endure tries faults under load, each in several rounds, and compares the tables with what was acknowledged.
func (w *world) endure(t *testing.T, faults []fault) {
	t.Helper()
	n, all := rounds(t)
	l, stop := w.load(6)
	defer func() { stop() }()
	w.watch(t)
	unfollow := w.follow(t)
	defer unfollow()
	servicetest.Eventually(t, 60*time.Second, "the first acknowledged events", func() error {
		if l.count() < 100 {
			return fmt.Errorf("got %d", l.count())
		}
		return l.problem()
	})
	gaps := map[string]time.Duration{}
	ran := map[string]int{}
	for _, f := range faults {
		if f.long && !all {
			t.Logf("%s: only with ROUNDS", f.name)
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			for round := range n {
				gaps[f.name] = max(gaps[f.name], w.round(t, l, f, round, each(all)))
				ran[f.name]++
			}
		})
	}
	stop()
	unfollow()
	w.replay(t, l, each(all))
	for fault, o := range w.check(t, l) {
		if ran[fault] > 0 {
			t.Logf("%s: %d rounds, %d events acknowledged, %d lost, %d doubled, longest time without a 200 %v",
				fault, ran[fault], o.acked, o.lost, o.doubled, gaps[fault].Round(10*time.Millisecond))
		}
	}
}

// round does a fault once, waits until all is well, and looks at what was acknowledged.
func (w *world) round(t *testing.T, l *ledger, f fault, round, each int) (gap time.Duration) {
	t.Helper()
	l.begin(f.name)
	w.witness.Begin()
	begun := time.Now()
	f.do(t, w, l)
	healed := time.Now()
	before := l.count()
	servicetest.Eventually(t, 60*time.Second, "events after it", func() error {
		if got := l.count(); got < before+100 {
			return fmt.Errorf("got %d more", got-before)
		}
		return nil
	})
	served := time.Since(healed)
	gap, keyed := l.gap(begun)
	w.whole()
	inStep := time.Since(healed)
	w.processed(t, l, round)
	replayed := w.replay(t, l, each)
	t.Logf("round %d: signs: %s", round+1, w.witness.Signs())
	t.Logf("round %d: the fault took %v, then 100 events took %v; all replicas were in step after %v; longest time without a 200 %v, longest wait of a key %v; %d looked up and sent again",
		round+1, healed.Sub(begun).Round(time.Millisecond), served.Round(time.Millisecond), inStep.Round(time.Millisecond),
		gap.Round(time.Millisecond), keyed.Round(time.Millisecond), replayed)
	if err := l.problem(); err != nil {
		t.Error(err)
	}
	return gap
}
