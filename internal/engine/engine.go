// Package engine is NATS JetStream: durable partitions, key-value buckets, leases and announcements.
//
// JetStream runs in this process by default, in another process that has the data directory already, or as a server or
// cluster of its own. No other package imports NATS. What this package returns stays valid over a restart of JetStream.
package engine

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// maxPayload bounds one message of the embedded engine: a request body of 5 MiB and its frame.
	maxPayload = 8 << 20
	// minPayload is what a foreign engine must allow: the largest body a sender may send, decoded and framed.
	minPayload = 6 << 20
	// The names of the connections, as the server shows them.
	writeName, readName = "sluice", "sluice-read"
	// openWait is how long Open waits for a data directory that another command holds.
	openWait = 10 * time.Second
)

// Mode says where the engine runs.
type Mode uint8

// The three places an engine can be.
const (
	Embedded Mode = iota // in this process, in the data directory
	Attached             // in another process on the same data directory, reached over loopback
	External             // a server or cluster of its own
)

// String returns the mode's name.
func (m Mode) String() string {
	return [...]string{"embedded", "attached", "external"}[m]
}

// Options says which engine to open. Dir or URL is required.
type Options struct {
	Dir         string // data directory; the engine keeps its files in Dir/engine
	URL         string // addresses of an external engine, separated by commas; empty means the one in Dir
	Credentials string // credentials file for URL
	Token       string // token for URL
	RootCA      string // certificate authority file for URL
	ClientCert  string // certificate file by which URL knows this process; with ClientKey or not at all
	ClientKey   string // key file of ClientCert
	// copies of everything stored, at least; 0 means as many as there are, or 1; more than 1 needs a cluster at URL
	Replicas int
	Listen   bool          // let other processes on this machine attach while this one runs the engine
	Wait     time.Duration // how long to wait for a directory in use; 0 means 10 s
	Log      *slog.Logger  // nil means nothing is logged
	Restore  bool          // for Engine.Restore alone: open URL also while it is not finished

	// Unsynced leaves writes to the operating system. It exists only as the control of the power-cut proof, which must
	// lose data with it; anything acknowledged with it may be gone after a power cut.
	Unsynced bool
}

// Engine is an open JetStream. Its methods may be called by many goroutines.
type Engine struct {
	o     Options
	mode  Mode
	log   *slog.Logger
	lock  *os.File // held while this process runs the embedded engine
	token string   // what a connection to the embedded engine must show
	nc    *nats.Conn
	js    jetstream.JetStream

	suspect  chan struct{} // a doubt about health was raised: look now
	fault    atomic.Pointer[error]
	restarts atomic.Uint64
	verified atomic.Bool // a server has asked for the certificate of this process: such a one lets nobody in without

	srv    atomic.Pointer[server.Server] // the embedded one; nil while it is stopped
	closed atomic.Bool

	mu      sync.Mutex    // guards what follows
	changed chan struct{} // closed when the connection comes back
	unwell  chan struct{} // closed when Health may have become an error
	readers []*nats.Conn  // connections beside nc

	rejected sync.Map // connections whose credentials the server rejects

	restartMu sync.Mutex // one restart at a time

	record atomic.Pointer[Record] // of the cluster; nil where there is none
	// owner names this process in leases. It is made anew on each start: containers share host names and process ids, and
	// two of one name would take each other's lease.
	owner   string
	leaseMu sync.Mutex
	leases  *Bucket
}

