// Package linear has what idempotency keys and revoked API keys must look like to their users, as models for porcupine.
package linear

import (
	"fmt"
	"math"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// History is operations of many clients, with their times.
type History struct {
	mu    sync.Mutex
	begun time.Time
	Ops   []porcupine.Operation
}

// NewHistory begins a history now.
func NewHistory() *History { return &History{begun: time.Now()} }

// Now is the time of a call or its return.
func (h *History) Now() int64 { return int64(time.Since(h.begun)) }

// Add notes an operation. One whose outcome is not known may take effect at any time later.
func (h *History) Add(client int, in, out any, call, end int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.Ops = append(h.Ops, porcupine.Operation{ClientId: client, Input: in, Output: out, Call: call, Return: end})
}

// Never is the return of an operation whose outcome is not known.
const Never = math.MaxInt64

// Check holds the history against a model and leaves a picture of it where it does not fit.
func (h *History) Check(t *testing.T, m porcupine.Model) {
	t.Helper()
	result, info := porcupine.CheckOperationsVerbose(m, h.Ops, time.Minute)
	if result == porcupine.Ok {
		return
	}
	path := filepath.Join(t.ArtifactDir(), "history.html")
	if err := porcupine.VisualizePath(m, info, path); err != nil {
		t.Log(err)
	}
	t.Errorf("%d operations: %v, see %s", len(h.Ops), result, path)
}

// Won returns the body that has each key, after a history of keyed requests. It fails where a kind of answer did not come up:
// then the history shows too little.
func (h *History) Won(t *testing.T) map[string]string {
	t.Helper()
	counts, replays, won := map[int]int{}, 0, map[string]string{}
	for _, op := range h.Ops {
		in, out := op.Input.(Keyed), op.Output.(Reply)
		counts[out.Status]++
		if out.Replayed {
			replays++
		}
		if out.Status == http.StatusOK {
			won[in.Key] = in.Body
		}
	}
	t.Logf("answers: %v, %d of the 200 were replays", counts, replays)
	if replays == 0 || counts[http.StatusUnprocessableEntity] == 0 || counts[0] == 0 {
		t.Error("not every kind of answer came up: the test shows too little")
	}
	return won
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

// Keyed is a request with an Idempotency-Key, and Reply its answer.
type (
	Keyed struct{ Key, Body string }
	Reply struct {
		Status   int // 0 for an outcome that is not known
		Replayed bool
		Receipt  string
	}
)

// kept is what a key stands for.
type kept struct{ body, receipt string } // receipt "" while nobody has seen it

// Register is what an Idempotency-Key must look like from outside: taken once, by one body, with one receipt.
var Register = porcupine.NondeterministicModel{
	Partition: partition(func(k Keyed) string { return k.Key }),
	Init:      func() []any { return []any{kept{}} },
	Step: func(state, input, output any) []any {
		was, in, out := state.(kept), input.(Keyed), output.(Reply)
		switch {
		case out.Status == http.StatusOK && !out.Replayed && was == kept{}:
			return []any{kept{in.Body, out.Receipt}}
		case out.Status == http.StatusOK && out.Replayed && was.body == in.Body && (was.receipt == out.Receipt || was.receipt == ""):
			return []any{kept{in.Body, out.Receipt}}
		case out.Status == http.StatusUnprocessableEntity && was.body != "" && was.body != in.Body:
			return []any{was}
		case out.Status == http.StatusConflict: // somebody is at it, or was a moment ago
			return []any{was}
		case out.Status == 0 && was == kept{}:
			return []any{was, kept{in.Body, ""}}
		case out.Status == 0:
			return []any{was}
		}
		return nil
	},
	DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v -> %+v", in, out) },
	DescribeState:     func(state any) string { return fmt.Sprintf("%+v", state) },
}

// Use is one use of an API key, or its revocation. Its output is the HTTP status, 0 where that is not known.
type Use struct {
	Key    string
	Revoke bool
}

// Revocation is what an API key must look like: it works until it is revoked and never again.
var Revocation = porcupine.NondeterministicModel{
	Partition: partition(func(u Use) string { return u.Key }),
	Init:      func() []any { return []any{true} }, // live
	Step: func(state, input, output any) []any {
		live, in, status := state.(bool), input.(Use), output.(int)
		switch {
		case in.Revoke && status == 0: // not known
			return []any{live, false}
		case in.Revoke:
			return []any{false}
		case live && status == http.StatusOK, !live && status == http.StatusForbidden:
			return []any{live}
		}
		return nil
	},
	DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v -> %v", in, out) },
	DescribeState:     func(state any) string { return fmt.Sprintf("live=%v", state) },
}
