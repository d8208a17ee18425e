package cluster

import (
	"io"
	"net"
	"sync"
	"testing"
)

// wire is what a link does with what is sent over it.
type wire uint8

const (
	whole  wire = iota // everything passes
	silent             // nothing passes: connections stay and are made, and no byte comes through
	deaf               // requests pass, answers do not
	reset              // connections are reset, new ones at once
)

// link is a network cable between a process that connects and one that listens, which a test can cut. What was sent while
// it was silent arrives when it is whole again, as TCP does it.
type link struct {
	listener net.Listener
	target   string

	mu      sync.Mutex
	state   wire
	changed chan struct{} // closed when the state changes
	conns   map[net.Conn]bool
}

func newLink(t *testing.T, target string) *link {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k := &link{listener: l, target: target, changed: make(chan struct{}), conns: map[net.Conn]bool{}}
	go k.accept()
	t.Cleanup(func() {
		_ = l.Close()
		k.set(reset)
	})
	return k
}

func (k *link) address() string { return k.listener.Addr().String() }

// set changes what the link does.
func (k *link) set(to wire) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state = to
	close(k.changed)
	k.changed = make(chan struct{})
	if to == reset {
		for c := range k.conns {
			hangUp(c)
		}
	}
}

// busy says whether there are connections.
func (k *link) busy() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.conns) > 0
}

func hangUp(c net.Conn) {
	_ = c.(*net.TCPConn).SetLinger(0) // Close sends a reset
	_ = c.Close()
}

// hold takes a connection into the list of those to reset; it is false when the link resets all.
func (k *link) hold(c net.Conn) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.state == reset {
		hangUp(c)
		return false
	}
	k.conns[c] = true
	return true
}

func (k *link) release(c net.Conn) {
	k.mu.Lock()
	delete(k.conns, c)
	k.mu.Unlock()
	_ = c.Close()
}

// await waits until a request, or an answer, may pass. It is false when the link resets its connections.
func (k *link) await(answer bool) bool {
	for {
		k.mu.Lock()
		state, changed := k.state, k.changed
		k.mu.Unlock()
		switch {
		case state == reset:
			return false
		case state == whole, state == deaf && !answer:
			return true
		}
		<-changed
	}
}

func (k *link) accept() {
	for {
		c, err := k.listener.Accept()
		if err != nil {
			return
		}
		if k.hold(c) {
			go k.connect(c)
		}
	}
}

// connect carries one connection to its end.
func (k *link) connect(c net.Conn) {
	defer k.release(c)
	if !k.await(false) {
		return
	}
	to, err := net.Dial("tcp", k.target)
	if err != nil {
		hangUp(c)
		return
	}
	defer k.release(to)
	if !k.hold(to) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { k.carry(to, c, false) })
	both.Go(func() { k.carry(c, to, true) })
	both.Wait()
}

// carry copies one direction. Its end is the end of the connection.
func (k *link) carry(to, from net.Conn, answer bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if !k.await(answer) {
			return
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				_ = from.Close()
				return
			}
		}
		if err == io.EOF {
			_ = to.(*net.TCPConn).CloseWrite()
			return
		}
		if err != nil {
			hangUp(to)
			return
		}
	}
}

// A link that is cut carries nothing, loses nothing of what was sent meanwhile when it was silent, and ends connections
// when it resets them: else the faults of the network would show nothing.
func TestLink(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c) }()
		}
	}()
	k := newLink(t, l.Addr().String())
	c, err := net.Dial("tcp", k.address())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ask := func() error {
		if _, err := c.Write([]byte{1}); err != nil {
			return err
		}
		_ = c.SetReadDeadline(soon())
		_, err := io.ReadFull(c, make([]byte, 1))
		return err
	}
	if err := ask(); err != nil {
		t.Fatalf("whole: got %v, want an answer", err)
	}
	for _, state := range []wire{silent, deaf} {
		k.set(state)
		if err := ask(); err == nil || !err.(net.Error).Timeout() {
			t.Errorf("state %d: got %v, want no answer", state, err)
		}
		k.set(whole)
		_ = c.SetReadDeadline(soon())
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			t.Errorf("after state %d: got %v, want the answer that was late", state, err)
		}
	}
	k.set(reset)
	if err := ask(); err == nil || err == io.EOF {
		t.Errorf("reset: got %v, want a connection that was reset", err)
	}
}
