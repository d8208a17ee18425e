package api

import (
	"runtime"
	"sync"
	"sync/atomic"

	"sluice/event"
	"sluice/internal/limit"
)

// buffers are memory that a request borrows from the pool. Rows and errors of the decoder point into them, so nothing
// of them may outlive the request.
type buffers struct {
	wire    []byte // the body as it came
	plain   []byte // the body decompressed
	out     []byte // the answer's body
	extra   []byte // what the receipt says beyond its three members
	record  []byte // what goes into the stream
	decoder *event.Decoder
}

// The largest buffer that is used again. A batch of the recommended 500 events fits; what is larger is rare.
const (
	maxPooledSingle = 64 << 10
	maxPooledBatch  = 1 << 20
)

// pools hold buffers: those for batches apart, so that many single events do not keep large ones.
type pools struct{ small, large sync.Pool }

func (p *pools) of(route int) (*sync.Pool, int) {
	if route == routeBatch || route == routeValidate {
		return &p.large, maxPooledBatch
	}
	return &p.small, maxPooledSingle
}

func (p *pools) get(route int) *buffers {
	pool, _ := p.of(route)
	if b, _ := pool.Get().(*buffers); b != nil {
		return b
	}
	return &buffers{decoder: new(event.Decoder)}
}

func (p *pools) put(route int, b *buffers) {
	pool, most := p.of(route)
	if max(cap(b.wire), cap(b.plain), cap(b.out), cap(b.extra), cap(b.record)) > most {
		return
	}
	b.decoder.Reset() // it remembers strings of a body whose bytes are about to be overwritten
	b.wire, b.plain, b.out, b.extra, b.record = b.wire[:0], b.plain[:0], b.out[:0], b.extra[:0], b.record[:0]
	pool.Put(b)
}

// release gives back what the request has of what all requests share.
func (q *request) release() {
	q.stopDecoding()
	if q.reserved > 0 {
		q.server.inFlight.Add(-q.reserved)
		q.usage.inFlight.Add(-q.reserved)
		q.reserved = 0
	}
}

// overhead is what a request costs besides its body: goroutine, buffers, decoder (measured at 8 to 20 KiB).
const overhead = 16 << 10

// reserve makes sure that the request has n bytes of memory, or says that there are none left.
func (q *request) reserve(n int64) error {
	full, message := q.take(n)
	if full == nil {
		return nil
	}
	full.Add(1)
	return reject(event.Unavailable, message)
}

// take makes sure that the request has n bytes of memory. If there are none left, it returns where that is counted, and
// what to say.
func (q *request) take(n int64) (full *atomic.Uint64, message string) {
	more := n - q.reserved
	if more <= 0 {
		return nil, ""
	}
	s, u := q.server, q.usage
	if total := s.inFlight.Add(more); total > s.Limits.BytesInFlight {
		s.inFlight.Add(-more)
		return &s.counts.shedMemory, "The server is handling as many bytes as it can hold."
	}
	if held := u.inFlight.Add(more); held > s.Limits.BytesInFlight/2 {
		u.inFlight.Add(-more)
		s.inFlight.Add(-more)
		return &s.counts.shedShare, "This dataset's requests hold as many bytes as one dataset may."
	}
	q.reserved = n
	return nil, ""
}

// fairSize is from how many bytes on a body waits for a place: with less the work is shorter than the waiting
// (arbitrary: some twenty events).
const fairSize = 16 << 10

// As many large bodies are decoded at one time as there are processors.
func processors() int64 { return int64(runtime.GOMAXPROCS(0)) }

// queueLimit is how many bytes of large records the stream is given to write at one time: enough for it to write
// while it syncs, and little enough that a record which comes now is soon written (measured: three times as much
// is no faster and makes a single event of another dataset wait half as long again).
const queueLimit = 768 << 10

// startDecoding waits until the request may work on a body of size bytes. It is called again when the body turns out to
// be larger. It returns an error if so many huge bodies of its dataset wait that it would be in vain.
func (q *request) startDecoding(size int) error {
	if size < fairSize || q.decoding && (q.huge || size < limit.HugeSize) {
		return nil
	}
	s, u := q.server, q.usage
	if size >= limit.HugeSize {
		q.stopDecoding() // nobody waits for a turn with a place
		if s.pacing.On() {
			if wait := u.turn.Take(s.Now()); wait > 0 {
				s.counts.paced.Add(1)
				return resting(wait)
			}
			q.paced = true
		}
	}
	s.decoding.Acquire(&u.decoding, 1, processors())
	q.decoding, q.since = true, s.Now()
	if size >= limit.HugeSize {
		q.huge = true
		s.pacing.Begin(&u.turn, q.since)
	}
	return nil
}

// stopDecoding gives the place back, if there is one, before the request waits for anything else. While huge bodies are
// slowed down, the next one of the dataset begins after a rest.
func (q *request) stopDecoding() {
	if !q.decoding {
		return
	}
	s, u, now := q.server, q.usage, q.server.Now()
	s.decoding.Release(1, processors())
	if q.huge {
		rest := s.pacing.End(now, now.Sub(q.since))
		if q.paced {
			s.pacing.Rested.Add(int64(rest))
			u.turn.Give(now, rest)
		}
	}
	q.decoding, q.huge, q.paced = false, false, false
}
