package api

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"
)

// Connections with half a head are bounded in number, and one peer gets no more than its half. A new one takes the place
// of the oldest, so that whoever has a key gets in; a connection that carried a key stays.
func TestConnectionsAreLimited(t *testing.T) {
	s := openServiceIn(t, t.TempDir(), func(s *Server) { s.Limits.Connections = 64 })
	s.key = s.dataset(specShop)
	testClient.CloseIdleConnections()
	closed := func(c net.Conn) bool {
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
		_, err := c.Read(make([]byte, 1))
		return err == io.EOF || err != nil && !isTimeout(err)
	}
	waitFor(t, "no connections", func() bool { return s.Stats().Connections == 0 })
	if r := s.post("/v1/events", goodEvent("")); r.StatusCode != 200 {
		t.Fatalf("got %d", r.StatusCode)
	}
	var held []net.Conn
	hold := func() {
		c := s.dial(t)
		fmt.Fprint(c, "POST /v1/events HTTP/1.1\r\nHost: x\r\nX-Half")
		held = append(held, c)
	}
	for range 31 {
		hold()
	}
	waitFor(t, "the connections", func() bool { return s.Stats().Connections == 32 })
	for range 10 {
		hold()
	}
	for _, c := range held[:10] {
		if !closed(c) {
			t.Error("the oldest connections of strangers stay open")
		}
	}
	waitFor(t, "the new connections", func() bool { return s.Stats().Connections == 32 }) // the old one is closed first
	st := s.Stats()
	if st.Connections != 32 || st.ConnectionsLimit != 64 || st.ConnectionsLost != 10 || st.ConnectionsPeer+st.ConnectionsFull != 0 {
		t.Errorf("got %d of %d open, %d, %d and %d closed", st.Connections, st.ConnectionsLimit, st.ConnectionsLost, st.ConnectionsPeer, st.ConnectionsFull)
	}
	if r := s.post("/v1/events", goodEvent("")); r.StatusCode != 200 {
		t.Errorf("a sender with a key: got %d", r.StatusCode)
	}
	if got := s.Stats().ConnectionsLost; got != 10 {
		t.Errorf("its connection was closed, it needed another: %d closed, want 10", got)
	}
}

func isTimeout(err error) bool {
	ne, ok := err.(net.Error)
	return ok && ne.Timeout()
}

// net/http closes one half of a connection first, so that an answer is not lost with what the sender still writes.
func TestLimitedConnectionCanBeHalfClosed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := &Server{}
	sender, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer sender.Close()
	conn, err := s.Limit(l).Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok {
		t.Fatal("the connection cannot be half closed")
	}
	if err := half.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if n, err := sender.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("got %d, %v, want the end", n, err)
	}
	if _, err := sender.Write([]byte("x")); err != nil {
		t.Errorf("the other half: %v", err)
	}
}

func TestConnectionCounts(t *testing.T) {
	c := connections{most: 40}
	from := func(addr string) *limitedConn { return &limitedConn{c: &c, peer: netip.MustParseAddr(addr)} }
	var all []*limitedConn
	for i := range 40 {
		conn := from("192.0.2.1")
		if got, want := c.enter(conn), i < 20; got != want {
			t.Fatalf("connection %d of one peer: got %v, want %v", i, got, want)
		}
		all = append(all, conn)
	}
	for i := range 30 {
		conn := from("192.0.2.2")
		if got, want := c.enter(conn), i < 20; got != want {
			t.Fatalf("connection %d of another peer: got %v, want %v", i, got, want)
		}
		all = append(all, conn)
	}
	if c.rejectedPeer.Load() != 30 || c.rejectedAll.Load() != 0 || c.open.Load() != 40 {
		t.Errorf("got %d, %d, %d", c.rejectedPeer.Load(), c.rejectedAll.Load(), c.open.Load())
	}
	if c.enter(from("192.0.2.3")) || c.rejectedAll.Load() != 1 {
		t.Error("a third peer got a place that is not there")
	}
	for _, conn := range append(all[:20:20], all[40:60]...) {
		c.remove(conn)
		c.remove(conn)
	}
	if c.open.Load() != 0 || len(c.peers) != 0 || c.strangers.Len() != 0 {
		t.Errorf("%d open, %d peers, %d strangers after all left", c.open.Load(), len(c.peers), c.strangers.Len())
	}
}

// addrConn is a connection from an address.
type addrConn struct {
	net.Conn
	addr string
}

func (c addrConn) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.addr))
}

func TestPeerOf(t *testing.T) {
	for addr, want := range map[string]string{
		"192.0.2.1:5": "192.0.2.1", "[::ffff:192.0.2.1]:5": "192.0.2.1", "[2001:db8:1:2:3:4:5:6]:5": "2001:db8:1:2::", "[::1]:5": "::",
	} {
		if got := peerOf(addrConn{addr: addr}).String(); got != want {
			t.Errorf("%s: got %s, want %s", addr, got, want)
		}
	}
}
