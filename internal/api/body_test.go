package api

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"sluice/event"
)

func gzipOf(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func zstdOf(t testing.TB, text string, options ...zstd.EOption) string {
	t.Helper()
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b, options...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(z, text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// padded is a valid body of exactly n bytes.
func padded(n int) string {
	e := goodEvent("")
	return e + strings.Repeat(" ", n-len(e))
}

func TestBodySizes(t *testing.T) {
	s := openShop(t)
	full, over := padded(MaxBody), padded(MaxBody+1)
	for _, c := range []struct {
		name, body, encoding string
		status               int
	}{
		{"largest", full, "", 200},
		{"one more", over, "", 413},
		{"largest gzip", gzipOf(t, full), "gzip", 200},
		{"one more gzip", gzipOf(t, over), "gzip", 413},
		{"largest zstd", zstdOf(t, full), "zstd", 200},
		{"one more zstd", zstdOf(t, over), "zstd", 413},
		{"largest zstd in frames", zstdOf(t, full[:MaxBody/2]) + zstdOf(t, full[MaxBody/2:]), "zstd", 200},
		{"one more zstd in frames", zstdOf(t, over[:MaxBody/2]) + zstdOf(t, over[MaxBody/2:]), "zstd", 413},
		{"zstd after an empty frame", zstdOf(t, "", zstd.WithZeroFrames(true)) + zstdOf(t, full), "zstd", 200},
		{"gzip in members", gzipOf(t, full[:100]) + gzipOf(t, full[100:]), "gzip", 200},
		{"one more gzip in members", gzipOf(t, full) + gzipOf(t, " "), "gzip", 413},
		{"zstd with a large window", zstdOf(t, full, zstd.WithWindowSize(64<<20)), "ZSTD", 200},
		{"large on the wire", noise(MaxBody + 1), "gzip", 413},
		{"far too large", strings.Repeat(" ", 3*MaxBody), "", 413},
		{"gzip cut", cut(gzipOf(t, full)), "gzip", 400},
		{"gzip without its trailer", strings.TrimSuffix(gzipOf(t, "{}"), gzipOf(t, "{}")[len(gzipOf(t, "{}"))-8:]), "gzip", 400},
		{"gzip with more", gzipOf(t, goodEvent("")) + "x", "gzip", 400},
		{"gzip header only", gzipOf(t, "")[:9], "gzip", 400},
		{"gzip with a wrong sum", flip(gzipOf(t, goodEvent(""))), "gzip", 400},
		{"zstd cut", cut(zstdOf(t, full)), "zstd", 400},
		{"zstd with more", zstdOf(t, goodEvent("")) + "x", "zstd", 400},
		{"empty gzip", gzipOf(t, ""), "gzip", 400},
		{"empty zstd", zstdOf(t, "", zstd.WithZeroFrames(true)), "zstd", 400},
		{"no gzip at all", "", "gzip", 400},
		{"three bytes", "\x1f\x8b\x08", "gzip", 400},
	} {
		for _, chunked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/chunked=%v", c.name, chunked), func(t *testing.T) {
				var body io.Reader = strings.NewReader(c.body)
				if chunked {
					body = struct{ io.Reader }{body}
				}
				r, err := http.NewRequest("POST", s.url+"/v1/events", body)
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Authorization", s.key)
				if c.encoding != "" {
					r.Header.Set("Content-Encoding", c.encoding)
				}
				got := s.roundTrip(r)
				if got.StatusCode != c.status {
					t.Fatalf("got %d %.300s, want %d", got.StatusCode, got.text, c.status)
				}
				if c.status == 413 {
					checkAnswer(t, got, "PAYLOAD_TOO_LARGE")
				}
				if strings.Contains(got.text, "not whole") && !strings.Contains(got.text, "Content-Encoding") {
					t.Errorf("the hint does not speak of the encoding: %s", got.text)
				}
			})
		}
	}
	if got := s.Stats().BytesInFlight; got != 0 {
		t.Errorf("%d bytes are still in flight", got)
	}
}

