// Package listen has HTTP servers, listeners and certificates that strangers cannot exhaust: connections are bounded in
// all and for one peer, and those that carry a valid key go before the others.
package listen

import (
	"container/list"
	"context"
	"crypto/tls"
	"math"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// ConnectionCost is what an open connection costs in memory: goroutine, buffers, a head that is not whole (measured at
// 20 KiB without TLS).
const ConnectionCost = 24 << 10

// New returns a listener that accepts so many connections at one time, of which one peer may have perPeer; 0 is a half:
// others must get in while one holds all it can. Over a limit, the new connection takes the place of the one without a
// valid key whose last request is the oldest: strangers who hold connections keep out nobody who has a key. Where there
// is none, the new one is closed at once. Use it with NewServer or NewOpsServer.
func New(l net.Listener, most, perPeer int64) *Listener {
	if perPeer == 0 {
		perPeer = max(leastPerPeer, most/2)
	}
	return &Listener{Listener: l, perPeer: perPeer, stats: Stats{Limit: most}, peers: make(map[netip.Addr]int64)}
}

// Listener is a listener with a limit of connections. It counts places: one for each open connection, and one for each
// further stream of HTTP/2 that a stranger has open on it, for such a stream costs about as much.
type Listener struct {
	net.Listener
	perPeer int64

	mu        sync.Mutex
	stats     Stats
	peers     map[netip.Addr]int64
	known     int64
	strangers list.List // of *Conn without a valid key so far; the one whose last request is the oldest first
}

// Stats are the connections of a listener.
type Stats struct {
	Open, Limit                int64
	RejectedAll, RejectedPeers uint64 // closed at once: as many were open as may be, or their peer had its share
	Replaced                   uint64 // without a valid key so far, and closed for a newer one
	Streams                    uint64 // of HTTP/2, without a valid key, reset because a limit was reached
}

// Stats counts the connections.
func (l *Listener) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stats
}

// StrangerStreams is how many streams of HTTP/2 a connection may have open without a valid key. Arbitrary: browsers
// open six connections instead.
const StrangerStreams = 8

// leastPerPeer is how many connections one peer may have in any case (arbitrary).
const leastPerPeer = 16

// enter counts a connection, or says that there is no place for it.
func (l *Listener) enter(conn *Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.peers[conn.peer] >= l.perPeer:
		if !l.replace(func(old *Conn) bool { return old.peer == conn.peer }) {
			l.stats.RejectedPeers++
			return false
		}
	case l.stats.Open >= l.stats.Limit:
		if !l.replace(func(*Conn) bool { return true }) {
			l.stats.RejectedAll++
			return false
		}
	}
	l.stats.Open++
	l.peers[conn.peer]++
	conn.place = l.strangers.PushBack(conn)
	return true
}

// replace closes the first connection of a stranger that fits.
func (l *Listener) replace(fits func(*Conn) bool) bool {
	for e := l.strangers.Front(); e != nil; e = e.Next() {
		if old := e.Value.(*Conn); fits(old) {
			l.remove(old)
			l.stats.Replaced++
			_ = old.Conn.Close() // the goroutine that reads it ends with an error
			return true
		}
	}
	return false
}

// remove takes a connection out of the counts, once.
func (l *Listener) remove(conn *Conn) {
	if conn.left {
		return
	}
	conn.left = true
	if conn.place != nil {
		l.strangers.Remove(conn.place)
		conn.place = nil
	} else {
		l.known--
	}
	l.leave(conn.peer)
}

// leave gives a place back.
func (l *Listener) leave(peer netip.Addr) {
	l.stats.Open--
	if l.peers[peer]--; l.peers[peer] == 0 {
		delete(l.peers, peer)
	}
}

// know takes a connection out of the list of strangers. A part of all places stays with strangers, so that there is
// always one to replace: a probe of a load balancer has no key.
func (l *Listener) know(conn *Conn) {
	if conn.place == nil || conn.left || l.known >= l.stats.Limit-max(1, l.stats.Limit/16) {
		return
	}
	l.strangers.Remove(conn.place)
	conn.place = nil
	l.known++
}