// Open returns an engine that has answered. Without a URL it runs one in Dir; when another process already does, it
// attaches to that one, and when that one lets nobody in, it waits for the directory to be free.
func Open(ctx context.Context, o Options) (*Engine, error) {
	if o.Wait == 0 {
		o.Wait = openWait
	}
	e := &Engine{
		o: o, log: o.Log, suspect: make(chan struct{}, 1), changed: make(chan struct{}),
		unwell: make(chan struct{}), owner: rand.Text(),
	}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	var err error
	switch {
	case o.URL != "":
		err = e.openExternal(ctx)
	case o.Dir == "":
		err = errors.New("open engine: neither a data directory nor an address is given")
	case belongsToCluster(o.Dir) != nil:
		err = fmt.Errorf("open engine: %w", belongsToCluster(o.Dir))
	case o.Replicas > 1:
		err = fmt.Errorf("open engine: %d replicas need a cluster; the embedded engine is one node", o.Replicas)
	default:
		err = e.openDir(ctx)
	}
	if err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

// openDir runs the engine in the data directory, or attaches to the process that does.
func (e *Engine) openDir(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Join(e.o.Dir, storeName), 0o700); err != nil {
		return fmt.Errorf("open engine: %w", err)
	}
	wait, cancel := context.WithTimeout(ctx, e.o.Wait)
	defer cancel()
	for {
		lock, holder, err := tryLock(e.o.Dir)
		if err != nil {
			return fmt.Errorf("open engine: %w", err)
		}
		if lock != nil {
			e.lock = lock
			return e.openEmbedded(ctx)
		}
		// The holder may be starting (no address yet, or the one of a process that died), or a command that lets nobody
		// in; both pass, so keep trying.
		err = e.attach(wait)
		if err == nil {
			return nil
		}
		if pause(wait, 50*time.Millisecond) != nil {
			return fmt.Errorf("open engine: data directory %s is in use by process %s, which cannot be joined: %w", e.o.Dir,
				holder, err)
		}
	}
}

// openEmbedded starts the engine in this process. The lock is held.
func (e *Engine) openEmbedded(ctx context.Context) error {
	e.mode = Embedded
	if err := os.Chmod(e.o.Dir, 0o700); err != nil {
		return fmt.Errorf("open engine: %w", err)
	}
	if err := clearLeftovers(e.o.Dir); err != nil {
		return fmt.Errorf("open engine: %w", err)
	}
	e.token = rand.Text()
	if err := syncTails(e.storeDir()); err != nil {
		return fmt.Errorf("open engine: %w", err)
	}
	if err := e.startServer(); err != nil {
		return err
	}
	return e.connect(ctx, "", nats.InProcessServer(inProcess{e}), nats.Token(e.token))
}

// attach connects to the process that runs the engine on this data directory.
func (e *Engine) attach(ctx context.Context) error {
	a, err := readAddress(e.o.Dir)
	if err != nil {
		return err
	}
	e.mode = Attached
	return e.connect(ctx, a.URL, nats.Token(a.Token))
}

// openExternal connects to a server or cluster and rejects one that cannot carry a submission.
func (e *Engine) openExternal(ctx context.Context) error {
	e.mode = External
	if err := rejectEmbedded(e.o.Dir); err != nil {
		return err
	}
	for i, address := range strings.Split(e.o.URL, ",") {
		// The library's own error would show the address, and a password may be in it. It reads one without a scheme so.
		if address = strings.TrimSpace(address); !strings.Contains(address, "://") {
			address = "nats://" + address
		}
		if _, err := url.Parse(address); err != nil {
			return fmt.Errorf("connect to the external engine: address %d cannot be read", i+1)
		}
	}
	var opts []nats.Option
	if e.o.Token != "" {
		opts = append(opts, nats.Token(e.o.Token))
	}
	if e.o.Credentials != "" {
		opts = append(opts, nats.UserCredentials(e.o.Credentials))
	}
	if e.o.RootCA != "" {
		opts = append(opts, nats.RootCAs(e.o.RootCA))
	}
	if e.o.ClientCert != "" {
		opts = append(opts, nats.ClientCert(e.o.ClientCert, e.o.ClientKey), e.noteRequest)
	}
	if err := e.connect(ctx, e.o.URL, opts...); err != nil {
		return err
	}
	if got := e.nc.MaxPayload(); got < minPayload {
		return fmt.Errorf("open engine: the server allows messages of %d bytes; set max_payload to %d or more", got,
			maxPayload)
	}
	if e.o.Restore { // which looks at the record itself
		return nil
	}
	return e.findRecord(ctx)
}

