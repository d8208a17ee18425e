package feed

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sluice/event"
	"sluice/internal/dataset"
	"sluice/internal/lake"
	"sluice/internal/purpose"
	"sluice/internal/stream"
	"sluice/internal/submission"
)

// Prefix is where the feed lies on its listener.
const Prefix = "/feed/"

// Limits of a request and of all of them together. All are arbitrary but maxWait, which the contract names.
const (
	defaultLimit = 1000
	maxLimit     = 10_000
	maxBytes     = 16 << 20 // of an answer, and one line more
	maxWait      = 30 * time.Second
	maxFollowers = 100 // at once: each takes a goroutine and writeBuffer
	readerPlaces = 20  // of them for one reader

	writeBuffer = 64 << 10
	// defaultScanTime is how long a request looks through rows that its reader may not have or does not want, before it
	// answers with a cursor: it keeps its place for no longer.
	defaultScanTime = 2 * time.Second
	// defaultWriteWait is how long a follower may take to accept a buffer. One that is slower is cut off, and comes back
	// with its cursor.
	defaultWriteWait = 15 * time.Second
	// backlogAge is how old a look at the stream may be for a follower that is far behind its end.
	backlogAge = time.Second
	// gather is how long a request lasts at least that waits at the end of a busy stream: a request for every few rows
	// would cost more than the rows. A row must appear within a second.
	gather = 250 * time.Millisecond
)

// problem is an error as followers get it.
type problem struct {
	status              int
	code, message, hint string
	expired             *Expired
}

func (p *problem) Error() string { return p.code }

func newProblem(status int, code, message, hint string) *problem {
	return &problem{status: status, code: code, message: message, hint: hint}
}

// Handler answers requests whose path begins with Prefix.
func (f *Feed) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := f.answer(w, r); err != nil {
			f.problemOf(r, err).write(w, r)
		}
	})
}

// Reject answers a request that the listener does not let through to the feed.
func Reject(w http.ResponseWriter, r *http.Request, status int, message string) {
	newProblem(status, "FORBIDDEN", message,
		"Reach the operators' listener over TLS, or on the machine itself by localhost.").write(w, r)
}

// answer writes an answer, or returns why there is none.
func (f *Feed) answer(w http.ResponseWriter, r *http.Request) error {
	reader, err := f.authenticate(r)
	if err != nil {
		return err
	}
	handle := map[string]func(http.ResponseWriter, *http.Request, *dataset.Reader) error{
		"/feed/v1/events": f.events, "/feed/v1/cursor": f.cursor,
	}[r.URL.Path]
	switch {
	case handle == nil:
		return newProblem(404, "NOT_FOUND", "The feed has no such path.", "There are /feed/v1/events and /feed/v1/cursor.")
	case r.Method != http.MethodGet:
		return newProblem(405, "METHOD_NOT_ALLOWED", "The path does not take this method.", "Use GET.")
	}
	return handle(w, r, reader)
}

// authenticate returns the reader whose token a request carries, if it may use the feed. The feed hands out
// identifiers, so it asks for a token on loopback as well.
func (f *Feed) authenticate(r *http.Request) (*dataset.Reader, error) {
	header := r.Header.Get("Authorization")
	if header == "" {
		return nil, newProblem(401, "MISSING_TOKEN", "The request has no token.",
			"Send Authorization: Bearer TOKEN. An operator makes a token with: sluice reader create NAME --allow feed")
	}
	scheme, token, _ := strings.Cut(header, " ")
	reader, err := f.o.Readers.Authenticate(strings.TrimSpace(token))
	if err != nil || !strings.EqualFold(scheme, "Bearer") {
		return nil, newProblem(401, "INVALID_TOKEN", "The token is not valid, or it was revoked.",
			"Send the token of a reader. A dataset's API key is not one.")
	}
	if !reader.Allowed(dataset.AllowFeed) {
		return nil, newProblem(403, "READER_FORBIDDEN", "This reader is not allowed the feed.",
			"An operator makes one that is with: sluice reader create NAME --allow feed")
	}
	return reader, nil
}

// follow is what a request asks for.
type follow struct {
	Query
	cursor string
	wait   time.Duration
}

func parameter(name, message, hint string) *problem {
	return newProblem(400, "INVALID_PARAMETER", name+": "+message, hint)
}