// Accept returns the next connection within the limits.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		conn := &Conn{Conn: raw, l: l, peer: peerOf(raw)}
		// Close stops the timer, so it is there before anybody can close the connection, and runs only after that.
		conn.idle = time.AfterFunc(math.MaxInt64, func() { _ = conn.Close() })
		if l.enter(conn) {
			conn.idle.Reset(idleTime)
			return conn, nil
		}
		conn.idle.Stop()
		_ = raw.Close()
	}
}

// peerOf is the network that a connection comes from: an IPv4 address, or an IPv6 network of 64 bits, which is what one
// customer gets.
func peerOf(conn net.Conn) netip.Addr {
	at, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	addr := at.Addr().Unmap()
	if addr.Is6() {
		if network, err := addr.WithZone("").Prefix(64); err == nil {
			return network.Addr()
		}
	}
	return addr
}

// Conn is a connection that counts. It gives its place back when it is closed.
type Conn struct {
	net.Conn
	l    *Listener
	peer netip.Addr

	known   atomic.Bool   // a request with a valid key came
	place   *list.Element // among the strangers; nil for one that is known
	left    bool          // it is not counted any more
	streams int           // requests without a valid key that are under way
	reset   int           // how many there was no place for
	idle    *time.Timer   // ends it
}

// idleTime is how long a connection stays open without a request (arbitrary).
const idleTime = 2 * time.Minute

// noteIdle is ConnState of both servers.
func noteIdle(conn net.Conn, state http.ConnState) {
	limited, ok := unwrap(conn).(*Conn)
	switch {
	case !ok:
	case state == http.StateActive:
		limited.idle.Stop()
	case state == http.StateIdle:
		limited.idle.Reset(idleTime)
	}
}

// unwrap is the connection below TLS.
func unwrap(conn net.Conn) net.Conn {
	if secure, ok := conn.(*tls.Conn); ok {
		return secure.NetConn()
	}
	return conn
}

// MostReset is how many streams of a stranger are reset before its connection ends. A client that obeys the limit that
// the server announces has as many under way when it learns that it is over that of strangers.
const MostReset = 32

// OpenStream counts a request without a valid key, until CloseStream. It returns false if there is no place for it, and
// ends the connection of one who goes on: to read and reset a stream costs as much as to open it.
func (conn *Conn) OpenStream() bool {
	if conn == nil {
		return true
	}
	l := conn.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if conn.place != nil {
		l.strangers.MoveToBack(conn.place)
	}
	if conn.streams > 0 { // the first one has the place of the connection
		if conn.streams >= StrangerStreams || l.stats.Open >= l.stats.Limit || l.peers[conn.peer] >= l.perPeer {
			l.stats.Streams++
			if conn.reset++; conn.reset == MostReset && !conn.known.Load() {
				_ = conn.Conn.Close() // net/http notices, and gives its place back
			}
			return false
		}
		l.stats.Open++
		l.peers[conn.peer]++
	}
	conn.streams++
	return true
}

// CloseStream ends what OpenStream began.
func (conn *Conn) CloseStream() {
	if conn == nil {
		return
	}
	conn.l.mu.Lock()
	defer conn.l.mu.Unlock()
	if conn.streams--; conn.streams > 0 {
		conn.l.leave(conn.peer)
	}
}

// connKey is under which NewServer and NewOpsServer put a connection into the context of its requests.
type connKey struct{}

// Of is the connection of a request; nil if the listener has no limits.
func Of(ctx context.Context) *Conn {
	conn, _ := ctx.Value(connKey{}).(*Conn)
	return conn
}

// withConn is ConnContext of both servers.
func withConn(ctx context.Context, conn net.Conn) context.Context {
	if limited, ok := unwrap(conn).(*Conn); ok {
		return context.WithValue(ctx, connKey{}, limited)
	}
	return ctx
}

// CarriedKey notes that the connection of a request carried a valid key, password or token, so that none takes its
// place.
func CarriedKey(ctx context.Context) {
	conn := Of(ctx)
	if conn == nil || conn.known.Load() {
		return
	}
	conn.l.mu.Lock()
	defer conn.l.mu.Unlock()
	conn.known.Store(true)
	conn.l.know(conn)
}

// CloseWrite lets net/http end a connection on which the sender still writes without losing the answer.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close closes the connection.
func (c *Conn) Close() error {
	err := c.Conn.Close()
	c.idle.Stop()
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	c.l.remove(c)
	return err
}
