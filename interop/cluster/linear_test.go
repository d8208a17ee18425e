//go:build faults

package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/interop/linear"
)

// strikes kills the leader of a partition again and again.
func (w *world) strikes(n int) {
	for i := range n {
		s := w.servers[w.leader(i%partitions)]
		s.Kill()
		time.Sleep(time.Duration(1000+rand.IntN(6000)) * time.Millisecond) // the fault itself: with and without an election
		s.Restart()
		w.whole()
	}
}

// Many clients use the same few keys with two bodies through all nodes while leaders are killed: what they see is a register
// that is written once, and what it says is stored.
func TestIdempotencyIsLinear(t *testing.T) {
	n, _ := rounds(t)
	w := newWorld(t)
	h := linear.NewHistory()
	var wg sync.WaitGroup
	var stop atomic.Bool
	var keys atomic.Int64
	keys.Store(4)
	for client := range 12 {
		wg.Go(func() {
			for !stop.Load() {
				k := keys.Load() - int64(rand.ExpFloat64()*4) // mostly keys that others use now, sometimes an old one
				in := linear.Keyed{Key: fmt.Sprintf("k%d", max(0, k)), Body: string(rune('a' + rand.IntN(2)))}
				w.ask(h, client, in)
				if rand.IntN(6) == 0 {
					keys.Add(1)
				}
			}
		})
	}
	w.strikes(n)
	stop.Store(true)
	wg.Wait()
	h.Check(t, linear.Register.ToModel())
	won := h.Won(t)
	t.Logf("%d leaders killed, %d operations on %d keys", n, len(h.Ops), keys.Load())
	stored := w.stored(t)
	for key, body := range won {
		other := map[string]string{"a": "b", "b": "a"}[body]
		if stored[key+"-"+body] != 1 || stored[key+"-"+other] != 0 {
			t.Errorf("key %s belongs to body %s: stored %d times, and the other body %d times, want 1 and 0", key, body, stored[key+"-"+body], stored[key+"-"+other])
		}
	}
}

// stamp is the time of events whose bodies must be the same.
var stamp = time.Now().Add(-2 * time.Hour).Unix()

// ask sends a keyed request through any node, and notes what came back.
func (w *world) ask(h *linear.History, client int, in linear.Keyed) {
	body := fmt.Sprintf(`{"data_set_id":"shop","timestamp":%d,"event_type":"purchase","identifiers":{"email_sha256":"%064x","partner_id":"%s-%s"}}`,
		stamp, stamp, in.Key, in.Body)
	call := h.Now()
	a, err := w.node(rand.IntN(nodes)).Call("POST", w.key, "/v1/events", body, "Idempotency-Key", in.Key)
	end := h.Now()
	out := linear.Reply{Status: a.Status, Replayed: a.Header.Get("Idempotency-Replayed") == "true"}
	switch {
	case err != nil || a.Status == http.StatusServiceUnavailable:
		out, end = linear.Reply{}, linear.Never
	case a.Status == http.StatusOK:
		out.Receipt = string(a.Body)
	}
	h.Add(client, in, out, call, end)
	pause := 10 * time.Millisecond
	if out.Status == 0 { // each operation without an outcome costs the check much
		pause = 200 * time.Millisecond
	}
	<-time.After(pause)
}

// Keys are revoked while all nodes use them and leaders are killed: a revocation takes hold everywhere within five seconds of
// the command's end, and then for good.
func TestRevocationIsLinear(t *testing.T) {
	n, _ := rounds(t)
	w := newWorld(t)
	h := linear.NewHistory()
	r := &revoked{w: w, h: h}
	struck := make(chan struct{})
	go func() {
		defer close(struck)
		w.strikes(n)
	}()
	keys := 0
	for over := false; !over; keys++ {
		select {
		case <-struck:
			over = true
		default:
		}
		r.revoke(t, keys)
	}
	<-time.After(takesHold)
	for i, key := range r.keys { // these come too late for any revocation
		for node := range nodes {
			if status := r.use(9, i, node, key); status != http.StatusForbidden {
				t.Errorf("key %d, node %d: got %d five seconds after its revocation, want 403", i, node, status)
			}
		}
	}
	h.Check(t, linear.Revocation.ToModel())
	counts := map[string]int{}
	for _, op := range h.Ops {
		counts[fmt.Sprintf("revoke=%v %v", op.Input.(linear.Use).Revoke, op.Output)]++
	}
	t.Logf("%d leaders killed, %d keys, %d operations: %v", n, keys, len(h.Ops), counts)
}

// takesHold is how long a revocation may take.
const takesHold = 5 * time.Second

// revoked makes keys and revokes them.
type revoked struct {
	w *world
	h *linear.History

	keys, datasets []string
}

// at names a key on a node: each node learns of a revocation at its own time.
func at(key, node int) string { return fmt.Sprint(key, "@", node) }

// use sends an event with a key, and notes what came back unless nobody knows.
func (r *revoked) use(client, i, node int, key string) int {
	call := r.h.Now()
	a, err := r.w.node(node).Call("POST", key, "/v1/events", strings.Replace(event(fmt.Sprint("r", i)), `"shop"`, `"`+r.datasets[i]+`"`, 1))
	if err != nil || a.Status == http.StatusServiceUnavailable {
		<-time.After(20 * time.Millisecond)
		return 0
	}
	r.h.Add(client, linear.Use{Key: at(i, node)}, a.Status, call, r.h.Now())
	return a.Status
}

// insist runs a command until it succeeds, as an operator does while NATS chooses a leader.
func (r *revoked) insist(t *testing.T, do func(context.Context) error) {
	t.Helper()
	var err error
	for range 20 {
		if err = do(t.Context()); err == nil {
			return
		}
		<-time.After(500 * time.Millisecond)
	}
	t.Fatal(err)
}

// revoke makes a key, uses it on all nodes and revokes it meanwhile.
func (r *revoked) revoke(t *testing.T, i int) {
	t.Helper()
	w := r.w
	var key, id, name string
	tries := 0
	r.insist(t, func(ctx context.Context) (err error) {
		tries++
		name = fmt.Sprintf("d%d-%d", i, tries) // the try before may have made its dataset without saying its key
		key, id, err = w.program.CreateDataset(ctx, w.operator(), name, w.flags...)
		return err
	})
	r.keys, r.datasets = append(r.keys, key), append(r.datasets, name)
	for node := range nodes {
		for begun := time.Now(); ; {
			a, err := w.node(node).Call("POST", key, "/v1/events/validate", "{}")
			if err == nil && a.Status != http.StatusForbidden {
				break
			}
			if time.Since(begun) > 20*time.Second {
				t.Fatalf("node %d: got %d %v for a new key, want it to work", node, a.Status, err)
			}
			<-time.After(50 * time.Millisecond)
		}
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	for client := range 2 * nodes {
		wg.Go(func() {
			for !stop.Load() {
				r.use(client, i, client%nodes, key)
				<-time.After(5 * time.Millisecond)
			}
		})
	}
	<-time.After(200 * time.Millisecond)
	r.insist(t, func(ctx context.Context) error {
		call := r.h.Now()
		_, err := w.program.Run(ctx, append([]string{"key", "revoke", id, "--data", w.operator()}, w.flags...)...)
		status, end := http.StatusOK, r.h.Now()+int64(takesHold)
		if err != nil {
			status, end = 0, linear.Never
		}
		for node := range nodes {
			r.h.Add(20+node, linear.Use{Key: at(i, node), Revoke: true}, status, call, end)
		}
		return err
	})
	<-time.After(500 * time.Millisecond)
	stop.Store(true)
	wg.Wait()
}
