package alarm

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"sluice/internal/engine"
)

// historyMax is how many alarms are remembered.
const historyMax = 1000

// Episode is an alarm from its beginning to its end, as it is in the engine.
type Episode struct {
	ID       string    `json:"id"`
	Alarm    string    `json:"alarm"`
	Severity string    `json:"severity"`
	Dataset  string    `json:"dataset,omitempty"`
	Node     string    `json:"node,omitempty"` // whose alarm it is in a cluster; empty for those of all nodes
	Since    time.Time `json:"since"`
	Until    time.Time `json:"until,omitzero"` // zero while it lasts
	Summary  string    `json:"summary"`
	Do       string    `json:"do"`
	Path     string    `json:"path,omitempty"`
	Told     string    `json:"told,omitempty"` // what the webhook was told last: stateFiring or stateResolved
}

// The states of an alarm as the webhook is told.
const (
	stateFiring   = "firing"
	stateResolved = "resolved"
)

// kept is an episode and what the engine has of it.
type kept struct {
	Episode
	revision uint64 // in the engine; 0 while it is not there
	dirty    bool   // the engine has an older one
}

// history remembers when alarms began and ended, over restarts and on all nodes, and says so in the log, once each. The
// episodes are in memory; keep writes them into the engine. The zero value remembers nothing.
type history struct {
	mu       sync.Mutex
	bucket   *engine.Bucket // nil before open
	all      map[string]*kept
	gone     []*kept // to be deleted
	revision uint64  // of the bucket when it was last read
}

// open reads what was remembered.
func (h *history) open(ctx context.Context, e *engine.Engine) error {
	b, err := e.Bucket(ctx, engine.Alarms)
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.bucket = b
	h.mu.Unlock()
	return h.read(ctx)
}

// read takes over what other nodes have written. What this node has not written yet stays.
func (h *history) read(ctx context.Context) error {
	last, err := h.bucket.Revision(ctx)
	if err != nil || last == h.revision {
		return err
	}
	entries, revision, err := h.bucket.All(ctx)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	there := map[string]bool{}
	for _, entry := range entries {
		k := &kept{revision: entry.Revision}
		if json.Unmarshal(entry.Value, &k.Episode) != nil || k.ID != entry.Key {
			continue // of another version
		}
		there[k.ID] = true
		if own := h.all[k.ID]; own != nil && own.dirty {
			own.revision = entry.Revision
			continue
		}
		h.put(k)
	}
	maps.DeleteFunc(h.all, func(id string, k *kept) bool { return !there[id] && !k.dirty })
	h.revision = revision
	return nil
}

func (h *history) put(k *kept) {
	if h.all == nil {
		h.all = map[string]*kept{}
	}
	h.all[k.ID] = k
}

// look compares the alarms that are on with those that were. mine says which episodes this node decides about, and
// owner whose an alarm is.
func (h *history) look(now time.Time, on []Raised, mine func(*Episode) bool, owner func(*Raised) string,
	log *slog.Logger,
) {
	h.mu.Lock()
	defer h.mu.Unlock()
	type key struct{ alarm, dataset, node string }
	open := map[key]*kept{}
	for _, k := range h.all {
		if k.Until.IsZero() && mine(&k.Episode) {
			open[key{k.Alarm, k.Dataset, k.Node}] = k
		}
	}
	for i := range on {
		a := &on[i]
		at := key{a.Name, a.Subject, owner(a)}
		if k := open[at]; k != nil {
			k.Summary = a.Say // written with the end: not every second
			delete(open, at)
			continue
		}
		e := Episode{
			ID: strings.ToLower(rand.Text()), Alarm: a.Name, Severity: a.Level, Dataset: a.Subject, Node: at.node,
			Since: now.UTC().Truncate(time.Second), Summary: a.Say, Do: a.Do, Path: a.Path,
		}
		log.Warn("alarm", "alarm", a.Name, "severity", a.Level, "says", a.Say)
		h.put(&kept{Episode: e, dirty: true})
	}
	for _, k := range open {
		k.Until, k.dirty = now.UTC().Truncate(time.Second), true
		lasted := max(0, now.Sub(k.Since)) // it may have begun by the clock of another node, or before this one was set
		log.Info("alarm is over", "alarm", k.Alarm, "lasted", lasted.Round(time.Second))
	}
	h.forget()
}

// forget drops the oldest episodes that have ended. The lock is held.
func (h *history) forget() {
	for _, k := range h.sorted() {
		if len(h.all) <= historyMax {
			return
		}
		if !k.Until.IsZero() {
			delete(h.all, k.ID)
			h.gone = append(h.gone, k)
		}
	}
}

// sorted are all, oldest first. The lock is held.
func (h *history) sorted() []*kept {
	return slices.SortedFunc(maps.Values(h.all), func(a, b *kept) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.ID, b.ID))
	})
}

// write brings the engine up to what is remembered. What it does not take is written the next time.
func (h *history) write(ctx context.Context) error {
	h.mu.Lock()
	var due []kept
	for _, k := range h.sorted() {
		if k.dirty {
			due = append(due, *k)
		}
	}
	gone := h.gone
	h.gone = nil
	h.mu.Unlock()
	for i, k := range gone {
		if err := h.bucket.Delete(ctx, k.ID, 0); err != nil {
			h.mu.Lock()
			h.gone = append(gone[i:], h.gone...)
			h.mu.Unlock()
			return err
		}
	}
	for i := range due {
		if err := h.writeOne(ctx, &due[i]); err != nil {
			return err
		}
	}
	return nil
}

func (h *history) writeOne(ctx context.Context, k *kept) error {
	b, err := json.Marshal(k.Episode)
	if err != nil {
		return err
	}
	revision, err := h.bucket.Set(ctx, k.ID, b, k.revision)
	// an earlier try had arrived, or another node was first
	if errors.Is(err, engine.ErrRevision) || errors.Is(err, engine.ErrExists) {
		now, gerr := h.bucket.Get(ctx, k.ID)
		if gerr != nil {
			return gerr
		}
		revision, err = h.bucket.Update(ctx, k.ID, b, now.Revision)
	}
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if own := h.all[k.ID]; own != nil {
		own.revision = revision
		own.dirty = own.Episode != k.Episode && (own.Until != k.Until || own.Told != k.Told)
	}
	return nil
}

// tell notes what the webhook was told.
func (h *history) tell(id, state string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if k := h.all[id]; k != nil {
		k.Told, k.dirty = state, true
	}
}

// episodes are the alarms, oldest first.
func (h *history) episodes() (out []Episode) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, k := range h.sorted() {
		out = append(out, k.Episode)
	}
	return out
}
