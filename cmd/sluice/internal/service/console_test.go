package service

import (
	"fmt"
	"net"
	"testing"
	"time"

	"sluice/internal/servicetest"
)

// elsewhere is a listener that says that it has an address of another network.
type elsewhere struct{ net.Listener }

func (elsewhere) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 8081} }

// One peer may have a quarter of the connections where peers have addresses of their own, and all of them behind a proxy.
func TestOpsConnectionsOfOnePeer(t *testing.T) {
	for name, c := range map[string]struct {
		proxy bool
		taken int
	}{"a network": {false, opsConnections / 4}, "a proxy": {true, opsConnections/4 + 1}} {
		raw, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := &Service{Config: Config{OpsProxy: c.proxy}}
		l := s.limitOps(elsewhere{raw})
		accepted := make(chan net.Conn, opsConnections)
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					close(accepted)
					return
				}
				accepted <- conn
			}
		}()
		from := func(ip net.IP) {
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: ip}, Timeout: 10 * time.Second}
			conn, err := d.Dial("tcp", raw.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
		}
		for range opsConnections/4 + 1 {
			from(net.IPv4(127, 0, 0, 1))
		}
		from(net.IPv4(127, 0, 0, 2))
		servicetest.Eventually(t, 10*time.Second, name, func() error { // the other peer is the last to come
			if st := l.Stats(); int(st.Open)+int(st.Replaced) != opsConnections/4+2 {
				return fmt.Errorf("%+v", st)
			}
			return nil
		})
		if st := l.Stats(); int(st.Open) != c.taken+1 || int(st.Replaced) != opsConnections/4+1-c.taken {
			t.Errorf("%s: got %+v, want %d of one peer and one of another", name, st, c.taken)
		}
		_ = l.Close()
		for conn := range accepted {
			_ = conn.Close()
		}
	}
}