func noise(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return string(b)
}

func cut(s string) string  { return s[:len(s)-len(s)/3] }
func flip(s string) string { return s[:len(s)-6] + string(s[len(s)-6]^1) + s[len(s)-5:] }

func TestBatchSizes(t *testing.T) {
	s := openShop(t)
	events := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat(goodEvent("")+",", n), ",") + "]" }
	if r := s.post("/v1/events/batch", events(1000)); r.StatusCode != 200 || r.Header.Get("X-Events-Accepted") != "1000" {
		t.Errorf("1,000: got %d %s", r.StatusCode, r.text)
	}
	r := s.post("/v1/events/batch", events(1001))
	checkAnswer(t, r, "BATCH_TOO_LARGE")
	if r.StatusCode != 400 || r.Header.Get("X-Events-Accepted") != "0" || r.Header.Get("X-Events-Rejected") != "1001" {
		t.Errorf("1,001: got %d %v", r.StatusCode, r.Header)
	}
	if n := len(s.Stats().Datasets); n != 1 || s.Stats().Datasets[0].Accepted != 1000 {
		t.Errorf("accepted: got %+v, want 1,000", s.Stats().Datasets)
	}
	r = s.post("/v1/events/batch", "["+strings.TrimSuffix(strings.Repeat("1,", 200), ",")+"]")
	m := r.object(t)
	if problems := m["errors"].([]any); len(problems) != 100 || m["errors_truncated"] != true || r.code(t) != "INVALID_TYPE" {
		t.Errorf("200 wrong events: got %d entries, truncated %v, %s", len(problems), m["errors_truncated"], r.code(t))
	}
	if got := r.Header.Get("X-Events-Rejected"); got != "200" {
		t.Errorf("rejected: got %s, want 200", got)
	}
}

// A bomb costs no more memory than a large body: everything that is allocated meanwhile, by both sides, is counted.
func TestBombs(t *testing.T) {
	s := openShop(t)
	zeros := strings.Repeat("0", 60_000_000)
	bombs := map[string]string{"gzip": gzipOf(t, zeros), "zstd": zstdOf(t, zeros)}
	nested := gzipOf(t, strings.Repeat("[", 5_000_000))
	for name, encoding := range map[string]string{"gzip": "gzip", "zstd": "zstd", "brackets": "gzip"} {
		t.Run(name, func(t *testing.T) {
			body, want := bombs[name], 413
			if name == "brackets" {
				body, want = nested, 400
			}
			s.post("/v1/events", goodEvent("")) // the connection and the pools are there
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			r := s.post("/v1/events", body, "Content-Encoding: "+encoding)
			runtime.ReadMemStats(&after)
			if r.StatusCode != want {
				t.Errorf("got %d %.200s, want %d", r.StatusCode, r.text, want)
			}
			if cost := after.TotalAlloc - before.TotalAlloc; cost > 16<<20 {
				t.Errorf("it cost %d bytes, want at most 16 MiB", cost)
			} else {
				t.Logf("%d bytes on the wire cost %d bytes of memory", len(body), cost)
			}
		})
	}
}

// A sender that asks first is answered before it sends.
func TestExpectContinue(t *testing.T) {
	s := openShop(t)
	r, err := http.NewRequest("POST", s.url+"/v1/events", strings.NewReader(goodEvent("")))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", s.key)
	r.Header.Set("Expect", "100-continue")
	if got := s.roundTrip(r); got.StatusCode != 200 {
		t.Errorf("got %d %s, want 200", got.StatusCode, got.text)
	}
}