// parameters reads the query of a request. A value that a program lost on the way, or spelled so that it cannot be
// read, must not mean all rows or another place.
func parameters(r *http.Request) (url.Values, error) {
	v, err := url.ParseQuery(r.URL.RawQuery) // URL.Query leaves out what it cannot read
	if err != nil {
		return nil, newProblem(400, "INVALID_PARAMETER", "The query of the address cannot be read.",
			"Write name=value, joined with &. Percent-encode %, ;, & and + inside a value.")
	}
	for _, name := range []string{"purpose", "dataset", "cursor", "limit", "wait", "snapshot"} {
		if len(v[name]) > 1 {
			return nil, parameter(name, "it is there more than once.", "Only type and campaign may be.")
		}
	}
	for _, name := range []string{"dataset", "type", "campaign"} {
		if slices.Contains(v[name], "") {
			return nil, parameter(name, "it is empty.", "Give it a value, or leave it out for all rows.")
		}
	}
	return v, nil
}

// parse reads the parameters of a request.
func parse(r *http.Request, reader *dataset.Reader) (follow, error) {
	v, err := parameters(r)
	if err != nil {
		return follow{}, err
	}
	q := follow{Query: Query{
		Dataset: v.Get("dataset"), Types: v["type"], Campaigns: v["campaign"], Limit: defaultLimit, Bytes: maxBytes,
	}, cursor: v.Get("cursor")}
	for _, t := range q.Types {
		if _, known := event.LookupType(t); !known {
			return q, parameter("type", "it is no event type: nothing would ever come.",
				"Send one of "+strings.Join(event.TypeNames(), ", ")+", spelled exactly.")
		}
	}
	var ok bool
	if q.Purpose, ok = purpose.Parse(v.Get("purpose")); !ok {
		return q, parameter("purpose", "it is optimization or measurement.",
			"optimization gives rows with optimization_eligible, measurement every row that is not suppressed.")
	}
	if reader.DatasetID != "" {
		if q.Dataset != "" && q.Dataset != reader.DatasetID {
			return q, newProblem(403, "DATASET_FORBIDDEN", "This reader is bound to another dataset.", "Leave dataset out.")
		}
		q.Dataset = reader.DatasetID
	}
	if text := v.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return q, parameter("limit", "it is a number of rows from 1 on.", "More than "+strconv.Itoa(maxLimit)+
				" counts as that.")
		}
		q.Limit = min(n, maxLimit)
	}
	if text := v.Get("wait"); text != "" {
		wait, err := time.ParseDuration(text)
		if seconds, serr := strconv.ParseFloat(text, 64); serr == nil && seconds >= 0 && seconds < 1e6 {
			wait, err = time.Duration(seconds*float64(time.Second)), nil
		}
		if err != nil || wait < 0 {
			return q, parameter("wait", "it is a duration such as 30s.", "More than 30s counts as that.")
		}
		q.wait = min(wait, maxWait)
	}
	return q, nil
}

// events hands rows out: what follows the cursor now, or if there is nothing, what comes while the request waits.
func (f *Feed) events(w http.ResponseWriter, r *http.Request, reader *dataset.Reader) error {
	q, err := parse(r, reader)
	if err != nil {
		return err
	}
	if !f.places.enter(reader.Name) {
		f.rejected.Add(1)
		return newProblem(429, "TOO_MANY_FOLLOWERS",
			"Too many requests of this reader, or of all readers, follow the feed now.",
			"Try again in a second. One reader may have "+strconv.Itoa(readerPlaces)+" requests at a time.")
	}
	defer f.places.leave(reader.Name)
	c, err := f.Cursor(r.Context(), q.cursor)
	if err != nil {
		return err
	}
	out := &output{w: w, r: r, control: http.NewResponseController(w), wait: f.writeWait}
	defer out.end()
	_ = out.control.SetWriteDeadline(time.Now().Add(q.wait + f.scanTime + f.writeWait)) // the listener's own is shorter
	caughtUp, err := f.poll(r, c, q, out)
	f.count(reader, c, out, caughtUp)
	if err != nil {
		if errors.Is(out.err, os.ErrDeadlineExceeded) {
			f.cut.Add(1)
		}
		if out.err != nil || r.Context().Err() != nil {
			return nil // the follower is gone
		}
		if out.rows == 0 {
			return err
		}
		f.o.Log.Warn("feed", "error", err) // what was handed out stands; the next request gets the error
	}
	f.complete(c)
	line, err := json.Marshal(struct {
		Cursor   string    `json:"cursor"`
		CaughtUp bool      `json:"caught_up"`
		Complete time.Time `json:"complete_through"`
	}{f.Text(c), caughtUp && err == nil, time.Unix(c.complete, 0).UTC()})
	if err != nil {
		return err
	}
	_ = out.write(append(line, '\n'))
	_ = out.buffer.Flush()
	return nil
}

