package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Health returns nil when the engine would take a write as far as can be known without making one. It asks nobody
// over a network and returns at once.
func (e *Engine) Health() error {
	if f := e.fault.Load(); f != nil {
		return *f
	}
	if e.mode == Embedded {
		srv := e.srv.Load()
		if srv == nil {
			return errors.New("the engine is stopped")
		}
		if !srv.JetStreamEnabled() {
			return errors.New("the engine has turned its storage off")
		}
	}
	if _, rejected := e.rejected.Load(e.nc); rejected {
		return errCredentials
	}
	if !e.nc.IsConnected() {
		return fmt.Errorf("no connection to the %s engine", e.mode)
	}
	return nil
}

// errCredentials is what is wrong while a server rejects the credentials of a connection that it had accepted.
var errCredentials = errors.New("NATS rejects the credentials of this node")

// rejectsCredentials says whether an error is about credentials.
func rejectsCredentials(err error) bool {
	return errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) ||
		errors.Is(err, nats.ErrAuthRevoked) || errors.Is(err, nats.ErrAccountAuthExpired)
}

// Unwell returns a channel that is closed when Health may next have become an error.
func (e *Engine) Unwell() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.unwell
}

// Suspect makes Run look at the engine's health now. Who sees a write go unanswered calls it.
func (e *Engine) Suspect() {
	select {
	case e.suspect <- struct{}{}:
	default:
	}
}

// Move takes the connections of an external engine to another of its servers. Who gets no answer over a connection that
// stands calls it: a server that is cut off from the others answers its clients, and stores nothing. What is on its way
// gets no acknowledgement any more.
func (e *Engine) Move() {
	if e.mode != External {
		return
	}
	for _, nc := range e.connections() {
		_ = nc.ForceReconnect() // fails only when it is closed
	}
}

func (e *Engine) connections() []*nats.Conn {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]*nats.Conn{e.nc}, e.readers...)
}

// pongWithin is how long a server may take to answer a ping before it counts as gone. Arbitrary: it answers at once,
// whatever it has to store. Without a suspicion the connection itself finds out, after 15 s.
const pongWithin = 2 * time.Second

// leaveSilent takes connections away from servers that do not answer a ping: one that is stopped or whose packets
// vanish keeps its connections open.
func (e *Engine) leaveSilent(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, pongWithin)
	defer cancel()
	var wg sync.WaitGroup
	for _, nc := range e.connections() {
		wg.Go(func() {
			if err := nc.FlushWithContext(ctx); errors.Is(err, context.DeadlineExceeded) && nc.IsConnected() {
				e.log.Warn("the NATS server does not answer; trying another one")
				_ = nc.ForceReconnect() // fails only when it is closed
			}
		})
	}
	wg.Wait()
}

// Settled says whether every connection stands. One that does not is looking for a server by itself.
func (e *Engine) Settled() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.nc.IsConnected() && !slices.ContainsFunc(e.readers, func(nc *nats.Conn) bool { return nc.IsReconnecting() })
}

// fail records the first cause for which the engine has to be restarted.
func (e *Engine) fail(err error) {
	if e.fault.CompareAndSwap(nil, &err) {
		e.notify(&e.unwell)
		e.Suspect()
	}
}

// Run watches the embedded engine and restarts it when it has stopped taking writes, again and again until it does:
// a full disk heals when space returns. Of an external engine it leaves servers that do not answer, when somebody
// suspects it. It returns nil when ctx ends, and an error only when this process cannot go on: the old engine hangs,
// and a new one on its files would damage them.
func (e *Engine) Run(ctx context.Context) error {
	const first, longest = 250 * time.Millisecond, 5 * time.Second
	wait := first
	for {
		suspected := false
		select {
		case <-ctx.Done():
			return nil
		case <-e.suspect:
			suspected = true
		case <-time.After(2 * time.Second): // a fault the log bridge missed is found this late
		}
		if suspected && e.mode == External {
			e.leaveSilent(ctx)
		}
		if e.mode != Embedded || !e.broken() {
			wait = first
			continue
		}
		e.log.Error("engine takes no writes, restarting it", "error", e.Health())
		err := e.Restart(ctx)
		if errors.Is(err, errStuck) {
			return fmt.Errorf("run engine: %w", err)
		}
		if err == nil {
			e.log.Info("engine restarted")
			wait = first
			continue
		}
		e.fail(err)
		e.log.Error("engine stays down", "error", err, "retry_in", wait)
		if pause(ctx, wait) != nil {
			return nil
		}
		wait = min(2*wait, longest)
		e.Suspect()
	}
}

// broken says whether only a restart can make the embedded engine take writes again.
func (e *Engine) broken() bool {
	if e.fault.Load() != nil {
		return true
	}
	srv := e.srv.Load()
	if e.closed.Load() { // which comes before the end of the server
		return false
	}
	if srv == nil || !srv.JetStreamEnabled() {
		e.fail(errors.New("the engine has turned its storage off"))
		return true
	}
	h := srv.Healthz(&server.HealthzOptions{})
	if h.Error != "" && strings.Contains(h.Error, "write error") {
		e.fail(errors.New("the engine reports a write error"))
		return true
	}
	return false
}
