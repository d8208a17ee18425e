//go:build faults

package faults

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice/interop/linear"
)

// Many clients use the same few keys with two bodies while the server is killed again and again: what they see is a
// register that is written once. Whatever it says is also what is stored.
func TestIdempotencyIsLinear(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir, launch{})
	l := newLedger("shop", provisioned(t, dir, "shop"))
	var current atomic.Pointer[server]
	current.Store(s)
	h := linear.NewHistory()
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
				in := linear.Keyed{Key: fmt.Sprintf("k%d", max(0, k)), Body: string(rune('a' + rand.IntN(2)))}
				event := fmt.Sprintf(`{"data_set_id":"shop","timestamp":%d,"event_type":"purchase","identifiers":{"email_sha256":"%064x","partner_id":"%s-%s"}}`, stamp, stamp, in.Key, in.Body)
				call := h.Now()
				a, err := current.Load().post(l.Key, "/v1/events", event, "Idempotency-Key", in.Key)
				end := h.Now()
				out := linear.Reply{Status: a.Status, Replayed: a.Header.Get("Idempotency-Replayed") == "true"}
				switch {
				case err != nil || a.Status == http.StatusServiceUnavailable:
					out, end = linear.Reply{}, linear.Never
					pause(5 * time.Millisecond)
				case a.Status == http.StatusOK:
					out.Receipt = string(a.Body)
				}
				h.Add(client, in, out, call, end)
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
	h.Check(t, linear.Register.ToModel())
	won := h.Won(t)
	t.Logf("%d kills, %d operations on %d keys", n, len(h.Ops), keys.Load())
	l.Settle(t, current.Load(), 30*time.Second)
	found := stored(t, dir, "shop")
	for key, body := range won {
		other := map[string]string{"a": "b", "b": "a"}[body]
		if found[key+"-"+body] != 1 || found[key+"-"+other] != 0 {
			t.Errorf("key %s belongs to body %s: stored %d times, and the other body %d times", key, body, found[key+"-"+body], found[key+"-"+other])
		}
	}
}

// Keys are revoked while they are in use and the server is killed: a revocation takes hold within five seconds of the
// command's end, and then for good.
func TestRevocationIsLinear(t *testing.T) {
	const within = 5 * time.Second
	dir := t.TempDir()
	var current atomic.Pointer[server]
	current.Store(start(t, dir, launch{}))
	h := linear.NewHistory()
	n := rounds(t, 12, 2)
	keys := make([]string, n)
	call := func(client, i int) int {
		at := h.Now()
		a, err := current.Load().post(keys[i], "/v1/events", fmt.Sprintf(
			`{"data_set_id":"d%d","timestamp":%d,"event_type":"purchase","identifiers":{"email_sha256":"%064x"}}`, i, time.Now().Unix(), 77))
		if err == nil && a.Status != http.StatusServiceUnavailable {
			h.Add(client, linear.Use{Key: fmt.Sprint(i)}, a.Status, at, h.Now())
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
	h.Check(t, linear.Revocation.ToModel())
	counts := map[string]int{}
	for _, op := range h.Ops {
		counts[fmt.Sprintf("revoke=%v %v", op.Input.(linear.Use).Revoke, op.Output)]++
	}
	t.Logf("%d keys, %d operations: %v", n, len(h.Ops), counts)
}

// revokeInUse revokes a key under load. In every other round the server is killed meanwhile.
func revokeInUse(t *testing.T, dir string, current *atomic.Pointer[server], h *linear.History, i int, keyID string, call func(client, i int) int) {
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
		at := h.Now()
		_, err := sluice(t, nil, "key", "revoke", keyID, "--data", dir)
		if err != nil {
			h.Add(8, linear.Use{Key: fmt.Sprint(i), Revoke: true}, 0, at, linear.Never)
		} else {
			h.Add(8, linear.Use{Key: fmt.Sprint(i), Revoke: true}, http.StatusOK, at, h.Now()+int64(within))
		}
		revoked <- err
	}()
	if i%2 == 1 {
		pause(time.Duration(rand.IntN(100)) * time.Millisecond)
		current.Load().Stop(syscall.SIGKILL)
		current.Store(start(t, dir, launch{}))
	}
	if err := <-revoked; err != nil { // killed in the middle: the operator does it again
		at := h.Now()
		if _, err := sluice(t, nil, "key", "revoke", keyID, "--data", dir); err != nil {
			t.Error(err)
		}
		h.Add(8, linear.Use{Key: fmt.Sprint(i), Revoke: true}, http.StatusOK, at, h.Now()+int64(within))
	}
	pause(300 * time.Millisecond)
	stop.Store(true)
	wg.Wait()
}
