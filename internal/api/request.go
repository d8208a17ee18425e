package api

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"sluice/event"
	"sluice/internal/dataset"
	"sluice/internal/submission"
)

// request is one request while it is answered, with the memory it needs. It is used again for another one, so
// nothing may keep a part of it.
type request struct {
	server *Server
	w      http.ResponseWriter
	r      *http.Request
	route  int
	id     string
	start  time.Time

	dataset  *dataset.Dataset // whose key it came with
	lane     *lane
	reserved int64 // bytes taken from the server's and the dataset's share
	coding   coding
	bodyRead bool // nothing of the body is left on the connection
	inTurn   bool // it holds a turn
	broken   bool // it panicked: its memory is not used again

	once   onceKey // of the Idempotency-Key
	isOnce bool

	counted            bool // it is a batch: accepted and rejected go into headers
	accepted, rejected int

	status int    // of a success
	kind   string // media type of a success that is not JSON

	wire    []byte // the body as it came
	plain   []byte // the body decompressed
	out     []byte // the answer's body
	extra   []byte // what the receipt says beyond its three members
	record  []byte // what goes into the stream
	sub     submission.Submission
	decoder *event.Decoder
}

// The most memory a request keeps between two uses. A batch of the recommended 500 events fits; what is larger
// is rare.
const (
	keepSingle = 64 << 10
	keepBatch  = 1 << 20
)

// pools hold requests that wait to be used again: those for batches apart, so that a crowd of single events
// does not sit on their buffers.
type pools struct{ small, large sync.Pool }

func (p *pools) of(route int) (*sync.Pool, int) {
	if route == routeBatch || route == routeValidate {
		return &p.large, keepBatch
	}
	return &p.small, keepSingle
}

func (s *Server) begin(w http.ResponseWriter, r *http.Request) *request {
	route := find(r.URL.Path)
	pool, _ := s.pools.of(route)
	q, _ := pool.Get().(*request)
	if q == nil {
		q = &request{decoder: new(event.Decoder)}
	}
	q.server, q.w, q.r, q.route = s, w, r, route
	q.status = http.StatusOK
	q.id = requestID(r.Header["X-Request-Id"])
	q.start = s.Now()
	q.counted = route == routeBatch && r.Method == http.MethodPost
	return q
}

// end forgets the request and keeps its memory.
func (q *request) end() {
	q.giveTurn()
	q.release()
	pool, most := q.server.pools.of(q.route)
	if q.broken || max(cap(q.wire), cap(q.plain), cap(q.out), cap(q.extra), cap(q.record)) > most {
		return
	}
	q.decoder.Reset() // it remembers strings of a body whose bytes are about to be overwritten
	*q = request{
		wire: q.wire[:0], plain: q.plain[:0], out: q.out[:0], extra: q.extra[:0], record: q.record[:0], decoder: q.decoder,
	}
	pool.Put(q)
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := s.begin(w, r)
	status := q.answer(q.act())
	took := s.Now().Sub(q.start)
	s.counts.answered(q.route, status, took)
	if s.Log.Enabled(r.Context(), slog.LevelDebug) {
		s.Log.Debug("answered", "route", routes[q.route].path, "status", status, "took", took, "request_id", q.id)
	}
	q.end()
}

// act does what the request asks for. What went wrong is returned, and written in one place.
func (q *request) act() (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = q.panicked(v)
		}
	}()
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
	case routeSchema:
		return q.schema()
	case routeOpenAPI:
		return q.openAPI()
	default:
		return q.docs()
	}
}

// panicked turns a panic into an error. The value of a panic may hold anything, so only the runtime's own are shown.
func (q *request) panicked(v any) error {
	if v == http.ErrAbortHandler {
		panic(v)
	}
	q.broken = true
	what := fmt.Sprintf("%T", v)
	if re, ok := v.(runtime.Error); ok {
		what = re.Error()
	}
	return fmt.Errorf("panic: %s\n%s", what, debug.Stack())
}

// refusalOf is what the sender is told about err. Anything but a refusal is our fault: it is logged here, once.
func (q *request) refusalOf(err error) *refusal {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r
	}
	q.server.counts.faults.Add(1)
	q.server.Log.Error("request broke", "route", routes[q.route].path, "request_id", q.id, "error", err)
	r := refuse(event.InternalError, "Something went wrong on our side.")
	r.wait = time.Second
	return r
}

func newRequestID() string {
	var raw [16]byte
	binary.NativeEndian.PutUint64(raw[:], rand.Uint64())
	binary.NativeEndian.PutUint64(raw[8:], rand.Uint64())
	var b [32]byte
	hex.Encode(b[:], raw[:])
	return string(b[:])
}
