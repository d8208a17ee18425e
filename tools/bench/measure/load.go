// Package measure measures a server under load, beside the least that any server must do.
package measure

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Load is traffic to send: from many connections, bounded in time and in events.
type Load struct {
	// Dial opens one connection to the server.
	Dial   func(ctx context.Context) (net.Conn, error)
	Host   string // for the Host header
	Bodies *Bodies
	// Rate is how many events are offered in a second, whatever the answers take (open loop). Zero: a sender
	// sends its next request as soon as it has an answer (closed loop).
	Rate   float64
	For    time.Duration
	Events int64 // at most so many are sent; 0: as many as fit into For
	Keyed  bool  // each request has an idempotency key of its own
	Want   int   // the status that counts as an answer; 0 is 200
	Now    func() time.Time
}

// Result is what came of a load. Add sums the results of several rounds.
type Result struct {
	Requests int64 // answered as wanted
	Events   int64 // in those
	Failed   int64 // requests answered otherwise, or not at all
	Elapsed  time.Duration
	// Latency is from the moment a request should have begun to its answer. In an open loop that moment is set
	// by the rate, not by the answers before: a server that stalls is charged for every request that had to
	// wait, not only for those that were on their way (coordinated omission).
	Latency Histogram
	// Service is from the moment a request really began.
	Service Histogram
	First   error // the first thing that went wrong
}

// Add sums up.
func (r *Result) Add(o *Result) {
	r.Requests += o.Requests
	r.Events += o.Events
	r.Failed += o.Failed
	r.Elapsed += o.Elapsed
	r.Latency.Add(&o.Latency)
	r.Service.Add(&o.Service)
	if r.First == nil {
		r.First = o.First
	}
}

// Run sends until the time or the events are used up, and waits for the last answers. What goes wrong with a
// request is counted; an error means that nothing could be measured.
func (l *Load) Run(ctx context.Context) (*Result, error) {
	if l.For <= 0 {
		return nil, errors.New("a load needs an end")
	}
	run := &loadRun{Load: l, start: l.Now()}
	if l.Rate > 0 {
		run.interval = float64(l.Bodies.batch) / l.Rate * float64(time.Second)
	}
	results := make([]Result, len(l.Bodies.perSender))
	var wg sync.WaitGroup
	for i := range l.Bodies.perSender {
		s := sender{run: run, own: &l.Bodies.perSender[i], result: &results[i]}
		wg.Go(func() { s.send(ctx) })
	}
	wg.Wait()
	total := &Result{}
	for i := range results {
		total.Add(&results[i])
	}
	total.Elapsed = l.Now().Sub(run.start)
	if total.Requests == 0 {
		return nil, fmt.Errorf("no request was answered: %w", cmp.Or(total.First, ctx.Err(), errNoTime))
	}
	return total, nil
}

var errNoTime = errors.New("no time")

// loadRun is what the senders of one run share.
type loadRun struct {
	*Load
	start    time.Time
	interval float64 // between the beginnings of requests, in nanoseconds; 0: closed loop
	begun    atomic.Int64
}

// next says when the next request should begin, or that there is none.
func (r *loadRun) next() (time.Time, bool) {
	n := r.begun.Add(1) - 1
	if r.Events > 0 && (n+1)*int64(r.Bodies.batch) > r.Events {
		return time.Time{}, false
	}
	at := r.Now()
	if r.interval > 0 {
		at = r.start.Add(time.Duration(float64(n) * r.interval))
	}
	return at, at.Sub(r.start) < r.For
}

// sender is one connection.
type sender struct {
	run     *loadRun
	own     *senderBodies
	result  *Result
	conn    net.Conn
	answers *bufio.Reader
	head    []byte
}

// give is how long after the end of the load an answer is waited for.
const give = 30 * time.Second

