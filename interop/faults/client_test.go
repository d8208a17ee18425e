//go:build faults

package faults

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"sluice/internal/servicetest"
	"sluice/interop/loopdisk"
)

// host is where a server listens, without the scheme.
func (s *server) host() string { return strings.TrimPrefix(s.URL(), "http://") }

// Ten thousand connections that say nothing, or hardly anything, some of them with a key: other datasets are served
// meanwhile, memory stays bounded, and the idle ones are shown the door.
func TestSlowConnections(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir, launch{args: []string{"--memory", "8GiB"}}) // all come from one peer, which may have a half of the connections
	l := newLedger("shop", provisioned(t, dir, "shop"))
	slow := provisioned(t, dir, "slow")
	n := rounds(t, 10_000, 1000)
	starts := []string{
		"",                                   // nothing
		"POST /v1/events HTTP/1.1\r\nHost: ", // half a head
		"POST /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + slow + "\r\nContent-Length: 5000000\r\n\r\n{", // a body that does not come
	}
	conns := make([]net.Conn, n)
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			for i := w; i < n; i += 16 {
				c, err := net.DialTimeout("tcp", s.host(), 20*time.Second)
				if err == nil {
					_, err = io.WriteString(c, starts[i%len(starts)])
				}
				if err != nil {
					t.Errorf("connection %d: %v", i, err)
					return
				}
				conns[i] = c
			}
		})
	}
	wg.Wait()
	var closed atomic.Int64
	for _, c := range conns {
		if c == nil {
			continue
		}
		wg.Go(func() { // reads until the server ends it
			_ = c.SetReadDeadline(time.Now().Add(150 * time.Second))
			if _, err := io.Copy(io.Discard, c); err == nil {
				closed.Add(1)
			}
			_ = c.Close()
		})
	}
	begun := time.Now()
	ok, offered, latency := steady(50, 5*time.Second, 64, func(int) bool {
		return l.Send(s, l.Request(servicetest.Single)).Status == http.StatusOK
	})
	t.Logf("%d slow connections; of %d requests beside them %d were answered 200, p99 %v; %d MiB of memory", n, offered, ok, percentile(latency, 0.99), s.memory(t)>>20)
	if ok < offered*9/10 {
		t.Errorf("%d of %d requests were answered 200", ok, offered)
	}
	if most := s.memory(t); most > 512<<20 {
		t.Errorf("%d MiB of memory", most>>20)
	}
	wg.Wait()
	t.Logf("%d of them were closed by the server, the last after %v", closed.Load(), time.Since(begun).Round(time.Second))
	if int(closed.Load()) < n {
		t.Errorf("%d of %d connections were never closed", n-int(closed.Load()), n)
	}
	l.Settle(t, s, 30*time.Second)
	l.check(t, dir)
}

