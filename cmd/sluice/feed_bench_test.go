package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/servicetest"
)

// stretch is what one stretch of traffic measured.
type stretch struct {
	accept, feed []time.Duration // from request to 200; from 200 to line
	cpu          time.Duration   // of the server
}

// BenchmarkFeed sends 10,000 events a second, in turns without followers and with 20 that read everything, and reports what
// a request takes, what the server's processor time is, and how long after its 200 a row is in a line.
func BenchmarkFeed(b *testing.B) {
	const rate, length, rounds, crowd = 10_000, 5 * time.Second, 3, 20
	dir := b.TempDir()
	key, _ := provisioned(b, dir, "shop")
	token := reader(b, dir, "all", "--allow", "feed")
	s := start(b, dir)
	s.drive(b, key, token, 0, rate, time.Second) // warm
	for b.Loop() {
		var quiet, busy stretch
		for range rounds {
			quiet.add(s.drive(b, key, token, 0, rate, length))
			busy.add(s.drive(b, key, token, crowd, rate, length))
		}
		report := func(name string, all []time.Duration, share float64) {
			slices.Sort(all)
			b.ReportMetric(all[int(share*float64(len(all)-1))].Seconds()*1000, name+"-ms")
		}
		report("accept-p50-0", quiet.accept, 0.5)
		report("accept-p50-20", busy.accept, 0.5)
		report("accept-p99-0", quiet.accept, 0.99)
		report("accept-p99-20", busy.accept, 0.99)
		report("feed-p50", busy.feed, 0.5)
		report("feed-p99", busy.feed, 0.99)
		b.ReportMetric(100*quiet.cpu.Seconds()/(rounds*length.Seconds()), "cpu-0-%")
		b.ReportMetric(100*busy.cpu.Seconds()/(rounds*length.Seconds()), "cpu-20-%")
	}
}

func (t *stretch) add(o stretch) {
	t.accept, t.feed, t.cpu = append(t.accept, o.accept...), append(t.feed, o.feed...), t.cpu+o.cpu
}

// drive sends events at a rate for some time, and lets followers read them.
func (s *server) drive(b *testing.B, key, token string, followers, rate int, length time.Duration) (out stretch) {
	b.Helper()
	const batch, senders = 100, 8
	var acks sync.Map // batch → time of its 200
	sent := make(chan struct{})
	var mu sync.Mutex
	var reading, sending sync.WaitGroup
	for i := range followers {
		reading.Go(func() {
			lags := s.consume(b, token, i == 0, sent, &acks)
			mu.Lock()
			defer mu.Unlock()
			out.feed = append(out.feed, lags...)
		})
	}
	before, begun := s.processor(b), time.Now()
	jobs := make(chan int)
	for range senders {
		sending.Go(func() {
			for n := range jobs {
				body := mixed("shop", n, batch)
				at := time.Now()
				a, err := s.post(key, "/v1/events/batch", body)
				done := time.Now()
				if err != nil || a.status != 200 {
					b.Errorf("send: %d %v", a.status, err)
				}
				acks.Store(n, done)
				mu.Lock()
				out.accept = append(out.accept, done.Sub(at))
				mu.Unlock()
			}
		})
	}
	tick := time.NewTicker(time.Second * batch / time.Duration(rate))
	for n := 0; time.Since(begun) < length; n++ {
		<-tick.C
		jobs <- n
	}
	tick.Stop()
	close(jobs)
	sending.Wait()
	out.cpu = s.processor(b) - before
	close(sent)
	reading.Wait()
	return out
}

// consume follows the feed from now on, until all is sent and read. Only one follower looks at the rows: the others are to cost
// this process little.
func (s *server) consume(b *testing.B, token string, look bool, sent <-chan struct{}, acks *sync.Map) (lags []time.Duration) {
	cursor, buffer, wait, ended := "", make([]byte, 256<<10), "1s", false
	for {
		select {
		case <-sent:
			wait, ended = "0s", true
		default:
		}
		q := url.Values{"purpose": {"measurement"}, "wait": {wait}, "limit": {"10000"}}
		if cursor != "" {
			q.Set("cursor", cursor)
		}
		r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, strings.TrimSuffix(s.ops, "/")+"/feed/v1/events?"+q.Encode(), nil)
		if err != nil {
			b.Error(err)
			return lags
		}
		r.Header.Set("Authorization", "Bearer "+token)
		answer, err := servicetest.Client.Do(r)
		if err != nil {
			b.Error(err)
			return lags
		}
		var tail []byte
		if look {
			lines := bufio.NewScanner(answer.Body)
			lines.Buffer(nil, 1<<20)
			for lines.Scan() {
				tail = append(tail[:0], lines.Bytes()...)
				if _, rest, ok := bytes.Cut(tail, []byte(`"partner_id":"p-`)); ok {
					number, _, _ := bytes.Cut(rest, []byte(`"`))
					n, _ := strconv.Atoi(string(number))
					if at, ok := acks.Load(n / 100); ok {
						lags = append(lags, max(0, time.Since(at.(time.Time))))
					}
				}
			}
		} else {
			tail = lastLine(answer.Body, buffer)
		}
		answer.Body.Close()
		var last struct {
			Cursor   string `json:"cursor"`
			CaughtUp bool   `json:"caught_up"`
		}
		if err := json.Unmarshal(tail, &last); err != nil {
			b.Errorf("the last line: %v", err)
			return lags
		}
		if ended && last.CaughtUp {
			return lags
		}
		cursor = last.Cursor
	}
}

// lastLine reads to the end and returns the last line, which is short.
func lastLine(r io.Reader, buffer []byte) []byte {
	const most = 4096
	kept := 0
	for {
		n, err := r.Read(buffer[kept:])
		kept += n
		if err != nil {
			break
		}
		if kept > most {
			copy(buffer, buffer[kept-most:kept])
			kept = most
		}
	}
	text := bytes.TrimSuffix(buffer[:kept], []byte("\n"))
	return text[bytes.LastIndexByte(text, '\n')+1:]
}

// processor is how much processor time the server has used.
func (s *server) processor(b *testing.B) time.Duration {
	b.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.PID()))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+2:]))
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	if err1 != nil || err2 != nil {
		b.Fatal("the processor time cannot be read")
	}
	return time.Duration(user+system) * 10 * time.Millisecond // ticks of a hundredth of a second
}
