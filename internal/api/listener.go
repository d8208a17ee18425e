package api

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
)

// ConnectionCost is what an open connection costs in memory: goroutine, buffers, a head that is not whole (measured at
// 20 KiB without TLS).
const ConnectionCost = 24 << 10

// Limit returns a listener that accepts so many connections at one time, of which one peer may have a half: others must
// get in while one holds all it can. What is over the limit is closed at once. Use it for one listener only.
func (s *Server) Limit(l net.Listener) net.Listener {
	s.connections.most = s.Limits.connections()
	return &limitedListener{Listener: l, c: &s.connections, server: s}
}

// LimitConnections returns a listener that accepts so many connections at one time, of which one peer may have perPeer.
// What is over a limit is closed at once.
func LimitConnections(l net.Listener, most, perPeer int64) net.Listener {
	return &limitedListener{Listener: l, c: &connections{most: most, share: perPeer}}
}

// connections counts open connections.
type connections struct {
	most                      int64
	share                     int64 // of one peer; 0 for a half
	open                      atomic.Int64
	rejectedAll, rejectedPeer atomic.Uint64

	mu    sync.Mutex
	peers map[netip.Addr]int64
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
func (c *connections) enter(peer netip.Addr) bool {
	if c.open.Add(1) > c.most {
		c.open.Add(-1)
		c.rejectedAll.Add(1)
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.peers == nil {
		c.peers = make(map[netip.Addr]int64)
	}
	if c.peers[peer] >= c.perPeer() {
		c.open.Add(-1)
		c.rejectedPeer.Add(1)
		return false
	}
	c.peers[peer]++
	return true
}

func (c *connections) leave(peer netip.Addr) {
	c.open.Add(-1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.peers[peer]--; c.peers[peer] == 0 {
		delete(c.peers, peer)
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
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		peer := peerOf(conn)
		if l.c.enter(peer) {
			return &limitedConn{Conn: conn, server: l.server, leave: sync.OnceFunc(func() { l.c.leave(peer) })}, nil
		}
		_ = conn.Close()
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
	leave  func()
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
	defer c.leave()
	return c.Conn.Close()
}