// count adds an answer to the numbers of its reader.
func (f *Feed) count(reader *dataset.Reader, c *Cursor, out *output, caughtUp bool) {
	now, lag := time.Now(), time.Duration(0)
	if !caughtUp && !c.read.IsZero() {
		lag = now.Sub(c.read)
	}
	f.readers.answered(reader.Name, out.rows, out.bytes, lag, now)
}

// poll reads until there are rows, or the request has waited long enough.
func (f *Feed) poll(r *http.Request, c *Cursor, q follow, out *output) (caughtUp bool, err error) {
	ctx, begun := r.Context(), time.Now()
	for age := backlogAge; ; age = lookAge {
		caughtUp, err = f.some(ctx, c, q.Query, age, out)
		if err == nil && caughtUp && age == backlogAge {
			caughtUp, err = f.some(ctx, c, q.Query, 0, out)
		}
		waited := time.Since(begun)
		if err != nil || !caughtUp || waited >= q.wait || out.rows > 0 && waited >= gather {
			return caughtUp, err
		}
		pause := min(lookAge, q.wait-waited)
		if out.rows > 0 {
			pause = min(gather, q.wait) - waited
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(pause):
		}
		if _, err := f.authenticate(r); err != nil && out.rows == 0 { // it was revoked while it waited
			return false, err
		} else if err != nil {
			return true, nil
		}
	}
}

// some reads what is still wanted.
func (f *Feed) some(ctx context.Context, c *Cursor, q Query, age time.Duration, out *output) (caughtUp bool,
	err error,
) {
	q.Limit -= out.rows
	q.Bytes -= out.bytes
	q.Time = f.scanTime
	_, caughtUp, err = f.Read(ctx, c, q, age, out.add)
	return caughtUp, err
}

// output is the answer to a follower. Its head is written with the first buffer that is full, so an error before that
// is an answer of its own.
type output struct {
	w       http.ResponseWriter
	r       *http.Request
	control *http.ResponseController
	buffer  *bufio.Writer
	wait    time.Duration // for a buffer to be taken
	rows    int
	bytes   int
	err     error
}

// add adds rows.
func (o *output) add(lines []byte, rows int) error {
	o.rows += rows
	o.bytes += len(lines)
	return o.write(lines)
}

func (o *output) write(lines []byte) error {
	if o.buffer == nil {
		h := o.w.Header()
		h.Set("Content-Type", "application/x-ndjson")
		h.Set("Cache-Control", "no-store")
		h.Set("X-Request-Id", requestID(o.r))
		o.buffer = buffers.Get().(*bufio.Writer)
		o.buffer.Reset(o)
	}
	_, err := o.buffer.Write(lines)
	return err
}

// Write sends a buffer, if the follower takes it in time.
func (o *output) Write(b []byte) (int, error) {
	_ = o.control.SetWriteDeadline(time.Now().Add(o.wait)) // without one the listener's own deadlines hold
	n, err := o.w.Write(b)
	if err != nil {
		o.err = err
	}
	return n, err
}

// end lets the buffer be used for other answers. What net/http still has to write has its time, too.
func (o *output) end() {
	_ = o.control.SetWriteDeadline(time.Now().Add(o.wait))
	if o.buffer != nil {
		o.buffer.Reset(nil)
		buffers.Put(o.buffer)
		o.buffer = nil
	}
}

// buffers are those of answers: many followers make many answers.
var buffers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, writeBuffer) }}