// Connections that are reset in the middle of a body: nothing of it is stored, and nobody else is hurt.
func TestResetsInMidBody(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir, launch{})
	l := newLedger("shop", provisioned(t, dir, "shop"))
	var stop atomic.Bool
	senders := l.Load(s, servicetest.Kinds, &stop)
	half := newLedger("shop", l.Key)
	n := rounds(t, 2000, 300)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := w; i < n; i += 8 {
				if err := reset(s, half, fmt.Sprintf("half-%d", i)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	stop.Store(true)
	senders.Wait()
	for _, e := range l.Entries() {
		if e.Status != http.StatusOK {
			t.Errorf("answer %d beside the resets", e.Status)
		}
	}
	l.Settle(t, s, 30*time.Second)
	l.check(t, dir) // a mark of half a body would be one that was never sent
	t.Logf("%d resets, %v", n, l.Statuses())
}

// reset sends whole events in a body that is cut off before its end.
func reset(s *server, l *ledger, mark string) error {
	c, err := net.Dial("tcp", s.host())
	if err != nil {
		return err
	}
	defer c.Close()
	body := "[" + l.Event(mark, 0) + "," + l.Event(mark+"-b", 0) + ","
	fmt.Fprintf(c, "POST /v1/events/batch HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", l.Key, len(body)+500, body)
	return c.(*net.TCPConn).SetLinger(0) // Close sends a reset
}

// The service with 256 MiB of memory, flooded with the largest bodies there may be, plain and compressed: it rejects
// what it cannot hold, and never takes more.
func TestMemoryLimit(t *testing.T) {
	t.Run("GOMEMLIMIT", func(t *testing.T) {
		floodMemory(t, launch{env: []string{"GOMEMLIMIT=160MiB"}})
	})
	t.Run("control group", func(t *testing.T) { // which would kill it; nothing is set by hand
		floodMemory(t, launch{group: controlGroup(t, 256<<20)})
	})
}

// controlGroup makes a control group with a limit of memory, in whichever version there is.
func controlGroup(t *testing.T, limit int64) string {
	t.Helper()
	loopdisk.Need(t)
	root, file := "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
	if _, err := os.Stat(root); err != nil {
		root, file = "/sys/fs/cgroup", "memory.max"
		if err := os.WriteFile(root+"/cgroup.subtree_control", []byte("+memory"), 0o644); err != nil {
			t.Fatalf("this fault needs the memory controller of control groups: %v", err)
		}
	}
	dir := fmt.Sprintf("%s/sluice-%d", root, os.Getpid())
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatalf("this fault needs control groups that may be made: %v", err)
	}
	t.Cleanup(func() {
		var err error
		for range 50 { // until the killed process is gone
			if err = os.Remove(dir); err == nil {
				return
			}
			pause(100 * time.Millisecond)
		}
		t.Errorf("left behind: %v", err)
	})
	if err := os.WriteFile(dir+"/"+file, []byte(strconv.FormatInt(limit, 10)), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func floodMemory(t *testing.T, how launch) {
	t.Helper()
	dir := t.TempDir()
	s := start(t, dir, how)
	l := newLedger("shop", provisioned(t, dir, "shop"))
	events := make([]string, 1000) // just below 5 MiB
	for i := range events {
		events[i] = strings.TrimSuffix(l.Event(fmt.Sprint("large-", i), 0), "}") + fmt.Sprintf(`,"referer":"https://search.example/%d/%s"}`, i, strings.Repeat("x", 4800))
	}
	plain := "[" + strings.Join(events, ",") + "]"
	bodies := []struct{ body, coding string }{{plain, ""}, {gzipped(t, plain), "gzip"}, {zstded(t, plain), "zstd"}}
	var wg sync.WaitGroup
	var counts [1000]atomic.Int64
	last := 15 * time.Second
	if brief() {
		last = 4 * time.Second
	}
	begun := time.Now()
	for w := range 48 {
		wg.Go(func() {
			for time.Since(begun) < last {
				b := bodies[w%len(bodies)]
				a, err := s.post(l.Key, "/v1/events/batch", b.body, "Content-Encoding", b.coding)
				if err != nil {
					a.Status = 0
				}
				counts[a.Status].Add(1)
			}
		})
	}
	wg.Wait()
	most := s.memory(t)
	t.Logf("%d MiB at most; %d answers 200, %d 503, %d none; bodies of %d KiB", most>>20, counts[200].Load(), counts[503].Load(), counts[0].Load(), len(plain)>>10)
	if most > 256<<20 {
		t.Errorf("%d MiB of memory, want 256 at most", most>>20)
	}
	if s.Ended() {
		t.Fatalf("it died:\n%s", s.Said())
	}
	if counts[200].Load() == 0 || counts[503].Load() == 0 {
		t.Error("want some taken and some rejected: the test shows nothing")
	}
	l.Settle(t, s, 120*time.Second)
	if most := s.memory(t); most > 256<<20 {
		t.Errorf("%d MiB of memory after loading, want 256 at most", most>>20)
	}
	query(t, dir, "events", "select 'rows', count(*) from t", func(_ string, n int64) {
		if want := counts[200].Load()*1000 + 1; n < want {
			t.Errorf("%d rows, want %d", n, want)
		}
	})
}

func gzipped(t *testing.T, s string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, s); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func zstded(t *testing.T, s string, options ...zstd.EOption) string {
	t.Helper()
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b, options...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, s); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Bodies made to cost more than they weigh: each is answered soon and briefly, and memory stays bounded.
func TestBombs(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir, launch{env: []string{"GOMEMLIMIT=192MiB"}})
	l := newLedger("shop", provisioned(t, dir, "shop"))
	const mebibyte = 1 << 20
	zeros := strings.Repeat("\x00", 200*mebibyte)
	spaces := strings.Repeat(" ", 200*mebibyte)
	event := l.Event("bomb", 0)
	with := func(member string) string { return strings.TrimSuffix(event, "}") + "," + member + "}" }
	members := make([]string, 0, 300_000)
	for i := range cap(members) {
		members = append(members, fmt.Sprintf(`"m%d":0`, i))
	}
	bombs := []struct {
		name, body, coding string
		valid              bool // it may be taken
	}{
		{"brackets", strings.Repeat("[", 5*mebibyte), "", false},
		{"braces", strings.Repeat(`{"a":`, mebibyte), "", false},
		{"nested custom_data", with(`"custom_data":` + strings.Repeat(`{"a":`, 500_000) + "1" + strings.Repeat("}", 500_000)), "", false},
		{"many members", with(strings.Join(members, ",")), "", true}, // unknown ones are dropped
		{"many duplicates", with(strings.TrimSuffix(strings.Repeat(`"x":1,`, 500_000), ",")), "", false},
		{"long number", with(`"value":` + strings.Repeat("9", 4*mebibyte)), "", false},
		{"escapes", with(`"cp_name":"` + strings.Repeat(`\u0041`, 700_000) + `"`), "", false},
		{"encoded in encoded", with(`"page_url":"https://x.example/` + strings.Repeat("%25", 2700) + `"`), "", false},
		{"many events", "[" + strings.TrimSuffix(strings.Repeat("{},", 1_700_000), ",") + "]", "", false},
		{"gzip of zeros", gzipped(t, zeros), "gzip", false},
		{"gzip of spaces", gzipped(t, spaces), "gzip", false},
		{"gzip of gzip", gzipped(t, gzipped(t, zeros)), "gzip", false},
		{"zstd of zeros", zstded(t, zeros), "zstd", false},
		{"zstd with a large window", zstded(t, spaces, zstd.WithWindowSize(128*mebibyte), zstd.WithSingleSegment(false)), "zstd", false},
		{"zstd, many frames", strings.Repeat(zstded(t, spaces[:mebibyte]), 1000), "zstd", false},
	}
	for _, b := range bombs {
		if len(b.body) > 5*mebibyte {
			b.body = b.body[:5*mebibyte]
		}
		path := "/v1/events/batch"
		if strings.HasPrefix(b.body, "{") {
			path = "/v1/events"
		}
		var wg sync.WaitGroup
		var slowest atomic.Int64
		var last atomic.Int64
		for range 8 {
			wg.Go(func() {
				begun := time.Now()
				a, err := s.post(l.Key, path, b.body, "Content-Encoding", b.coding)
				if err != nil {
					t.Errorf("%s: %v", b.name, err)
					return
				}
				last.Store(int64(a.Status))
				slowest.Store(max(slowest.Load(), int64(time.Since(begun))))
				if a.Status != 400 && a.Status != 413 && a.Status != 503 && !(a.Status == 200 && b.valid) {
					t.Errorf("%s: answer %d", b.name, a.Status)
				}
				if len(a.Body) > 256<<10 {
					t.Errorf("%s: an answer of %d KiB", b.name, len(a.Body)>>10)
				}
			})
		}
		wg.Wait()
		t.Logf("%-26s %4d KiB: %d after %v, %d MiB", b.name, len(b.body)>>10, last.Load(), time.Duration(slowest.Load()).Round(time.Millisecond), s.memory(t)>>20)
		if took := time.Duration(slowest.Load()); took > 10*time.Second {
			t.Errorf("%s: took %v", b.name, took)
		}
	}
	if most := s.memory(t); most > 256<<20 {
		t.Errorf("%d MiB of memory, want 256 at most", most>>20)
	}
	l.Settle(t, s, 30*time.Second)
}
