package dataset

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/engine"
)

const (
	// refresh is how often a running registry asks whether anything changed. A revocation must hold within 5 s; asking
	// is one small request, and unlike a subscription it cannot fall silent unnoticed.
	refresh = time.Second
	// askWait bounds one question to the engine.
	askWait = 3 * time.Second
	// newsWait is how long a change waits for a running registry to have taken it in. Arbitrary, well under a second.
	newsWait = 500 * time.Millisecond
)

// replica keeps a copy of a bucket in memory current. The copy itself is with the caller, which take replaces.
type replica struct {
	e    *engine.Engine
	kv   *engine.Bucket
	what string // what the bucket holds; also the topic that announces a change, so that it holds when a command returns
	now  func() time.Time
	log  *slog.Logger
	take func([]engine.Entry)

	mu   sync.Mutex // one load at a time
	seen atomic.Uint64

	loads, failures atomic.Uint64
	synced          atomic.Int64 // when the copy was last known to be current, Unix nanoseconds
}

// Run keeps the copy in memory current until ctx ends: a change made anywhere is seen within about a second, mostly at
// once. While the engine cannot be reached, the last good copy stays in force.
func (r *replica) Run(ctx context.Context) error {
	stop, err := r.e.Listen(r.what, func() error { return r.refresh(ctx) })
	if err != nil {
		return fmt.Errorf("watch %s: %w", r.what, err)
	}
	defer stop()
	stale := false
	tick := time.NewTicker(refresh)
	defer tick.Stop()
	for {
		changed := r.e.Changed()
		err := r.refresh(ctx)
		if failed := err != nil && ctx.Err() == nil; failed != stale {
			stale = failed
			if stale {
				r.log.Warn(r.what+" cannot be read, the last copy stays in force", "error", err)
			} else {
				r.log.Info(r.what + " are current again")
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-changed:
		}
	}
}

// refresh reads everything anew if anything was written since the last time.
func (r *replica) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	last, err := r.kv.Revision(ctx)
	if err == nil && last != r.seen.Load() {
		err = r.load(ctx)
	}
	if err != nil {
		r.failures.Add(1)
		return err
	}
	r.synced.Store(r.now().UnixNano())
	return nil
}

// published takes a change of its own in, then tells a running registry and waits until that has it too, if there
// is one. Nobody listening is no error; an announcement may get lost, and the registry still asks every second.
func (r *replica) published(ctx context.Context) error {
	if err := r.load(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, newsWait)
	defer cancel()
	r.e.Announce(ctx, r.what)
	return nil
}

// load reads everything and swaps it in. Revisions only grow: a server of a cluster that answers with a lower one was
// replaced or cut off, and has not caught up. Were it believed, valid keys would be rejected, and revoked ones could come back.
func (r *replica) load(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	records, revision, err := r.kv.All(ctx)
	if err == nil && revision < r.seen.Load() {
		err = engine.ErrBehind
	}
	if err != nil {
		return err
	}
	r.take(records)
	r.seen.Store(revision)
	r.synced.Store(r.now().UnixNano())
	r.loads.Add(1)
	return nil
}
