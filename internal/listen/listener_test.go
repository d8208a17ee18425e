package listen

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// A connection without a request ends after a while, by HTTP/1.1 as by HTTP/2; one with a request under way does not.
func TestIdleConnectionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			states []http.ConnState
			closed bool
		}{
			"new":       {nil, true},
			"answered":  {[]http.ConnState{http.StateActive, http.StateIdle}, true},
			"under way": {[]http.ConnState{http.StateActive, http.StateIdle, http.StateActive}, false},
		} {
			near, far := net.Pipe()
			defer far.Close()
			l := New(&oneConn{conn: near}, 10, 10)
			conn, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(idleTime / 2)
			for _, state := range c.states {
				noteIdle(tls.Server(conn, nil), state)
			}
			time.Sleep(idleTime - time.Second)
			if len(c.states) > 0 && l.Stats().Open != 1 {
				t.Errorf("%s: it ended too early", name)
			}
			time.Sleep(2 * time.Second)
			if got := l.Stats().Open == 0; got != c.closed {
				t.Errorf("%s: closed is %v, want %v", name, got, c.closed)
			}
			_ = conn.Close()
		}
	})
}

// oneConn is a listener with one connection.
type oneConn struct {
	net.Listener
	conn net.Conn
}

func (l *oneConn) Accept() (net.Conn, error) { return l.conn, nil }

// net/http closes one half of a connection first, so that an answer is not lost with what the sender still writes.
func TestLimitedConnectionCanBeHalfClosed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	sender, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer sender.Close()
	conn, err := New(l, 100, 0).Accept()
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

// Connections with a valid key keep their places, but for a few that are always left to strangers: a probe has no key.
func TestConnectionCounts(t *testing.T) {
	c := New(nil, 48, 0)
	enter := func(addr string) (*Conn, bool) {
		near, far := net.Pipe()
		t.Cleanup(func() { near.Close(); far.Close() })
		conn := &Conn{Conn: near, l: c, peer: netip.MustParseAddr(addr)}
		return conn, c.enter(conn)
	}
	var all []*Conn
	for i := range 30 {
		conn, got := enter("192.0.2.1")
		if want := i < 24; got != want {
			t.Fatalf("connection %d of one peer: got %v, want %v", i, got, want)
		}
		if got {
			c.know(conn)
			all = append(all, conn)
		}
	}
	if st := c.Stats(); st.RejectedPeers != 6 || st.RejectedAll+st.Replaced != 0 || st.Open != 24 {
		t.Errorf("one peer: got %+v", st)
	}
	for range 30 {
		conn, got := enter("192.0.2.2")
		if !got {
			t.Fatal("another peer did not get in")
		}
		c.know(conn)
		all = append(all, conn)
	}
	if st := c.Stats(); c.known != 45 || st.Open != 48 || st.Replaced != 6 {
		t.Errorf("two peers: got %d known, %+v", c.known, st)
	}
	if conn, got := enter("192.0.2.3"); !got {
		t.Error("a third peer got no place")
	} else {
		all = append(all, conn)
	}
	for _, conn := range all {
		c.remove(conn)
		c.remove(conn)
	}
	if c.stats.Open != 0 || len(c.peers) != 0 || c.strangers.Len() != 0 || c.known != 0 {
		t.Errorf("%d open, %d peers, %d strangers, %d known after all left", c.stats.Open, len(c.peers), c.strangers.Len(), c.known)
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
