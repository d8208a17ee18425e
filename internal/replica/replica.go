// Package replica keeps copies in memory of what is in the engine, on every node: of datasets, readers and lists.
package replica

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
	// poll is how often a running copy asks whether anything changed. A revocation must hold within 5 s; asking is one
	// small request, and unlike a subscription it cannot fall silent unnoticed.
	poll = time.Second
	// askWait bounds one question to the engine.
	askWait = 3 * time.Second
	// newsWait is how long a change waits for a running copy to have taken it in. Arbitrary, well under a second.
	newsWait = 500 * time.Millisecond
)

// Replica keeps a copy of a bucket current. The copy itself is with the caller, which Read replaces. Its methods may be
// called by many goroutines.
type Replica struct {
	Engine *engine.Engine
	Bucket *engine.Bucket
	What   string // what the bucket holds; also the topic that announces a change, so that it holds when a command returns
	Now    func() time.Time
	Log    *slog.Logger
	// Read reads the bucket and returns the revision that it has read, and what puts it in the place of the copy.
	Read func(context.Context) (revision uint64, swap func(), err error)
	Wait time.Duration // bounds one Read; 0 is 3 s

	mu   sync.Mutex // one read at a time
	seen atomic.Uint64

	loads, failures atomic.Uint64
	synced          atomic.Int64 // when the copy was last known to be current, Unix nanoseconds
}

// Run keeps the copy in memory current until ctx ends: a change made anywhere is seen within about a second, mostly at
// once. While the engine cannot be reached, the last good copy stays in force.
func (r *Replica) Run(ctx context.Context) error {
	stop, err := r.Engine.Listen(r.What, func() error { return r.Refresh(ctx) })
	if err != nil {
		return fmt.Errorf("watch %s: %w", r.What, err)
	}
	defer stop()
	stale := false
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		changed := r.Engine.Changed()
		err := r.Refresh(ctx)
		if failed := err != nil && ctx.Err() == nil; failed != stale {
			stale = failed
			if stale {
				r.Log.Warn(r.What+" cannot be read, the last copy stays in force", "error", err)
			} else {
				r.Log.Info(r.What + " are current again")
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

// Refresh reads everything anew if anything was written since the last time.
func (r *Replica) Refresh(ctx context.Context) error {
	ask, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	last, err := r.Bucket.Revision(ask)
	if err == nil && last != r.seen.Load() {
		err = r.Load(ctx)
	}
	if err != nil {
		r.failures.Add(1)
		return err
	}
	r.synced.Store(r.Now().UnixNano())
	return nil
}

// Published takes a change of its own in, then tells a running copy and waits until that has it too, if there is one.
// Nobody listening is no error; an announcement may get lost, and a running copy still asks every second.
func (r *Replica) Published(ctx context.Context) error {
	if err := r.Load(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, newsWait)
	defer cancel()
	r.Engine.Announce(ctx, r.What)
	return nil
}

// Load reads everything and swaps it in. Revisions only grow: a server of a cluster that answers with a lower one was
// replaced or cut off, and has not caught up. Were it believed, valid keys would be rejected, and revoked ones could
// come back.
func (r *Replica) Load(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, max(r.Wait, askWait))
	defer cancel()
	revision, swap, err := r.Read(ctx)
	if err == nil && revision < r.seen.Load() {
		err = engine.ErrBehind
	}
	if err != nil {
		return err
	}
	swap()
	r.seen.Store(revision)
	r.synced.Store(r.Now().UnixNano())
	r.loads.Add(1)
	return nil
}

// Stats are the numbers of a copy.
type Stats struct {
	Loads, Failures uint64    // times everything was read; times the engine did not answer
	Synced          time.Time // when the copy was last known to be current
}

// Stats returns the numbers of now.
func (r *Replica) Stats() Stats {
	return Stats{Loads: r.loads.Load(), Failures: r.failures.Load(), Synced: time.Unix(0, r.synced.Load()).UTC()}
}
