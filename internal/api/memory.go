package api

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

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

// holding is what a request has of what all requests share: bytes of memory, and a place among those that decode.
// release gives everything back.
type holding struct {
	server   *Server
	usage    *usage // of its dataset; nil without a valid key
	reserved int64  // bytes
	decoding bool
	huge     bool      // the body has limit.HugeSize bytes or more
	paced    bool      // it is the one huge body of its dataset on its way
	since    time.Time // when it got its place
}

func (h *holding) release() {
	h.stopDecoding()
	if h.reserved > 0 {
		h.server.inFlight.Add(-h.reserved)
		h.usage.inFlight.Add(-h.reserved)
		h.reserved = 0
	}
}

// overhead is what a request costs besides its body: goroutine, buffers, decoder (measured at 8 to 20 KiB).
const overhead = 16 << 10

// reserve makes sure that the request has n bytes of memory, or says that there are none left.
func (h *holding) reserve(n int64) error {
	full, message := h.take(n)
	if full == nil {
		return nil
	}
	full.Add(1)
	return reject(event.Unavailable, message)
}

// take makes sure that the request has n bytes of memory. If there are none left, it returns where that is counted, and
// what to say.
func (h *holding) take(n int64) (full *atomic.Uint64, message string) {
	more := n - h.reserved
	if more <= 0 {
		return nil, ""
	}
	s, u := h.server, h.usage
	if total := s.inFlight.Add(more); total > s.Limits.bytesInFlight() {
		s.inFlight.Add(-more)
		return &s.counts.shedMemory, "The server is handling as many bytes as it can hold."
	}
	if held := u.inFlight.Add(more); held > s.Limits.datasetBytes() {
		u.inFlight.Add(-more)
		s.inFlight.Add(-more)
		return &s.counts.shedShare, "This dataset's requests hold as many bytes as one dataset may."
	}
	h.reserved = n
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
func (h *holding) startDecoding(size int) error {
	if size < fairSize || h.decoding && (h.huge || size < limit.HugeSize) {
		return nil
	}
	s, u := h.server, h.usage
	if size >= limit.HugeSize {
		h.stopDecoding() // nobody waits for a turn with a place
		if s.pacing.On() {
			if wait := u.turn.Take(s.Now()); wait > 0 {
				s.counts.paced.Add(1)
				return resting(wait)
			}
			h.paced = true
		}
	}
	s.decoding.Acquire(&u.decoding, 1, processors())
	h.decoding, h.since = true, s.Now()
	if size >= limit.HugeSize {
		h.huge = true
		s.pacing.Begin(&u.turn, h.since)
	}
	return nil
}

// stopDecoding gives the place back, if there is one, before the request waits for anything else. While huge bodies are
// slowed down, the next one of the dataset begins after a rest.
func (h *holding) stopDecoding() {
	if !h.decoding {
		return
	}
	s, u, now := h.server, h.usage, h.server.Now()
	s.decoding.Release(1, processors())
	if h.huge {
		rest := s.pacing.End(now, now.Sub(h.since))
		if h.paced {
			s.pacing.Rested.Add(int64(rest))
			u.turn.Give(now, rest)
		}
	}
	h.decoding, h.huge, h.paced = false, false, false
}
