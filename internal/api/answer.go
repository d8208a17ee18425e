package api

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"time"
)

// Header values that never change, shared by all answers: nobody may write to them.
var (
	jsonType = []string{"application/json"}
	noStore  = []string{"no-store"}
	noSniff  = []string{"nosniff"}
	isTrue   = []string{"true"}
	strictly = []string{"handling=strict"}
	closing  = []string{"close"}
	newline  = []byte("\n") // ends every answer in JSON, so that a terminal and a log show it whole
)

// answer writes what act came to, and says with which status.
func (q *request) answer(err error) int {
	q.step("answer")
	if q.buffers == nil {
		q.buffers = new(buffers)
	}
	h := q.w.Header()
	h["Content-Type"] = jsonType
	status := q.status
	if err != nil {
		r := q.rejectionOf(err)
		status = r.status()
		q.count(r)
		q.remember(r)
		q.logRejection(r, status)
		q.out, q.shared = r.append(q.out[:0], q.id), nil
		wait := r.wait
		if retryable(status) {
			wait = max(wait, time.Second)
		}
		if wait > 0 {
			h["Retry-After"] = []string{seconds(wait)}
		}
		if r.allow != "" {
			h["Allow"] = []string{r.allow}
		}
		q.drain()
	} else if q.kind != "" {
		h["Content-Type"] = []string{q.kind}
	}
	h["Cache-Control"] = noStore
	h["X-Content-Type-Options"] = noSniff
	h["X-Request-Id"] = []string{q.id}
	if q.route == routeBatch {
		h["X-Events-Accepted"] = []string{strconv.Itoa(q.accepted)}
		h["X-Events-Rejected"] = []string{strconv.Itoa(q.rejected)}
	}
	switch {
	case q.kind != "" && err == nil: // a page, which ends as it was written
	case q.shared != nil:
		if !bytes.HasSuffix(q.shared[len(q.shared)-1], newline) {
			q.shared = append(q.shared, newline)
		}
	default:
		q.out = append(q.out, newline...)
	}
	q.write(status)
	q.step("written")
	return status
}

// write sends the answer. A sender has some time to read it, by its size.
func (q *request) write(status int) {
	size := len(q.out)
	for _, part := range q.shared {
		size += len(part)
	}
	rc := http.NewResponseController(q.w)
	_ = rc.SetWriteDeadline(time.Now().Add(q.server.Limits.answerTime(size)))
	stranger := q.reserved == 0 && q.r.ProtoMajor == 2
	if stranger {
		_ = q.r.Body.Close() // else what it still sends is kept until it has read the answer
	}
	if status != http.StatusNotModified {
		q.w.Header()["Content-Length"] = []string{strconv.Itoa(size)}
	}
	q.w.WriteHeader(status)
	if q.r.Method != http.MethodHead && status != http.StatusNotModified {
		_, _ = q.w.Write(q.out) // the sender may be gone
		for _, part := range q.shared {
			_, _ = q.w.Write(part)
		}
	}
	if stranger {
		_ = rc.Flush() // else it waits for the sender after ServeHTTP, where nobody counts it
	}
}

// seconds is a wait as Retry-After spells it: whole seconds, rounded up.
func seconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}

const (
	drainBytes = 8 << 20         // arbitrary: a little over the largest body we take
	drainTime  = 5 * time.Second // arbitrary
)

// drain reads what a rejected sender is still sending. Many senders write their whole body before they look at the
// answer; closing on them makes the answer a connection error. HTTP/2 has a way to say stop, and curl 7 takes it for an
// error. One that asked first (Expect) is spared the body.
func (q *request) drain() {
	r := q.r
	if q.bodyRead || r.ContentLength == 0 || r.ContentLength > drainBytes || r.Header["Expect"] != nil {
		return
	}
	_ = http.NewResponseController(q.w).SetReadDeadline(time.Now().Add(drainTime))
	_, _ = io.CopyN(io.Discard, r.Body, drainBytes)
}
