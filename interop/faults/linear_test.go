//go:build faults

package faults

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// history is operations of many clients, with their times.
type history struct {
	mu    sync.Mutex
	begun time.Time
	ops   []porcupine.Operation
}

func newHistory() *history { return &history{begun: time.Now()} }

func (h *history) now() int64 { return int64(time.Since(h.begun)) }

// add notes an operation. One whose outcome is not known may take effect at any time later.
func (h *history) add(client int, in, out any, call, end int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: in, Output: out, Call: call, Return: end})
}

const never = math.MaxInt64

// check holds the history against a model and leaves a picture of it where it does not fit.
func (h *history) check(t *testing.T, m porcupine.Model) {
	t.Helper()
	result, info := porcupine.CheckOperationsVerbose(m, h.ops, time.Minute)
	if result == porcupine.Ok {
		return
	}
	path := filepath.Join(t.ArtifactDir(), "history.html")
	if err := porcupine.VisualizePath(m, info, path); err != nil {
		t.Log(err)
	}
	t.Errorf("%d operations: %v, see %s", len(h.ops), result, path)
}

// partition splits a history by the name in its input.
func partition[T any](name func(T) string) func([]porcupine.Operation) [][]porcupine.Operation {
	return func(all []porcupine.Operation) [][]porcupine.Operation {
		by := map[string][]porcupine.Operation{}
		for _, op := range all {
			n := name(op.Input.(T))
			by[n] = append(by[n], op)
		}
		var out [][]porcupine.Operation
		for _, ops := range by {
			out = append(out, ops)
		}
		return out
	}
}

// keyed is a request with an Idempotency-Key; kept is what the key stands for afterwards.
type (
	keyed struct{ key, body string }
	reply struct {
		status   int // 0 for an outcome that is not known
		replayed bool
		receipt  string
	}
	kept struct{ body, receipt string } // receipt "" while nobody has seen it
)

// register is what an Idempotency-Key must look like from outside: taken once, by one body, with one receipt.
var register = porcupine.NondeterministicModel{
	Partition: partition(func(k keyed) string { return k.key }),
	Init:      func() []any { return []any{kept{}} },
	Step: func(state, input, output any) []any {
		was, in, out := state.(kept), input.(keyed), output.(reply)
		switch {
		case out.status == http.StatusOK && !out.replayed && was == kept{}:
			return []any{kept{in.body, out.receipt}}
		case out.status == http.StatusOK && out.replayed && was.body == in.body && (was.receipt == out.receipt || was.receipt == ""):
			return []any{kept{in.body, out.receipt}}
		case out.status == http.StatusUnprocessableEntity && was.body != "" && was.body != in.body:
			return []any{was}
		case out.status == http.StatusConflict: // somebody is at it, or was a moment ago
			return []any{was}
		case out.status == 0 && was == kept{}:
			return []any{was, kept{in.body, ""}}
		case out.status == 0:
			return []any{was}
		}
		return nil
	},
	DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v -> %+v", in, out) },
	DescribeState:     func(state any) string { return fmt.Sprintf("%+v", state) },
}

// Many clients use the same few keys with two bodies while the server is killed again and again: what they see is a
// register that is written once. Whatever it says is also what is stored.
func TestIdempotencyIsLinear(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir, launch{})
	l := newLedger("shop", provisioned(t, dir, "shop"))
	var current atomic.Pointer[server]
	current.Store(s)
	h := newHistory()
	var wg sync.WaitGroup
	var stop atomic.Bool
	var keys atomic.Int64
	keys.Store(4)
	stamp := time.Now().Unix()
	for client := range 12 {
		wg.Go(func() {
			for !stop.Load() {
				// Mostly keys that others use now, sometimes an old one.
				k := keys.Load() - int64(rand.ExpFloat64()*4)
				in := keyed{fmt.Sprintf("k%d", max(0, k)), string(rune('a' + rand.IntN(2)))}
				event := fmt.Sprintf(`{"data_set_id":"shop","timestamp":%d,"event_type":"purchase","identifiers":{"email_sha256":"%064x","partner_id":"%s-%s"}}`, stamp, stamp, in.key, in.body)
				call := h.now()
				a, err := current.Load().post(l.Key, "/v1/events", event, "Idempotency-Key", in.key)
				end := h.now()
				out := reply{status: a.Status, replayed: a.Header.Get("Idempotency-Replayed") == "true"}
				switch {
				case err != nil || a.Status == http.StatusServiceUnavailable:
					out, end = reply{}, never
					pause(5 * time.Millisecond)
				case a.Status == http.StatusOK:
					out.receipt = string(a.Body)
				}
				h.add(client, in, out, call, end)
				if rand.IntN(6) == 0 {
					keys.Add(1)
				}
			}
		})
	}
	n := rounds(t, 20, 3)
	for range n {
		pause(time.Duration(100+rand.IntN(300)) * time.Millisecond)
		current.Load().Stop(syscall.SIGKILL)
		current.Store(start(t, dir, launch{}))
	}
	pause(200 * time.Millisecond)
	stop.Store(true)
	wg.Wait()
	h.check(t, register.ToModel())
	counts := map[int]int{}
	replays := 0
	won := map[string]string{} // by key, the body that has it
	for _, op := range h.ops {
		in, out := op.Input.(keyed), op.Output.(reply)
		counts[out.status]++
		if out.replayed {
			replays++
		}
		if out.status == http.StatusOK {
			won[in.key] = in.body
		}
	}
	t.Logf("%d kills, %d operations on %d keys: %v, %d of the 200 were replays", n, len(h.ops), keys.Load(), counts, replays)
	if replays == 0 || counts[http.StatusUnprocessableEntity] == 0 || counts[0] == 0 {
		t.Error("not every kind of answer came up: the test shows too little")
	}
	l.Settle(t, current.Load(), 30*time.Second)
	found := stored(t, dir, "shop")
	for key, body := range won {
		other := map[string]string{"a": "b", "b": "a"}[body]
		if found[key+"-"+body] != 1 || found[key+"-"+other] != 0 {
			t.Errorf("key %s belongs to body %s: stored %d times, and the other body %d times", key, body, found[key+"-"+body], found[key+"-"+other])
		}
	}
}

