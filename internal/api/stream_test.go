package api

import (
	"bytes"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"sluice/internal/listen"
)

// stalled is a connection of HTTP/2 whose other end takes no byte of any answer: its windows stay closed.
type stalled struct {
	net.Conn
	framer *http2.Framer
	next   uint32 // id of the next stream
}

func stall(t testing.TB, conn net.Conn) *stalled {
	t.Helper()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	s := &stalled{conn, http2.NewFramer(conn, conn), 1}
	_, err := io.WriteString(conn, http2.ClientPreface)
	if err == nil {
		err = s.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ask opens a stream. A request without a body ends it.
func (s *stalled) ask(t testing.TB, method, path, key string, body []byte) {
	t.Helper()
	if err := s.open(method, path, key, body); err != nil {
		t.Fatal(err)
	}
}

func (s *stalled) open(method, path, key string, body []byte) error {
	var head bytes.Buffer
	e := hpack.NewEncoder(&head)
	for _, h := range [][2]string{{":method", method}, {":scheme", "http"}, {":authority", "x"}, {":path", path}, {"authorization", key}} {
		_ = e.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}) // into memory
	}
	err := s.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: s.next, BlockFragment: head.Bytes(), EndHeaders: true, EndStream: body == nil})
	for len(body) > 0 && err == nil {
		n := min(len(body), 16<<10)
		err = s.framer.WriteData(s.next, false, body[:n])
		body = body[n:]
	}
	s.next += 2
	return err
}

// answered reads until each of n streams has the head of an answer, or was reset.
func (s *stalled) answered(t testing.TB, n int) (heads, resets int) {
	t.Helper()
	for heads+resets < n {
		f, err := s.framer.ReadFrame()
		if err != nil {
			t.Fatalf("after %d heads and %d resets: %v", heads, resets, err)
		}
		switch f.(type) {
		case *http2.HeadersFrame:
			heads++
		case *http2.RSTStreamFrame:
			resets++
		}
	}
	return heads, resets
}

func liveBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// Answers that nobody reads cost little: a connection has at most eight of them without a valid key, each counts like a
// connection, and none has a copy of what it gives out.
func TestStreamsThatNobodyReads(t *testing.T) {
	s := openServiceIn(t, t.TempDir(), func(s *Server) { s.Limits.Connections = 400 })
	s.key = s.dataset(specShop)
	const streams, connections = 32, 20
	for _, c := range []struct{ method, path, key string }{
		{"GET", "/docs", ""}, {"GET", "/openapi.json", ""}, {"GET", "/nothing", ""}, {"POST", "/v1/events/batch", "Bearer x"},
	} {
		t.Run(c.path, func(t *testing.T) {
			for range 3 { // what is made once
				s.send(c.method, c.path, "", "Authorization:"+c.key)
			}
			testClient.CloseIdleConnections()
			waitFor(t, "no connections", func() bool { return s.Stats().Connections.Open == 0 })
			before := liveBytes()
			var all []*stalled
			open := 0
			for range connections {
				h2 := stall(t, s.dial(t))
				for range streams {
					h2.ask(t, c.method, c.path, c.key, nil)
				}
				heads, _ := h2.answered(t, streams)
				open += heads
				all = append(all, h2)
			}
			held := liveBytes() - before
			t.Logf("%d streams open, %d bytes for each", open, held/int64(max(1, open)))
			if open > 8*connections || open < connections {
				t.Errorf("%d streams are open on %d connections, want 1 to 8 each", open, connections)
			}
			if got := s.Stats().Connections.Open; got != int64(open) {
				t.Errorf("%d connections are counted for %d streams", got, open)
			}
			if most := int64(open) * listen.ConnectionCost; held > most {
				t.Errorf("%d streams hold %d bytes, want at most %d", open, held, most)
			}
			for _, h2 := range all {
				_ = h2.Close()
			}
			waitFor(t, "no connections", func() bool { return s.Stats().Connections.Open == 0 })
		})
	}
	h2 := stall(t, s.dial(t))
	for range 3 * 8 { // whoever has a key is not limited to eight
		h2.ask(t, "GET", "/v1/schema/events", "Bearer "+s.key, nil)
	}
	if heads, _ := h2.answered(t, 3*8); heads != 3*8 {
		t.Errorf("with a key: got %d answers of %d", heads, 3*8)
	}
	if got := s.Stats().BytesInFlight; got != 3*8*overhead {
		t.Errorf("24 streams with a key count as %d bytes, want %d", got, 3*8*overhead)
	}
}

