package api

import (
	"fmt"
	"io"
	"net"
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
	waitFor(t, "no connections", func() bool { return s.Stats().Connections.Open == 0 })
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
	waitFor(t, "the connections", func() bool { return s.Stats().Connections.Open == 32 })
	for range 10 {
		hold()
	}
	for _, c := range held[:10] {
		if !closed(c) {
			t.Error("the oldest connections of strangers stay open")
		}
	}
	waitFor(t, "the new connections", func() bool { return s.Stats().Connections.Open == 32 }) // the old one is closed first
	st := s.Stats().Connections
	if st.Open != 32 || st.Limit != 64 || st.Replaced != 10 || st.RejectedPeers+st.RejectedAll != 0 {
		t.Errorf("got %d of %d open, %d, %d and %d closed", st.Open, st.Limit, st.Replaced, st.RejectedPeers, st.RejectedAll)
	}
	if r := s.post("/v1/events", goodEvent("")); r.StatusCode != 200 {
		t.Errorf("a sender with a key: got %d", r.StatusCode)
	}
	if got := s.Stats().Connections.Replaced; got != 10 {
		t.Errorf("its connection was closed, it needed another: %d closed, want 10", got)
	}
}

func isTimeout(err error) bool {
	ne, ok := err.(net.Error)
	return ok && ne.Timeout()
}