// findRecord reads the cluster's record where there is one.
func (e *Engine) findRecord(ctx context.Context) error {
	r, err := insistOn(ctx, e.Record)
	if err == nil {
		err = e.adopt(&r)
	} else if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err == nil {
		err = rememberCluster(e.o.Dir, r.Cluster, false)
	}
	if err != nil {
		return fmt.Errorf("open engine: %w", err)
	}
	return nil
}

// rejectEmbedded rejects a data directory whose embedded engine holds a stream: events that are accepted and not in the
// table yet, datasets, keys and idempotency keys are in it, and would seem to be gone.
func rejectEmbedded(dir string) error {
	if dir == "" {
		return nil
	}
	found, err := HoldsStream(dir)
	if err == nil && found {
		err = fmt.Errorf("the data directory %s holds an embedded engine with events, datasets and keys that the NATS "+
			"server does not have: move them with sluice backup --final and sluice restore, or use another directory", dir)
	}
	if err != nil {
		return fmt.Errorf("open engine: %w", err)
	}
	return nil
}

// Exists says whether an engine was opened in a data directory before. It opens nothing.
func Exists(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, storeName))
	return err == nil
}

// HoldsStream says whether a data directory has an embedded engine with a stream. It opens nothing.
func HoldsStream(dir string) (bool, error) {
	found, err := fs.Glob(os.DirFS(dir), storeName+"/jetstream/*/streams/"+partitionName(0))
	return len(found) > 0, err
}

// connect makes the connection and waits for JetStream to answer on it.
func (e *Engine) connect(ctx context.Context, address string, opts ...nats.Option) error {
	nc, err := e.dial(writeName, address, opts...)
	if err != nil {
		return fmt.Errorf("connect to the %s engine: %w", e.mode, unreachable(err))
	}
	js, err := jetstream.New(nc)
	if err == nil {
		err = e.awaitAnswer(ctx, js)
	}
	if err != nil {
		nc.Close()
		return fmt.Errorf("connect to the %s engine: JetStream does not answer: %w", e.mode, unreachable(err))
	}
	e.nc, e.js = nc, js
	return nil
}

// unreachable adds ErrUnavailable to what may pass by itself: a server that is not there yet, or a cluster without a
// leader. Wrong credentials do not pass, nor does a certificate that the server rejects, or whose file cannot be read.
func unreachable(err error) error {
	_, file := errors.AsType[*fs.PathError](err)
	op, dialed := errors.AsType[*net.OpError](err)
	// the first if its reason arrived before the end of the connection
	rejected := dialed && op.Op == "remote error" || errors.Is(err, nats.ErrTLS)
	if file || rejected || errors.Is(err, nats.ErrAuthorization) ||
		errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
		return err
	}
	_, network := errors.AsType[net.Error](err)
	api, answered := errors.AsType[jetstream.JetStreamError](err)
	busy := answered && api.APIError() != nil && api.APIError().Code == http.StatusServiceUnavailable
	for _, passing := range []error{
		nats.ErrNoServers, nats.ErrTimeout, nats.ErrConnectionClosed, nats.ErrNoResponders,
		jetstream.ErrJetStreamNotEnabled, context.DeadlineExceeded,
	} {
		network = network || errors.Is(err, passing)
	}
	if network || busy {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

// awaitAnswer asks until JetStream answers. A cluster whose nodes choose a leader loses the question.
func (e *Engine) awaitAnswer(ctx context.Context, js jetstream.JetStream) error {
	ctx, cancel := context.WithTimeout(ctx, e.o.Wait)
	defer cancel()
	for {
		try, stop := context.WithTimeout(ctx, 2*time.Second)
		_, err := js.AccountInfo(try)
		stop()
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, nats.ErrTimeout) || ctx.Err() != nil {
			return err
		}
	}
}

