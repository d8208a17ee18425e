package api

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"
)

// Connections with half a head are bounded in number, and one peer gets no more than its half: what is over is closed
// at once. A place is free again when a connection ends.
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
	var held []net.Conn
	for range 32 {
		c := s.dial(t)
		fmt.Fprint(c, "POST /v1/events HTTP/1.1\r\nHost: x\r\nX-Half")
		held = append(held, c)
	}
	waitFor(t, "the connections", func() bool { return s.Stats().Connections == 32 })
	for range 10 {
		if !closed(s.dial(t)) {
			t.Error("a connection over the share of its peer stays open")
		}
	}
	if st := s.Stats(); st.Connections != 32 || st.ConnectionsLimit != 64 || st.ConnectionsPeer != 10 || st.ConnectionsFull != 0 {
		t.Errorf("got %d of %d open, %d and %d rejected", st.Connections, st.ConnectionsLimit, st.ConnectionsPeer, st.ConnectionsFull)
	}
	held[0].Close()
	waitFor(t, "a free place", func() bool { return s.Stats().Connections < 32 })
	if r := s.post("/v1/events", goodEvent("")); r.StatusCode != 200 {
		t.Errorf("in the free place: got %d", r.StatusCode)
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
	one, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	for i := range 40 {
		if got, want := c.enter(one), i < 20; got != want {
			t.Fatalf("connection %d of one peer: got %v, want %v", i, got, want)
		}
	}
	for i := range 30 {
		if got, want := c.enter(other), i < 20; got != want {
			t.Fatalf("connection %d of another peer: got %v, want %v", i, got, want)
		}
	}
	if c.rejectedPeer.Load() != 20 || c.rejectedAll.Load() != 10 || c.open.Load() != 40 {
		t.Errorf("got %d, %d, %d", c.rejectedPeer.Load(), c.rejectedAll.Load(), c.open.Load())
	}
	for range 20 {
		c.leave(one)
		c.leave(other)
	}
	if c.open.Load() != 0 || len(c.peers) != 0 {
		t.Errorf("%d open, %d peers after all left", c.open.Load(), len(c.peers))
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