// All streams of strangers together count as connections: when all places are taken, the next one is reset.
func TestStreamsTakePlacesOfConnections(t *testing.T) {
	s := openServiceIn(t, t.TempDir(), func(s *Server) { s.Limits.Connections = 40 })
	s.key = s.dataset(specShop)
	for range 5 {
		h2 := stall(t, s.dial(t))
		for range 8 {
			h2.ask(t, "GET", "/docs", "", nil)
		}
		h2.answered(t, 8)
	}
	if st := s.Stats().Connections; st.Open > 20 || st.Streams == 0 { // one peer has a half
		t.Errorf("got %d places, %d streams were reset", st.Open, st.Streams)
	}
	if r := s.post("/v1/events", goodEvent("")); r.StatusCode != 200 {
		t.Errorf("a sender with a key: got %d", r.StatusCode)
	}
}

// What a stranger sends and nobody reads costs little, too: a body behind a request that has none, half a frame.
func TestBodiesThatNobodyReads(t *testing.T) {
	s := openServiceIn(t, t.TempDir(), func(s *Server) { s.Limits.Connections = 400 })
	for range 3 {
		s.send("GET", "/docs", "", "Authorization:")
	}
	const connections = 20
	for name, send := range map[string]func(*stalled){
		"a body": func(h2 *stalled) {
			h2.ask(t, "GET", "/docs", "", []byte{})
			h2.answered(t, 1)
			go func() { // the server may reset the stream before all is written
				for range 63 {
					if h2.framer.WriteData(1, false, make([]byte, 16<<10)) != nil {
						return
					}
				}
			}()
			for { // until the server has read all, or says that it reads no more
				f, err := h2.framer.ReadFrame()
				_, reset := f.(*http2.RSTStreamFrame)
				if err != nil || reset {
					return
				}
			}
		},
		"half a frame": func(h2 *stalled) {
			_, _ = h2.Write([]byte{0x0f, 0xff, 0xff, 0, 0, 0, 0, 0, 1}) // 1 MiB of DATA follow, it says
			_, _ = h2.Write(make([]byte, 100))
		},
	} {
		t.Run(name, func(t *testing.T) {
			testClient.CloseIdleConnections()
			waitFor(t, "no connections", func() bool { return s.Stats().Connections.Open == 0 })
			before := liveBytes()
			var all []*stalled
			for range connections {
				h2 := stall(t, s.dial(t))
				send(h2)
				all = append(all, h2)
			}
			waitFor(t, "little memory", func() bool { return liveBytes()-before < connections*2*listen.ConnectionCost })
			for _, h2 := range all {
				_ = h2.Close()
			}
		})
	}
}

// A connection that ended costs nothing, also if it ended in the middle of answers.
func TestConnectionsThatEndAreForgotten(t *testing.T) {
	s := openServiceIn(t, t.TempDir(), nil)
	before, most := int64(0), int64(100*8<<10)
	for round := range 2 { // in the first one, what is made once
		if round == 1 {
			before = liveBytes()
		}
		for range 100 {
			h2 := stall(t, s.dial(t))
			for range 32 {
				h2.ask(t, "GET", "/docs", "", nil)
			}
			h2.answered(t, 32)
			_ = h2.Close()
		}
		waitFor(t, "no connections", func() bool { return s.Stats().Connections.Open == 0 })
	}
	waitFor(t, "the memory", func() bool { return liveBytes()-before < most })
}

