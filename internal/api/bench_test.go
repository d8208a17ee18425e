package api

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice/internal/dataset"
	bench "sluice/tools/bench/measure"
)

// BenchmarkAccept compares the accept path with the least that any such service must do. Both take the same
// requests over loopback, in turns, so that a busy machine slows both; trust the ratio, not the rates.
func BenchmarkAccept(b *testing.B) {
	s := openServiceIn(b, b.TempDir(), func(s *Server) {
		s.Log = slog.New(slog.DiscardHandler)
	})
	s.Server.Now = time.Now
	s.clock.Set(time.Now())
	key := s.dataset(dataset.Spec{ID: "shop"})
	ref := openReference(b)
	now := time.Now().Unix() - 60
	for _, c := range []struct {
		name, path      string
		events, senders int
	}{
		{"batch", "/v1/events/batch", 500, 16},
		{"single", "/v1/events", 1, 64},
	} {
		b.Run(c.name, func(b *testing.B) {
			body := benchEvent(now)
			if c.events > 1 {
				body = "[" + strings.TrimSuffix(strings.Repeat(body+",", c.events), ",") + "]"
			}
			var took, cpu [2]time.Duration
			var sent [2]int64
			for b.Loop() {
				for i, addr := range []string{strings.TrimPrefix(s.url, "http://"), ref} {
					before := cpuTime(b)
					n, d := flood(b, addr, c.path, key, []string{body}, c.senders, 250*time.Millisecond)
					sent[i] += n
					took[i] += d
					cpu[i] += cpuTime(b) - before
				}
			}
			ours := float64(sent[0]*int64(c.events)) / took[0].Seconds()
			theirs := float64(sent[1]*int64(c.events)) / took[1].Seconds()
			b.ReportMetric(ours, "events/s")
			b.ReportMetric(theirs, "reference-events/s")
			b.ReportMetric(ours/theirs, "ratio")
			// The same by processor time: what a busy machine does to the rates it does not do to this.
			b.ReportMetric(cpu[1].Seconds()/float64(sent[1])/(cpu[0].Seconds()/float64(sent[0])), "cpu-ratio")
			b.ReportMetric(float64(cpu[0].Microseconds())/float64(sent[0]*int64(c.events)), "cpu-µs/event")
		})
	}
}

// cpuTime is the processor time this process has used, the senders' part included.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// benchEvent is an event of about 700 bytes, with what a real one has.
func benchEvent(now int64) string {
	return `{"data_set_id":"shop","timestamp":` + strconv.FormatInt(now, 10) + `,"event_type":"purchase","identifiers":{"email_sha256":"` + someHash +
		`","ip":"bfeb4c6192985efa05e7fa0740ac45708a515e569e7edaec7fc060ff72b44a0c"},"source":"website","cp_id":"cmp-2026-11-77","cp_name":"Autumn sale",` +
		`"referer":"https://www.example.com/search?q=running+shoes","page_url":"https://shop.example.com/checkout/confirmation?order=A-100123&step=4",` +
		`"value":129.95,"currency_code":"USD","privacy":{"gpp_string":"DBABLA~BVQqAAAAAgA","gpp_sid":[7]},` +
		`"custom_data":{"order_id":"A-100123","items":3,"coupons":["SPRING10","FREESHIP"],"category":"shoes"},"schema_version":"1.0"}`
}

// flood sends the same requests, one after another, from many connections for a while and counts the answers.
func flood(b *testing.B, addr, path, key string, bodies []string, senders int, d time.Duration) (int64, time.Duration) {
	var raws [][]byte
	for _, body := range bodies {
		raws = append(raws, []byte(fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"+
			"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, key, len(body), body)))
	}
	var sent, next atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for range senders {
		wg.Go(func() {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				b.Error(err)
				return
			}
			defer conn.Close()
			answers := bufio.NewReader(conn)
			for time.Since(start) < d {
				if _, err := conn.Write(raws[int(next.Add(1))%len(raws)]); err != nil {
					b.Error(err)
					return
				}
				if err := skipAnswer(answers); err != nil {
					b.Error(err)
					return
				}
				sent.Add(1)
			}
		})
	}
	wg.Wait()
	return sent.Load(), time.Since(start)
}

// skipAnswer reads one answer as cheaply as possible: what the sender costs is not what is measured.
func skipAnswer(r *bufio.Reader) error {
	length := 0
	for first := true; ; first = false {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		if first && !bytes.HasPrefix(line, []byte("HTTP/1.1 200")) {
			return fmt.Errorf("answer: %s", line)
		}
		if v, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			length, _ = strconv.Atoi(string(bytes.TrimSpace(v)))
		}
		if len(line) <= 2 {
			break
		}
	}
	_, err := r.Discard(length)
	return err
}

// openReference serves the least that any such service must do, and says where.
func openReference(b *testing.B) string {
	ref, err := bench.OpenReference(filepath.Join(b.TempDir(), "reference"))
	if err != nil {
		b.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: ref}
	go server.Serve(listener)
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = ref.Run(ctx) })
	b.Cleanup(func() { server.Close(); stop(); wg.Wait(); ref.Close() })
	return listener.Addr().String()
}
