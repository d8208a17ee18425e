package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// The operators' listener takes 512 connections at one time and closes what is over that. The metrics say so, and who
// leaves makes a place.
func TestOpsConnectionsAreLimited(t *testing.T) {
	s := start(t, t.TempDir())
	host := strings.TrimSuffix(strings.TrimPrefix(s.ops, "http://"), "/")
	dial := func() net.Conn {
		c, err := net.DialTimeout("tcp", host, 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	ask := func(c net.Conn, path string) (string, error) { // on a connection that stays open
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, host); err != nil {
			return "", err
		}
		b := make([]byte, 64)
		n, err := io.ReadAtLeast(c, b, len("HTTP/1.1 200 OK"))
		return string(b[:n]), err
	}
	held := make([]net.Conn, opsConnections)
	for i := range held {
		held[i] = dial()
		if got, err := ask(held[i], "/livez"); err != nil || !strings.HasPrefix(got, "HTTP/1.1 200") {
			t.Fatalf("connection %d: got %q, %v", i+1, got, err)
		}
	}
	over := dial()
	if got, err := ask(over, "/livez"); err == nil {
		t.Errorf("connection %d: got %q, want it closed", opsConnections+1, got)
	}
	_ = held[0].Close()
	var page string
	eventually(t, 20*time.Second, "a place for the next connection", func() error {
		r, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get(s.ops + "/metrics")
		if err != nil {
			return err
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		page = string(b)
		return err
	})
	for _, want := range []string{"sluice_ops_connections 512\n", "sluice_ops_connections_limit 512\n"} {
		if !strings.Contains(page, want) {
			t.Errorf("the metrics lack %q", want)
		}
	}
	if strings.Contains(page, `sluice_ops_connections_rejected_total{limit="all"} 0`) || !strings.Contains(page, `sluice_ops_connections_rejected_total{limit="all"}`) {
		t.Error("the metrics do not count the connection that was closed")
	}
}

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
		s := &service{config: config{opsProxy: c.proxy}}
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
		eventually(t, 10*time.Second, name, func() error { // the other peer is the last to come
			if st := l.Stats(); int(st.Open)+int(st.RejectedPeers) != opsConnections/4+2 {
				return fmt.Errorf("%+v", st)
			}
			return nil
		})
		if st := l.Stats(); int(st.Open) != c.taken+1 || int(st.RejectedPeers) != opsConnections/4+1-c.taken {
			t.Errorf("%s: got %+v, want %d of one peer and one of another", name, st, c.taken)
		}
		_ = l.Close()
		for conn := range accepted {
			_ = conn.Close()
		}
	}
}