// The same holds for the operators' listener with TLS: eight streams of a connection without credentials, and all of them
// together count as connections. Whoever has credentials has more.
func TestOpsStreamsThatNobodyReads(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	certFile, keyFile := writeCertificate(t, t.TempDir(), 1)
	cert, err := listen.OpenCertificate(certFile, keyFile, time.Now, log)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := listen.New(raw, 64, 65)
	page := make([]byte, 1<<20)
	web := listen.NewOpsServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			listen.CarriedKey(r.Context())
		}
		if r.URL.Path == "/page" {
			_, _ = w.Write(page)
			return
		}
		_, _ = io.WriteString(w, "alive")
	}), cert, log)
	if web.WriteTimeout == 0 || web.WriteTimeout > time.Minute {
		t.Errorf("an answer has %v to be read", web.WriteTimeout)
	}
	go web.ServeTLS(l, "", "")
	defer web.Close()
	dial := func() net.Conn {
		conn, err := tls.Dial("tcp", raw.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	operator := stall(t, dial())
	operator.ask(t, "GET", "/", "Bearer x", nil)
	operator.answered(t, 1)
	for range 12 {
		operator.ask(t, "GET", "/page", "", nil)
	}
	if heads, _ := operator.answered(t, 12); heads != 12 {
		t.Errorf("an operator: %d answers, want 12", heads)
	}
	for _, path := range []string{"/page", "/livez"} {
		for range 40 {
			h2 := stall(t, dial())
			for range 16 {
				h2.ask(t, "GET", path, "", nil)
			}
			if heads, _ := h2.answered(t, 16); heads > listen.StrangerStreams {
				t.Fatalf("%s: %d streams of one connection are open", path, heads)
			}
		}
	}
	if st := l.Stats(); st.Open > 64 || st.Streams == 0 || st.Replaced == 0 {
		t.Errorf("got %+v", st)
	}
	operator.ask(t, "GET", "/livez", "", nil)
	if heads, _ := operator.answered(t, 1); heads != 1 {
		t.Error("the operator's connection is gone")
	}
}

// An answer that nobody reads is cut off soon: the server does not wait for minutes.
func TestUnreadAnswerIsCutOff(t *testing.T) {
	s := openServiceIn(t, t.TempDir(), func(s *Server) { s.Limits.AnswerTime = 100 * time.Millisecond })
	s.key = s.dataset(specShop)
	h2 := stall(t, s.dial(t))
	h2.ask(t, "GET", "/docs", "", nil)
	h2.ask(t, "GET", "/v1/schema/events", "Bearer "+s.key, nil)
	heads := 0
	for resets := 0; resets < 2; {
		f, err := h2.framer.ReadFrame()
		if err != nil {
			t.Fatalf("%d heads, %d resets: %v", heads, resets, err)
		}
		switch f.(type) {
		case *http2.HeadersFrame:
			heads++
		case *http2.RSTStreamFrame:
			resets++
		}
	}
	if heads != 2 {
		t.Errorf("got %d heads, want 2", heads)
	}
	waitFor(t, "the memory", func() bool { return s.Stats().BytesInFlight == 0 })
}

// Who opens a stream for each one that is reset loses the connection: reading and resetting streams costs the server, too.
func TestConnectionEndsAfterManyResets(t *testing.T) {
	s := openServiceIn(t, t.TempDir(), func(s *Server) { s.Limits.Connections = 400 })
	h2 := stall(t, s.dial(t))
	for range 32 {
		h2.ask(t, "GET", "/docs", "", nil)
	}
	resets := 0
	for {
		f, err := h2.framer.ReadFrame()
		if err != nil {
			break
		}
		if _, reset := f.(*http2.RSTStreamFrame); !reset {
			continue
		}
		if resets++; resets > 2*listen.MostReset {
			t.Fatalf("the connection is open after %d resets, want its end after %d", resets, listen.MostReset)
		}
		if err := h2.open("GET", "/docs", "", nil); err != nil {
			break
		}
	}
	waitFor(t, "no connections", func() bool { return s.Stats().Connections.Open == 0 })
}
