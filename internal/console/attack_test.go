package console

import (
	"bufio"
	"context"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"sluice/internal/dataset"
)

// 120 log-in forms of 3 MiB that never end cost next to nothing, are cut off, and keep no operator out.
func TestStalledLogIns(t *testing.T) {
	t.Parallel()
	s := openServiceIn(t, t.TempDir(), func(o *Options) { o.Loopback, o.Proxy = false, true })
	if err := s.console.s.Access.SetPassword(t.Context(), password); err != nil {
		t.Fatal(err)
	}
	before, begun := heap(), time.Now()
	const stalled, perMinute = 120, 5 // attempts that one address has
	conns := make([]net.Conn, stalled)
	half := strings.Repeat("a", 1<<20)
	for i := range conns {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conns[i] = conn
		go func() { // the server may close before all is written
			_, _ = fmt.Fprintf(conn, "POST /login HTTP/1.1\r\nHost: ops.example\r\nX-Forwarded-For: 198.51.100.1\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 3145728\r\n\r\npassword=%s", half)
		}()
	}
	answers := map[int]int{}
	for _, conn := range conns { // at the latest when the deadline of the bodies is over
		_ = conn.SetReadDeadline(time.Now().Add(3 * bodyTime))
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			answers[0]++ // closed before the answer could be read: the peer still writes
			continue
		}
		answers[resp.StatusCode]++
		resp.Body.Close()
	}
	minutes := int(time.Now().Unix()/60-begun.Unix()/60) + 1 // attempts are counted by the minute, which may end meanwhile
	if answers[400]+answers[429]+answers[0] != stalled || answers[400] > minutes*perMinute {
		t.Errorf("got answers %v in %d minutes, want 429, and 400 for at most %d a minute", answers, minutes, perMinute)
	}
	if grown := heap() - before; grown > 48<<20 { // what the tests beside it hold is in it, too; the forms have 120 MiB
		t.Errorf("the forms hold %d MiB", grown>>20)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/login", strings.NewReader("password="+strings.ReplaceAll(password, " ", "+")))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("X-Forwarded-For", "198.51.100.2")
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 303 {
		t.Errorf("an operator: got %d, want 303", resp.StatusCode)
	}
}

// A form that stalls within the limit is cut off by its deadline.
func TestStalledBody(t *testing.T) {
	t.Parallel()
	c := &Console{bodyTime: 50 * time.Millisecond}
	read := make(chan error, 1)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Server{Handler: c.limitBody(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		read <- err
	}))}
	defer web.Close()
	go func() { _ = web.Serve(l) }()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\npass")
	if err := <-read; err == nil {
		t.Error("half a body was read as a whole one")
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// watchLive opens the live view and returns its lines.
func (s *service) watchLive(ctx context.Context, change func(*http.Request)) (int, *bufio.Scanner) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/live/events", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if change != nil {
		change(r)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { resp.Body.Close() })
	return resp.StatusCode, bufio.NewScanner(resp.Body)
}

// expect reads until a line.
func expect(t *testing.T, lines *bufio.Scanner, want string) {
	t.Helper()
	for lines.Scan() {
		if lines.Text() == want {
			return
		}
	}
	t.Errorf("the stream ended without %q", want)
}

// However many watch, the next one can: it takes the place of the oldest, which learns why. A page of another site takes
// no place.
func TestLiveViewers(t *testing.T) {
	t.Parallel()
	s := openService(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	status, first := s.watchLive(ctx, nil)
	if status != 200 {
		t.Fatalf("got %d", status)
	}
	expect(t, first, "event: beat")
	for name, header := range map[string][2]string{
		"a site": {"Sec-Fetch-Site", "cross-site"}, "a subdomain": {"Sec-Fetch-Site", "same-site"}, "an old browser": {"Origin", "https://evil.example"},
	} {
		if got, _ := s.watchLive(ctx, func(r *http.Request) { r.Header.Set(header[0], header[1]) }); got != 403 {
			t.Errorf("%s: got %d, want 403", name, got)
		}
	}
	for range liveViewers {
		status, lines := s.watchLive(ctx, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-origin") })
		if status != 200 {
			t.Fatalf("got %d, want 200", status)
		}
		expect(t, lines, "event: beat")
	}
	expect(t, first, "event: replaced")
	if first.Scan(); first.Text() != "data:" {
		t.Errorf("got %q after the event", first.Text())
	}
	if got := s.console.tap.watched.Load(); got != liveViewers {
		t.Errorf("got %d viewers, want %d", got, liveViewers)
	}
	cancel()
	until(t, "a live view that nobody watches", func() bool { return s.console.tap.watched.Load() == 0 })
}

// Viewers of one address replace each other, not those of others.
func TestLiveShare(t *testing.T) {
	var tap tap
	ended := func(v *viewer) bool {
		select {
		case <-v.ended:
			return true
		default:
			return false
		}
	}
	other := tap.watch("192.0.2.1", "")
	var greedy []*viewer
	for range 50 {
		greedy = append(greedy, tap.watch("198.51.100.1", ""))
	}
	if ended(other) || ended(greedy[49]) || !ended(greedy[45]) || len(tap.viewers) != 1+liveShare {
		t.Errorf("%d viewers are left; the other one has ended: %v", len(tap.viewers), ended(other))
	}
	for i := range 50 { // many addresses, one window each: the oldest of those with the most goes
		tap.watch(fmt.Sprintf("203.0.113.%d", i), "")
	}
	if len(tap.viewers) != liveViewers {
		t.Errorf("got %d viewers, want %d", len(tap.viewers), liveViewers)
	}
	tap.leave(other)
	tap.leave(other)
}

// A viewer that does not read is cut off.
func TestLiveViewerThatDoesNotRead(t *testing.T) {
	t.Parallel()
	c := &Console{o: Options{Loopback: true}, done: make(chan struct{}), writeTime: 100 * time.Millisecond}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Server{Handler: http.HandlerFunc(c.follow)}
	defer web.Close()
	go func() { _ = web.Serve(l) }()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "GET /live/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
	until(t, "a viewer", func() bool { return c.tap.watched.Load() == 1 })
	line := liveLine{About: strings.Repeat("x", 256<<10)}
	until(t, "the end of a viewer that does not read", func() bool {
		c.tap.mu.Lock()
		defer c.tap.mu.Unlock()
		c.tap.send("shop", line)
		return c.tap.watched.Load() == 0
	})
}

// The command to copy names a dataset that exists, quoted for the shell, whatever the address says.
func TestCommandToCopy(t *testing.T) {
	t.Parallel()
	s := openService(t)
	s.dataset(dataset.Spec{ID: "o'neill"})
	until(t, "a console that knows the dataset", func() bool { return len(s.console.look().Datasets) == 1 })
	_, page := s.read("/live?dataset=x%27;reboot;%27")
	_, command, found := strings.Cut(page, "curl -H")
	command = html.UnescapeString(command)
	if !found || strings.Contains(command, "reboot") || !strings.Contains(command, `o'\''neill`) {
		t.Errorf("got a page with the command %q", command)
	}
}