// A sender that is rejected early can still read the answer, and use the connection again.
func TestRejectedWhileSending(t *testing.T) {
	s := openShop(t)
	conn := s.dial(t)
	one := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		if conn == nil {
			return nil, fmt.Errorf("a second connection was opened")
		}
		c := conn
		conn = nil
		return c, nil
	}}}
	for _, c := range []struct {
		key    string
		size   int
		status int
	}{{"nonsense", 4_000_000, 403}, {s.key, MaxBody + 1000, 413}, {s.key, 1000, 200}} {
		r, err := http.NewRequest("POST", s.url+"/v1/events", strings.NewReader(padded(c.size)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", c.key)
		resp, err := one.Do(r)
		if err != nil {
			t.Fatalf("%d bytes: %v", c.size, err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode != c.status {
			t.Errorf("%d bytes: got %d, want %d", c.size, resp.StatusCode, c.status)
		}
	}
}

// A body that does not come is not waited for. The connection is closed, and the answer says that the sender may try again.
func TestSlowBody(t *testing.T) {
	s := openServiceIn(t, t.TempDir(), nil)
	s.key = s.dataset(specShop)
	s.http.ReadTimeout = 50 * time.Millisecond
	resp := s.raw(t, "POST /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: "+s.key+"\r\nContent-Length: 1000\r\n\r\n{")
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != 503 || !resp.Close || !strings.Contains(string(body), `"retryable":true`) {
		t.Errorf("got %d close=%v %s, want 503", resp.StatusCode, resp.Close, body)
	}
	if st := s.Stats(); st.SlowBodies != 1 || st.BytesInFlight != 0 {
		t.Errorf("got %d slow bodies, %d bytes in flight, want 1, 0", st.SlowBodies, st.BytesInFlight)
	}
}

func TestBodyDeadline(t *testing.T) {
	for _, c := range []struct {
		size int64
		want time.Duration
	}{
		{0, 10 * time.Second},
		{MaxBody, 90 * time.Second},
	} {
		if got := readTime(c.size); got != c.want {
			t.Errorf("%d bytes: got %v, want %v", c.size, got, c.want)
		}
	}
}

// TestLargestRequest is taken with the least memory that may be set: nothing would ever take it otherwise.
func TestLargestRequest(t *testing.T) {
	s := openServiceIn(t, t.TempDir(), func(s *Server) { s.Limits.BytesInFlight = LeastInFlight })
	s.key = s.dataset(specShop)
	random := make([]byte, 1000)
	var events []string
	for size := 0; ; {
		rand.Read(random) // so that it hardly shrinks
		e := goodEvent(`,"custom_data":{"x":"` + hex.EncodeToString(random) + `"}`)
		if size += len(e) + 1; size > MaxBody-2 || len(events) == event.MaxEvents {
			break
		}
		events = append(events, e)
	}
	body := "[" + strings.Join(events, ",") + "]"
	body += strings.Repeat(" ", MaxBody-len(body))
	if r := s.post("/v1/events/batch", body); r.StatusCode != 200 {
		t.Errorf("plain: got %d %.300s", r.StatusCode, r.text)
	}
	var z bytes.Buffer
	w, _ := gzip.NewWriterLevel(&z, gzip.NoCompression)
	w.Write([]byte(body[:MaxBody-4096])) // the frame around it must fit, too
	w.Close()
	if r := s.post("/v1/events/batch", z.String(), "Content-Encoding: gzip"); r.StatusCode != 200 {
		t.Errorf("gzip of %d bytes: got %d %.300s", z.Len(), r.StatusCode, r.text)
	}
	if got := s.Stats().BytesInFlight; got != 0 {
		t.Errorf("%d bytes are held afterwards", got)
	}
}

// TestUnannouncedBody counts by what has come: a sender that does not say how much there will be is not taken for the
// largest one.
func TestUnannouncedBody(t *testing.T) {
	s := openShop(t)
	conn := s.dial(t)
	const part = 100 << 10
	fmt.Fprintf(conn, "POST /v1/events/batch HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"+
		"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", s.key, part, strings.Repeat(" ", part))
	waitFor(t, "the request", func() bool { return s.Stats().BytesInFlight > part })
	if got := s.Stats().BytesInFlight; got > 10*part {
		t.Errorf("%d bytes are counted for %d", got, part)
	}
}