func (s *sender) send(ctx context.Context) {
	defer func() {
		if s.conn != nil {
			_ = s.conn.Close()
		}
	}()
	for ctx.Err() == nil {
		intended, more := s.run.next()
		if !more {
			return
		}
		if wait := intended.Sub(s.run.Now()); wait > 0 && !sleep(ctx, wait) {
			return
		}
		began := s.run.Now()
		err := s.exchange(ctx)
		done := s.run.Now()
		if err != nil {
			s.fail(ctx, err)
			continue
		}
		s.result.Requests++
		s.result.Events += int64(s.run.Bodies.batch)
		s.result.Latency.Record(done.Sub(intended))
		s.result.Service.Record(done.Sub(began))
	}
}

// fail counts a request that got another answer or none, and gives the server a moment.
func (s *sender) fail(ctx context.Context, err error) {
	s.result.Failed++
	if s.result.First == nil {
		s.result.First = err
	}
	if _, ok := errors.AsType[statusError](err); !ok && s.conn != nil {
		_ = s.conn.Close()
		s.conn = nil
	}
	sleep(ctx, 10*time.Millisecond)
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// exchange sends one request and reads its answer, as cheaply as possible: what the sender costs is not what is
// measured.
func (s *sender) exchange(ctx context.Context) error {
	if s.conn == nil {
		conn, err := s.run.Dial(ctx)
		if err != nil {
			return err
		}
		_ = conn.SetDeadline(s.run.start.Add(s.run.For + give))
		s.conn, s.answers = conn, bufio.NewReaderSize(conn, 4<<10)
	}
	bodies := s.run.Bodies
	body, d := s.own.take(bodies.datasets)
	path := "/v1/events"
	if bodies.batch > 1 {
		path = "/v1/events/batch"
	}
	s.head = append(append(append(s.head[:0], "POST "...), path...), " HTTP/1.1\r\nHost: "...)
	s.head = append(append(s.head, s.run.Host...), "\r\nAuthorization: Bearer "...)
	s.head = append(s.head, bodies.datasets[d].Key()...)
	s.head = append(s.head, "\r\nContent-Type: application/json\r\nContent-Length: "...)
	s.head = strconv.AppendInt(s.head, int64(len(body.text)), 10)
	if s.run.Keyed {
		s.head = append(s.head, "\r\nIdempotency-Key: bench-"...)
		s.head = append(strconv.AppendInt(s.head, s.run.start.UnixNano(), 36), '-') // the same seed may have been sent before
		s.head = strconv.AppendUint(s.head, s.own.rand.Uint64(), 16)
	}
	s.head = append(s.head, "\r\n\r\n"...)
	if len(body.text) < 4<<10 { // one write is cheaper than a vector of two
		s.head = append(s.head, body.text...)
		if _, err := s.conn.Write(s.head); err != nil {
			return err
		}
		return readAnswer(s.answers, s.run.Want)
	}
	parts := net.Buffers{s.head, body.text}
	if _, err := parts.WriteTo(s.conn); err != nil {
		return err
	}
	return readAnswer(s.answers, s.run.Want)
}

// statusError is the status of an answer that was not wanted.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("answered with status %d", int(e)) }

// readAnswer reads one answer with a Content-Length and forgets it.
func readAnswer(r *bufio.Reader, want int) error {
	status, length := 0, -1
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		switch {
		case status == 0:
			if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
				return errors.New("the answer is not HTTP/1.1")
			}
			if status, err = strconv.Atoi(string(line[9:12])); err != nil {
				return errors.New("the answer has no status")
			}
		case len(line) <= 2:
			if length < 0 {
				return errors.New("the answer has no Content-Length")
			}
			if _, err := r.Discard(length); err != nil {
				return err
			}
			if status != cmp.Or(want, 200) {
				return statusError(status)
			}
			return nil
		case len(line) > 15 && bytes.EqualFold(line[:15], []byte("Content-Length:")):
			if length, err = strconv.Atoi(string(bytes.TrimSpace(line[15:]))); err != nil {
				return errors.New("the answer has a wrong Content-Length")
			}
		}
	}
}
