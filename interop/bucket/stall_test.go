package bucket

import (
	"context"
	"errors"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"sluice/internal/objectstore"
)

// staller is a way to an S3 server on which nothing moves any more once it is stalled: the connections stay open.
type staller struct {
	url    string
	stall  func()
	target string
	held   chan struct{} // closed when nothing is to move
	ended  <-chan struct{}
}

func newStaller(t *testing.T, g *gateway) *staller {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(g.url)
	if err != nil {
		t.Fatal(err)
	}
	s := &staller{url: "http://" + l.Addr().String(), target: u.Host, held: make(chan struct{}), ended: t.Context().Done()}
	s.stall = sync.OnceFunc(func() { close(s.held) })
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			go s.carry(from)
		}
	}()
	return s
}

func (s *staller) carry(from net.Conn) {
	to, err := net.Dial("tcp", s.target)
	if err != nil {
		_ = from.Close()
		return
	}
	go s.move(from, to)
	s.move(to, from)
}

// move carries bytes one way.
func (s *staller) move(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		select {
		case <-s.held:
			<-s.ended // a store that has stopped reading, and answers nothing
			return
		default:
		}
		if _, werr := to.Write(b[:n]); err != nil || werr != nil {
			return
		}
	}
}

// A store that stops reading while an object is being written holds its writer for no longer than the deadline of a part, or
// until the context ends.
func TestStalledUpload(t *testing.T) {
	const part = 16 << 20
	for name, c := range map[string]struct {
		timeout       time.Duration
		before, after int // bytes, before the way is stalled and after
		cancelled     bool
		want          error
	}{
		"deadline of the only request": {timeout: time.Second, before: 1, want: context.DeadlineExceeded},
		// The second part is a few bytes, so its deadline is that of any request.
		"deadline of a part":               {timeout: time.Second, before: part + 1, want: context.DeadlineExceeded},
		"end of the context":               {timeout: time.Minute, before: part, after: 1, cancelled: true, want: context.Canceled},
		"end of the context inside a part": {timeout: time.Minute, before: part + 1, after: part, cancelled: true, want: context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			way := newStaller(t, startGateway(t))
			o := options(way.url)
			o.Timeout = c.timeout
			s, err := objectstore.OpenS3(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			w, err := s.Create(ctx, "object")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write(make([]byte, c.before)); err != nil {
				t.Fatal(err)
			}
			way.stall()
			begun := time.Now()
			if c.cancelled {
				time.AfterFunc(200*time.Millisecond, cancel)
			}
			_, err = w.Write(make([]byte, c.after))
			err = errors.Join(err, w.Close())
			if took := time.Since(begun); !errors.Is(err, c.want) || took > 10*time.Second {
				t.Errorf("got %v after %v, want %v at once", err, took, c.want)
			}
		})
	}
}