// use is one use of an API key, or its revocation.
type use struct {
	key    string
	revoke bool
}

// revocation is what an API key must look like: it works until it is revoked and never again.
var revocation = porcupine.NondeterministicModel{
	Partition: partition(func(u use) string { return u.key }),
	Init:      func() []any { return []any{true} }, // live
	Step: func(state, input, output any) []any {
		live, in, status := state.(bool), input.(use), output.(int)
		switch {
		case in.revoke && status == 0: // not known
			return []any{live, false}
		case in.revoke:
			return []any{false}
		case live && status == http.StatusOK, !live && status == http.StatusForbidden:
			return []any{live}
		}
		return nil
	},
	DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v -> %v", in, out) },
	DescribeState:     func(state any) string { return fmt.Sprintf("live=%v", state) },
}

// Keys are revoked while they are in use and the server is killed: a revocation takes hold within five seconds of the
// command's end, and then for good.
func TestRevocationIsLinear(t *testing.T) {
	const within = 5 * time.Second
	dir := t.TempDir()
	var current atomic.Pointer[server]
	current.Store(start(t, dir, launch{}))
	h := newHistory()
	n := rounds(t, 12, 2)
	keys := make([]string, n)
	call := func(client, i int) int {
		at := h.now()
		a, err := current.Load().post(keys[i], "/v1/events", fmt.Sprintf(
			`{"data_set_id":"d%d","timestamp":%d,"event_type":"purchase","identifiers":{"email_sha256":"%064x"}}`, i, time.Now().Unix(), 77))
		if err == nil && a.Status != http.StatusServiceUnavailable {
			h.add(client, use{key: fmt.Sprint(i)}, a.Status, at, h.now())
			return a.Status
		}
		pause(5 * time.Millisecond)
		return 0
	}
	for i := range n {
		out, err := sluice(t, nil, "dataset", "create", fmt.Sprint("d", i), "--data", dir, "--json")
		var made struct {
			KeyID string `json:"key_id"`
			Key   string `json:"api_key"`
		}
		if err != nil || json.Unmarshal([]byte(out), &made) != nil {
			t.Fatal(err, out)
		}
		keys[i] = made.Key
		eventually(t, within, "key works", func() error { // a new key has the same five seconds
			a, err := current.Load().post(keys[i], "/v1/events/validate", "{}")
			if err != nil || a.Status == http.StatusForbidden {
				return fmt.Errorf("%d %v", a.Status, err)
			}
			return nil
		})
		revokeInUse(t, dir, &current, h, i, made.KeyID, call)
	}
	pause(within)
	for i := range n { // these come too late for any revocation
		if status := call(9, i); status != http.StatusForbidden {
			t.Errorf("key of round %d: %d, five seconds after its revocation", i, status)
		}
	}
	h.check(t, revocation.ToModel())
	counts := map[string]int{}
	for _, op := range h.ops {
		counts[fmt.Sprintf("revoke=%v %v", op.Input.(use).revoke, op.Output)]++
	}
	t.Logf("%d keys, %d operations: %v", n, len(h.ops), counts)
}

// revokeInUse revokes a key under load. In every other round the server is killed meanwhile.
func revokeInUse(t *testing.T, dir string, current *atomic.Pointer[server], h *history, i int, keyID string, call func(client, i int) int) {
	t.Helper()
	const within = 5 * time.Second
	var stop atomic.Bool
	var wg sync.WaitGroup
	for client := range 4 {
		wg.Go(func() {
			for !stop.Load() {
				call(client, i)
			}
		})
	}
	pause(100 * time.Millisecond)
	revoked := make(chan error, 1)
	go func() {
		at := h.now()
		_, err := sluice(t, nil, "key", "revoke", keyID, "--data", dir)
		if err != nil {
			h.add(8, use{fmt.Sprint(i), true}, 0, at, never)
		} else {
			h.add(8, use{fmt.Sprint(i), true}, http.StatusOK, at, h.now()+int64(within))
		}
		revoked <- err
	}()
	if i%2 == 1 {
		pause(time.Duration(rand.IntN(100)) * time.Millisecond)
		current.Load().Stop(syscall.SIGKILL)
		current.Store(start(t, dir, launch{}))
	}
	if err := <-revoked; err != nil { // killed in the middle: the operator does it again
		at := h.now()
		if _, err := sluice(t, nil, "key", "revoke", keyID, "--data", dir); err != nil {
			t.Error(err)
		}
		h.add(8, use{fmt.Sprint(i), true}, http.StatusOK, at, h.now()+int64(within))
	}
	pause(300 * time.Millisecond)
	stop.Store(true)
	wg.Wait()
}
