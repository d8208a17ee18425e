package engine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"sluice/internal/durable"
)

const (
	storeName = "engine"
	// stopWait bounds a stop: everything acknowledged is on disk already, so what remains is closing files.
	stopWait = 15 * time.Second
	// startWait bounds a start. A start reads the index of each stream, not its messages, unless the last stop was a
	// crash.
	startWait = 60 * time.Second
	// maxClosed is how many connections the server remembers after their end (arbitrary: nobody asks for them). Without a
	// number it remembers 10,000, and every command of an operator opens some: 13 MB after months.
	maxClosed = 16
)

func (e *Engine) storeDir() string { return filepath.Join(e.o.Dir, storeName) }

// startServer starts the embedded server and lets it be found.
func (e *Engine) startServer() error {
	o, err := e.serverOptions()
	if err != nil {
		return fmt.Errorf("start engine: %w", err)
	}
	srv, err := server.NewServer(o)
	if err != nil {
		return fmt.Errorf("start engine: %w", err)
	}
	srv.SetLoggerV2(&bridge{e: e}, false, false, false)
	started := make(chan struct{})
	go func() {
		srv.Start()
		close(started)
	}()
	select {
	case <-started:
	case <-time.After(startWait):
		srv.Shutdown()
		return fmt.Errorf("start engine: not started within %s", startWait)
	}
	if !srv.JetStreamEnabled() || !srv.ReadyForConnections(5*time.Second) {
		srv.Shutdown()
		if f := e.fault.Load(); f != nil {
			return fmt.Errorf("start engine: %w", *f)
		}
		return errors.New("start engine: JetStream did not come up; the log names the cause")
	}
	if e.o.Listen {
		if err := writeJSON(e.o.Dir, addressName, address{URL: srv.ClientURL(), Token: e.token}); err != nil {
			srv.Shutdown()
			return fmt.Errorf("start engine: %w", err)
		}
	}
	e.srv.Store(srv)
	return nil
}

// serverOptions are those of the embedded server: every write synced, no signals, no monitoring port, and a listener
// only on loopback and only if asked for.
func (e *Engine) serverOptions() (*server.Options, error) {
	disk, err := durable.Space(e.o.Dir)
	if err != nil {
		return nil, fmt.Errorf("size of the disk: %w", err)
	}
	return &server.Options{
		ServerName:             "sluice",
		Host:                   "127.0.0.1",
		Port:                   server.RANDOM_PORT,
		DontListen:             !e.o.Listen,
		Authorization:          e.token,
		NoSigs:                 true,
		NoLog:                  true,
		MaxPayload:             maxPayload,
		JetStream:              true,
		DisableJetStreamBanner: true,
		StoreDir:               e.storeDir(),
		SyncAlways:             !e.o.Unsynced,
		SyncInterval:           time.Minute, // of indexes, which are rebuilt when they are old
		JetStreamMaxMemory:     64 << 20,    // nothing of ours is kept in memory but consumers' state
		MaxClosedClients:       maxClosed,
		JetStreamMaxStore:      disk.Size,
	}, nil
}

// stopServer stops the embedded server, if one runs, and waits for it.
func (e *Engine) stopServer() error {
	srv := e.srv.Swap(nil)
	if srv == nil {
		return nil
	}
	stopped := make(chan struct{})
	go func() {
		srv.Shutdown()
		srv.WaitForShutdown()
		close(stopped)
	}()
	select {
	case <-stopped:
		return nil
	case <-time.After(stopWait):
		return fmt.Errorf("%w within %s", errStuck, stopWait)
	}
}

// errStuck means a server that does not stop; a second one on the same files would corrupt them.
var errStuck = errors.New("the engine did not stop")

// Restart stops the embedded engine and opens it again on the same files; it is how a write error is healed, because
// after one the engine accepts nothing. What was appended without an acknowledgement may or may not be there
// afterwards, but whatever is there is on stable storage: the newest block of every stream is written anew between stop
// and start, since after a failed sync the operating system may show bytes that the disk does not have.
// The connection and all handles stay valid. For an engine in another process it returns an error.
func (e *Engine) Restart(ctx context.Context) error {
	if e.mode != Embedded {
		return fmt.Errorf("restart engine: the %s engine is not ours to restart", e.mode)
	}
	e.restartMu.Lock()
	defer e.restartMu.Unlock()
	if e.closed.Load() {
		return errors.New("restart engine: closed")
	}
	if err := e.stopServer(); err != nil {
		return fmt.Errorf("restart engine: %w", err)
	}
	if err := rewriteTails(e.storeDir()); err != nil {
		return fmt.Errorf("restart engine: %w", err)
	}
	e.fault.Store(nil)
	if err := e.startServer(); err != nil {
		return err
	}
	if err := e.awaitConn(ctx); err != nil {
		return err
	}
	e.restarts.Add(1)
	return nil
}

// awaitConn waits for the connection to come back.
func (e *Engine) awaitConn(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		if e.nc.IsConnected() {
			try, stop := context.WithTimeout(ctx, time.Second) // a server that starts may lose the question
			_, err := e.js.AccountInfo(try)
			stop()
			if err == nil {
				return nil
			}
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("restart engine: connection did not come back: %w", err)
		}
	}
}
