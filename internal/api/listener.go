package api

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
)

// ConnectionCost is what an open connection costs in memory: goroutine, buffers, a head that is not whole (measured at
// 20 KiB without TLS).
const ConnectionCost = 24 << 10

// Limit returns a listener that accepts so many connections at one time, of which one peer may have a half: others must
// get in while one holds all it can. Over a limit, the new connection takes the place of the oldest one that has sent no
// request with a valid key yet: strangers who hold connections keep out nobody who has a key. Where there is none, the new
// one is closed at once. Use it for one listener only, with NewHTTPServer.
func (s *Server) Limit(l net.Listener) net.Listener {
	s.connections.most, s.connections.replaces = s.Limits.connections(), true
	return &limitedListener{Listener: l, c: &s.connections, server: s}
}

// LimitConnections returns a listener that accepts so many connections at one time, of which one peer may have perPeer.
// What is over a limit is closed at once.
func LimitConnections(l net.Listener, most, perPeer int64) *LimitedListener {
	return &LimitedListener{limitedListener{Listener: l, c: &connections{most: most, share: perPeer}}}
}

// LimitedListener is a listener with a limit of connections.
type LimitedListener struct{ limitedListener }

// ConnectionStats are the connections of a listener.
type ConnectionStats struct {
	Open, Limit                int64
	RejectedAll, RejectedPeers uint64 // closed at once: as many were open as may be, or their peer had its share
}

// Stats counts the connections.
func (l *LimitedListener) Stats() ConnectionStats {
	return ConnectionStats{Open: l.c.open.Load(), Limit: l.c.most, RejectedAll: l.c.rejectedAll.Load(), RejectedPeers: l.c.rejectedPeer.Load()}
}

// connections counts open connections.
type connections struct {
	most                                int64
	share                               int64 // of one peer; 0 for a half
	replaces                            bool  // a new one may take the place of a stranger's
	open                                atomic.Int64
	rejectedAll, rejectedPeer, replaced atomic.Uint64

	mu        sync.Mutex
	peers     map[netip.Addr]int64
	strangers list.List // of *limitedConn without a valid key so far, the oldest first
}

// leastPerPeer is how many connections one peer may have in any case (arbitrary).
const leastPerPeer = 16

func (c *connections) perPeer() int64 {
	if c.share > 0 {
		return c.share
	}
	return max(leastPerPeer, c.most/2)
}

// enter counts a connection, or says that there is no place for it.
func (c *connections) enter(conn *limitedConn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.peers == nil {
		c.peers = make(map[netip.Addr]int64)
	}
	switch {
	case c.peers[conn.peer] >= c.perPeer():
		if !c.replace(func(old *limitedConn) bool { return old.peer == conn.peer }) {
			c.rejectedPeer.Add(1)
			return false
		}
	case c.open.Load() >= c.most:
		if !c.replace(func(*limitedConn) bool { return true }) {
			c.rejectedAll.Add(1)
			return false
		}
	}
	c.open.Add(1)
	c.peers[conn.peer]++
	conn.place = c.strangers.PushBack(conn)
	return true
}

// replace closes the oldest connection of a stranger that fits.
func (c *connections) replace(fits func(*limitedConn) bool) bool {
	if !c.replaces {
		return false
	}
	for e := c.strangers.Front(); e != nil; e = e.Next() {
		if old := e.Value.(*limitedConn); fits(old) {
			c.remove(old)
			c.replaced.Add(1)
			_ = old.Conn.Close() // the goroutine that reads it ends with an error
			return true
		}
	}
	return false
}

// remove takes a connection out of the counts, once.
func (c *connections) remove(conn *limitedConn) {
	if conn.left {
		return
	}
	conn.left = true
	c.know(conn)
	c.open.Add(-1)
	if c.peers[conn.peer]--; c.peers[conn.peer] == 0 {
		delete(c.peers, conn.peer)
	}
}

// know takes a connection out of the list of strangers.
func (c *connections) know(conn *limitedConn) {
	if conn.place != nil {
		c.strangers.Remove(conn.place)
		conn.place = nil
	}
}

type limitedListener struct {
	net.Listener
	c      *connections
	server *Server
}

// Accept returns the next connection within the limits.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		conn := &limitedConn{Conn: raw, server: l.server, c: l.c, peer: peerOf(raw)}
		if l.c.enter(conn) {
			return conn, nil
		}
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

// limitedConn gives its place back when it is closed.
type limitedConn struct {
	net.Conn
	server *Server
	c      *connections
	peer   netip.Addr

	known atomic.Bool   // a request with a valid key came
	place *list.Element // among the strangers; nil for one that is known
	left  bool          // it is not counted any more
}

// connKey is under which NewHTTPServer puts a connection into the context of its requests.
type connKey struct{}

// withConn is ConnContext of NewHTTPServer.
func withConn(ctx context.Context, conn net.Conn) context.Context {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	if limited, ok := conn.(*limitedConn); ok {
		return context.WithValue(ctx, connKey{}, limited)
	}
	return ctx
}

// carriedKey notes that a connection carried a valid key, so that none takes its place.
func carriedKey(ctx context.Context) {
	conn, ok := ctx.Value(connKey{}).(*limitedConn)
	if !ok || conn.known.Load() {
		return
	}
	conn.c.mu.Lock()
	defer conn.c.mu.Unlock()
	conn.known.Store(true)
	conn.c.know(conn)
}

// CloseWrite lets net/http end a connection on which the sender still writes without losing the answer.
func (c *limitedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close closes the connection.
func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	c.c.mu.Lock()
	defer c.c.mu.Unlock()
	c.c.remove(c)
	return err
}