// cursor answers with the cursor of a snapshot.
func (f *Feed) cursor(w http.ResponseWriter, r *http.Request, _ *dataset.Reader) error {
	v, err := parameters(r)
	if err != nil {
		return err
	}
	id, err := strconv.ParseInt(v.Get("snapshot"), 10, 64)
	if err != nil || id <= 0 {
		return parameter("snapshot", "it is the id of a snapshot of the table events.",
			"The catalog and the table's metadata name it snapshot-id.")
	}
	c, err := f.AtSnapshot(r.Context(), id)
	if errors.Is(err, lake.ErrNotFound) {
		return newProblem(404, "SNAPSHOT_NOT_FOUND", "The table events keeps no such snapshot.",
			"Read the table at its newest snapshot, and ask for the cursor of that one.")
	}
	if err != nil {
		return err
	}
	return writeJSON(w, r, http.StatusOK, struct {
		Cursor     string `json:"cursor"`
		SnapshotID int64  `json:"snapshot_id"`
		Snapshot   string `json:"snapshot"`
	}{f.Text(c), id, strconv.FormatInt(id, 10)})
}

// problemOf is an error as a follower gets it.
func (f *Feed) problemOf(r *http.Request, err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	if e, ok := errors.AsType[*Expired](err); ok {
		p := newProblem(410, "CURSOR_EXPIRED", "The stream no longer holds what follows this cursor.",
			"Read the table events at snapshot_id, then follow from cursor: nothing is missed, and nothing comes twice.")
		p.expired = e
		if e.Snapshot == 0 {
			p.hint = "The table events has no snapshot yet. Follow from cursor=earliest; rows before that are lost to the feed."
		}
		return p
	}
	if errors.Is(err, ErrCursor) {
		return newProblem(400, "INVALID_CURSOR", "cursor: this is not a cursor.",
			"Send back the cursor of the last line of an answer as it is, or earliest, or none.")
	}
	if r.Context().Err() == nil {
		f.o.Log.ErrorContext(r.Context(), "feed", "error", err)
	}
	if errors.Is(err, stream.ErrVersion) || errors.Is(err, submission.ErrVersion) {
		return newProblem(503, "UNAVAILABLE", "A newer version has written what follows this cursor.",
			"Try again with the same cursor, on a node of the newer version.")
	}
	what := "stream"
	if errors.Is(err, errTable) {
		what = "table events"
	}
	return newProblem(503, "UNAVAILABLE", "The "+what+" cannot be read now.", "Send the same request again.")
}

func (p *problem) write(w http.ResponseWriter, r *http.Request) {
	switch p.status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="sluice"`)
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", http.MethodGet)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	}
	body := struct {
		Status     string `json:"status"`
		Code       string `json:"error_code"`
		Message    string `json:"message"`
		Hint       string `json:"hint"`
		RequestID  string `json:"request_id"`
		Retryable  bool   `json:"retryable,omitempty"`
		Table      string `json:"table,omitempty"`
		SnapshotID int64  `json:"snapshot_id,omitempty"`
		Snapshot   string `json:"snapshot,omitempty"` // the same for programs whose numbers have 53 bits
		Cursor     string `json:"cursor,omitempty"`
	}{
		Status: "error", Code: p.code, Message: p.message, Hint: p.hint, RequestID: requestID(r),
		Retryable: p.status == http.StatusTooManyRequests || p.status == http.StatusServiceUnavailable,
	}
	if p.expired != nil && p.expired.Snapshot != 0 {
		body.Table, body.SnapshotID, body.Cursor = "sluice.events", p.expired.Snapshot, p.expired.Cursor
		body.Snapshot = strconv.FormatInt(p.expired.Snapshot, 10)
	}
	w.Header().Set("X-Request-Id", body.RequestID)
	_ = writeJSON(w, r, p.status, body)
}

// requestID is the id that a sender gave its request, if it is well-formed, or else a new one.
func requestID(r *http.Request) string {
	id := r.Header.Get("X-Request-Id")
	other := func(c rune) bool {
		return (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-'
	}
	if id != "" && len(id) <= 128 && !strings.ContainsFunc(id, other) {
		return id
	}
	id = rand.Text()
	r.Header.Set("X-Request-Id", id) // the same for every line of this answer
	return id
}

func writeJSON(w http.ResponseWriter, r *http.Request, status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(b)
	}
	return nil
}
