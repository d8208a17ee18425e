package api

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
	"unsafe"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"sluice/event"
)

// MaxBody is the most bytes of a body, on the wire and decompressed.
const MaxBody = 5_242_880

// firstStep is how much memory a sender is trusted with before its bytes arrive (arbitrary: most requests are smaller).
// A body that is announced larger gets memory reserved for all of it when so much has come, and gets memory as it
// comes.
const firstStep = 64 << 10

// held is how many times its plain body a request is counted in memory: the body, and its record on the way into the
// stream, which is hardly ever longer.
const held = 2

func tooLarge() *rejection {
	return reject(event.PayloadTooLarge, "The body is larger than "+strconv.Itoa(MaxBody)+" bytes.")
}

func malformed(message, hint string) *rejection {
	return advise(event.MalformedJSON, message, hint)
}

const hintCompress = "Compress the whole body once, as Content-Encoding says, or send it plain without that header."

// body reads the request's body within the limits. The string is part of the request's memory: it is gone when
// the request ends.
func (q *request) body() (string, error) {
	q.step("body")
	if err := q.receive(); err != nil {
		return "", err
	}
	q.server.counts.bytesWire.Add(uint64(len(q.wire)))
	raw := q.wire
	if q.compressed() {
		if err := q.decompress(); err != nil {
			return "", err
		}
		raw = q.plain
	}
	if err := q.startDecoding(len(raw)); err != nil {
		return "", err
	}
	q.server.counts.bytesPlain.Add(uint64(len(raw)))
	return unsafe.String(unsafe.SliceData(raw), len(raw)), nil // the bytes stay as they are until the request ends
}

func (q *request) compressed() bool { return q.coding == "gzip" || q.coding == "zstd" }

// receive fills q.wire. A sender has time by the size it announced, so that a slow one cannot hold memory for
// ever; a small body has the time that listen.NewServer gives every request.
func (q *request) receive() error {
	size := q.r.ContentLength
	if size < 0 {
		size = MaxBody
	}
	control := http.NewResponseController(q.w)
	if size > firstStep {
		// Deadlines of the operating system follow its clock, not the service's.
		_ = control.SetReadDeadline(time.Now().Add(readTime(size)))
	}
	b, have := q.wire[:0], int64(0)
	for {
		if int64(len(b)) >= have {
			have = min(size, max(firstStep, 4*have)) + 1
			need := have
			if have > firstStep+1 {
				// All that was announced at once: of many large bodies some are rejected before they have cost much, and
				// the others are not rejected when they have nearly arrived.
				need = held * max(have, q.r.ContentLength)
			}
			if err := q.reserve(need + overhead); err != nil {
				return err
			}
			b = grow(b, int(have))
		}
		n, err := q.r.Body.Read(b[len(b):have])
		b = b[:len(b)+n]
		q.wire = b
		if len(b) > MaxBody {
			return tooLarge()
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return q.cutShort(err)
		}
	}
	q.bodyRead = true
	if size > firstStep {
		_ = control.SetReadDeadline(time.Time{}) // left standing it could end the request while it waits for the queue
	}
	return nil
}

// cutShort says why a body did not arrive whole. A slow network may do better next time; a sender that stopped
// early has made a mistake, if it is still there at all.
func (q *request) cutShort(err error) error {
	q.bodyRead = true        // there is nothing to wait for
	if q.r.ProtoMajor == 1 { // in HTTP/2 it is one stream of many
		q.w.Header()["Connection"] = closing
	}
	if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
		q.server.counts.slowBodies.Add(1)
		return reject(event.Unavailable, "The body did not arrive in time.")
	}
	return malformed("The body ended before its announced length.",
		"Set Content-Length to the number of bytes that are sent, or let the HTTP library set it.")
}

// grow returns b with a capacity of at least n bytes.
func grow(b []byte, n int) []byte {
	if cap(b) >= n {
		return b
	}
	return append(make([]byte, 0, n), b...)
}

var gzipReaders sync.Pool

// deflateMost is how many bytes one byte of deflate can become: a length of 258 in two bits.
const deflateMost = 1032

// decompress fills q.plain from q.wire and stops at the limit, so that a bomb costs no more than a large body.
func (q *request) decompress() error {
	if q.coding == "zstd" {
		return q.unzstd()
	}
	src := bytes.NewReader(q.wire)
	z, _ := gzipReaders.Get().(*gzip.Reader)
	if z == nil {
		z = new(gzip.Reader)
	}
	defer gzipReaders.Put(z)
	if err := z.Reset(src); err != nil {
		return malformed("The body is not gzip.", hintCompress)
	}
	// The trailer says how long the body gets: a hint, not a promise. Nothing gets longer than deflate can make it.
	claim := min(int64(binary.LittleEndian.Uint32(q.wire[len(q.wire)-4:])), deflateMost*int64(len(q.wire)))
	b, have := q.plain[:0], int64(0)
	for {
		if int64(len(b)) >= have {
			have = min(MaxBody+1, max(claim+1, 2*have))
			if err := q.reserve(int64(len(q.wire)) + held*have + overhead); err != nil {
				return err
			}
			if err := q.startDecoding(int(have)); err != nil { // by what comes out: 9 KB of gzip can be 4.7 MB
				return err
			}
			b = grow(b, int(have))
		}
		n, err := z.Read(b[len(b):have])
		b = b[:len(b)+n]
		q.plain = b
		if len(b) > MaxBody {
			return tooLarge()
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return malformed("The body is not whole gzip.", hintCompress)
		}
	}
}

// zstdWindow is the largest window a body may ask for: the usual limit of the format. None is ever allocated,
// because the output itself is the window.
const zstdWindow = 128 << 20

// zstdDecoder is shared. It writes no further than the memory it is given, and runs on as many bodies at a time
// as there are processors.
var zstdDecoder = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(zstdWindow), zstd.WithDecoderMaxWindow(zstdWindow), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic(err) // the options are constants
	}
	return d
})

// zstdLimit holds the largest body and one block more. With it a block that begins within the limit always fits,
// so whatever goes wrong within the limit is the body's fault and whatever goes on beyond it is too large.
const zstdLimit = MaxBody + 128<<10 + 16

// unzstd decompresses into as much memory as the frame announces, or else into more each time it does not fit.
func (q *request) unzstd() error {
	size := max(16*len(q.wire), fairSize-1) // batches of events shrink to a tenth or less; a single event needs no place
	var h zstd.Header
	if err := h.Decode(q.wire); err == nil && h.HasFCS {
		if h.FrameContentSize > MaxBody {
			return tooLarge()
		}
		size = int(h.FrameContentSize)
	}
	for {
		size = min(size, zstdLimit)
		if err := q.reserve(int64(len(q.wire)+held*size) + overhead); err != nil {
			return err
		}
		if err := q.startDecoding(size); err != nil {
			return err
		}
		b, err := zstdDecoder().DecodeAll(q.wire, grow(q.plain[:0], size)[:0:size])
		if err == nil && len(b) <= MaxBody {
			q.plain = b
			return nil
		}
		if size == zstdLimit {
			if len(b) > MaxBody || errors.Is(err, zstd.ErrDecoderSizeExceeded) {
				return tooLarge()
			}
			return malformed("The body is not whole zstd.", hintCompress)
		}
		size = max(8*size, firstStep) // too little memory and a damaged body look alike here
	}
}
