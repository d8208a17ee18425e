package api

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"sluice/event"
	"sluice/internal/dataset"
	"sluice/internal/listen"
	"sluice/internal/submission"
)

// request is one request while it is answered. Nothing of it outlives ServeHTTP.
type request struct {
	server *Server
	w      http.ResponseWriter
	r      *http.Request
	route  int
	id     string
	start  time.Time

	dataset *dataset.Dataset // whose key it came with
	keyID   string           // of that key
	coding  string           // of the body, as it was sent
	key     *idempotencyKey  // nil without the header
	sub     submission.Submission

	// What it has of what all requests share. release gives everything back.
	usage    *usage    // of its dataset; nil without a valid key
	reserved int64     // bytes of memory
	decoding bool      // it has a place among those that decode
	huge     bool      // the body has limit.HugeSize bytes or more
	paced    bool      // it is the one huge body of its dataset on its way
	since    time.Time // when it got its place

	*buffers        // memory from the pool; nil until there is a valid key
	bodyRead   bool // nothing of the body is left on the connection
	unreliable bool // it panicked: its memory is not used again

	status             int      // of a success
	kind               string   // media type of a success that is not JSON
	shared             [][]byte // the answer's body in parts that others share; else it is buffers.out
	accepted, rejected int

	received time.Time // when its events were
	under    bool      // they are on their way into the stream
}

// parameter returns the value of a query parameter, which is one of those given, and absent where it is left out. A
// query that cannot be read is an error: URL.Query leaves such parts out, and the answer would be another one than was
// asked for.
func (q *request) parameter(name, absent string, values ...string) (string, error) {
	v, err := url.ParseQuery(q.r.URL.RawQuery)
	switch {
	case err != nil:
		return "", advise(event.InvalidParameter, "The query of the address cannot be read.",
			"Write name=value, joined with &. Percent-encode %, ;, & and + inside a value.")
	case len(v[name]) > 1:
		return "", advise(event.InvalidParameter, "The parameter "+name+" is there more than once.", "Send it once.")
	case len(v[name]) == 0:
		return absent, nil
	case !slices.Contains(values, v[name][0]):
		return "", advise(event.InvalidParameter, "The parameter "+name+" has a value that is not known.",
			"Use "+name+"="+strings.Join(values, " or ")+", or leave it out.")
	}
	return v[name][0], nil
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := &request{
		server: s, w: w, r: r, route: find(r.URL.Path), id: requestID(r.Header["X-Request-Id"]), start: s.Now(),
		status: http.StatusOK,
	}
	defer q.end()
	err := q.act()
	q.stopDecoding() // a sender that does not read its answer keeps no place
	if q.reserved == 0 {
		conn := listen.Of(r.Context())
		if !conn.OpenStream() {
			panic(http.ErrAbortHandler) // which resets the stream
		}
		defer conn.CloseStream()
	}
	status := q.answer(err)
	took := s.Now().Sub(q.start)
	s.counts.answered(q.route, status, took)
	if s.Log.Enabled(r.Context(), slog.LevelDebug) {
		s.Log.Debug("answered", "route", routes[q.route].Path, "status", status, "took", took, "request_id", q.id)
	}
}

// end gives back what the request holds, however it ended. A panic that comes this far happened while the answer was
// written: nobody can say what the sender got, so the connection is closed.
func (q *request) end() {
	v := recover()
	q.leave(nil) // unless they were stored, they will not be
	q.release()
	if v == nil && !q.unreliable && q.buffers != nil && q.decoder != nil {
		q.server.pools.put(q.route, q.buffers)
	}
	if v == nil {
		return
	}
	if v != http.ErrAbortHandler {
		q.fault(panicked(v))
	}
	panic(http.ErrAbortHandler) // net/http would log any other value, and it may hold anything
}

// act does what the request asks for. What went wrong is returned, and written in one place.
func (q *request) act() (err error) {
	defer func() {
		switch v := recover(); v {
		case nil:
		case http.ErrAbortHandler:
			panic(v)
		default:
			q.unreliable = true
			err = panicked(v)
		}
	}()
	q.step("enter")
	if err := q.enter(); err != nil {
		return err
	}
	switch q.route {
	case routeEvents, routeBatch:
		return q.submit()
	case routeValidate:
		return q.validate()
	case routeSubmission:
		return q.lookUp()
	case routeStats:
		return q.answerNumbers()
	case routeSchema:
		return q.schema()
	case routeOpenAPI:
		return q.openAPI()
	default:
		return q.docs()
	}
}

// step tells Server.Step where the request is.
func (q *request) step(name string) {
	if q.server.Step != nil {
		q.server.Step(name)
	}
}

// panicked turns a panic into an error. The value of a panic may hold anything, so only the runtime's own are shown.
func panicked(v any) error {
	what := fmt.Sprintf("%T", v)
	if re, ok := v.(runtime.Error); ok {
		what = re.Error()
	}
	return fmt.Errorf("panic: %s\n%s", what, debug.Stack())
}

// rejectionOf is the error that the sender gets for err. Anything but a rejection is our fault: it is logged here,
// once.
func (q *request) rejectionOf(err error) *rejection {
	if r, ok := errors.AsType[*rejection](err); ok {
		return r
	}
	q.fault(err)
	return reject(event.InternalError, "Something went wrong on our side.")
}

// fault counts and logs an error of ours.
func (q *request) fault(err error) {
	q.server.counts.faults.Add(1)
	q.server.Log.Error("request failed", "route", routes[q.route].Path, "request_id", q.id, "error", err)
}

func newRequestID() string {
	var raw [16]byte
	binary.NativeEndian.PutUint64(raw[:], rand.Uint64())
	binary.NativeEndian.PutUint64(raw[8:], rand.Uint64())
	var b [32]byte
	hex.Encode(b[:], raw[:])
	return string(b[:])
}