// dial makes a connection that comes back by itself. Nothing is buffered while it is away: a publish then fails at
// once, so that an answer never depends on something that may be sent later.
func (e *Engine) dial(name, address string, opts ...nats.Option) (*nats.Conn, error) {
	opts = append(opts,
		nats.Name(name),
		nats.MaxReconnects(-1),
		nats.RetryOnFailedConnect(false),
		nats.ReconnectWait(50*time.Millisecond),
		nats.ReconnectJitter(10*time.Millisecond, 50*time.Millisecond),
		nats.ReconnectBufSize(-1),
		nats.Timeout(3*time.Second),
		nats.PingInterval(5*time.Second),
		nats.MaxPingsOutstanding(2),
		// a wrong password may be put right, and a credentials file be renewed: it is read for each attempt
		nats.IgnoreAuthErrorAbort(),
		nats.DisconnectErrHandler(func(nc *nats.Conn, _ error) {
			if nc.Opts.Name == writeName { // without the other one only reading stops
				e.notify(&e.unwell)
			}
			e.Suspect()
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			e.rejected.Delete(nc)
			e.notify(&e.changed)
		}),
		nats.ErrorHandler(func(nc *nats.Conn, _ *nats.Subscription, err error) {
			if rejectsCredentials(err) {
				if _, said := e.rejected.Swap(nc, true); !said { // there are many attempts a second
					e.log.Error(errCredentials.Error()+"; trying again until it does not", "error", err)
				}
				return
			}
			e.log.Warn("engine connection", "error", err)
		}))
	return nats.Connect(address, opts...)
}

// Mode says where the engine runs.
func (e *Engine) Mode() Mode { return e.mode }

// Dir returns the directory whose disk the engine fills, or "" when that disk is not this machine's concern.
func (e *Engine) Dir() string {
	if e.mode == External {
		return ""
	}
	return e.o.Dir
}

// Changed returns a channel that is closed when the connection next comes back. Who keeps a copy of something stored
// reads it anew then.
func (e *Engine) Changed() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.changed
}

// notify wakes those who wait for a channel that Changed or Unwell returned.
func (e *Engine) notify(ch *chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	close(*ch)
	*ch = make(chan struct{})
}

// Close ends the connection and, where the engine runs here, stops it and frees the data directory. It returns when
// everything is written.
func (e *Engine) Close() error {
	e.restartMu.Lock()
	defer e.restartMu.Unlock()
	if e.closed.Swap(true) {
		return nil
	}
	if e.nc != nil {
		e.nc.Close()
	}
	if e.lock == nil {
		return nil
	}
	err := cmp.Or(e.stopServer(), os.RemoveAll(filepath.Join(e.o.Dir, addressName)), e.lock.Close())
	if err != nil {
		return fmt.Errorf("close engine: %w", err)
	}
	return nil
}

// inProcess hands the client a pipe to whichever server runs now, so that one connection outlives many servers.
type inProcess struct{ e *Engine }

func (p inProcess) InProcessConn() (net.Conn, error) {
	if srv := p.e.srv.Load(); srv != nil {
		return srv.InProcessConn()
	}
	return nil, errors.New("the engine is stopped")
}

// Stats are the engine's numbers.
type Stats struct {
	Mode     Mode
	Healthy  bool
	Restarts uint64 // of the embedded engine within this process
	Replicas int
	Version  string   // of the server
	Exposed  []string // what the connection to an external engine lacks to keep strangers away; see Protection
}

// Stats returns the numbers of now.
func (e *Engine) Stats() Stats {
	return Stats{
		Mode:     e.mode,
		Healthy:  e.Health() == nil,
		Restarts: e.restarts.Load(),
		Replicas: e.Copies(),
		Version:  e.nc.ConnectedServerVersion(),
		Exposed:  e.Protection().Problems(),
	}
}
