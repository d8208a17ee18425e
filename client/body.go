package client

import (
	"errors"
	"io"
	"sync"
)

// sentBody is the body of one try. A transport may read a body after it has returned, because it writes the request in
// another goroutine. After end, no reader touches the memory, so the caller may use it again.
type sentBody struct {
	mu   sync.Mutex
	data []byte // nil once the try has ended
	size int
}

var errBodyEnded = errors.New("client: the try has ended")

// open gives a reader of the whole body.
func (b *sentBody) open() io.ReadCloser { return &bodyReader{body: b} }

// end makes every reader stop. It waits for a read that is under way.
func (b *sentBody) end() {
	b.mu.Lock()
	b.data = nil
	b.mu.Unlock()
}

// bodyReader reads a body from its beginning.
type bodyReader struct {
	body *sentBody
	at   int
}

// Read gives an error after the try has ended, but the end to a reader that has read everything: net/http reads once
// more behind the last byte, and drops the connection on an error.
func (r *bodyReader) Read(p []byte) (int, error) {
	b := r.body
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.at == b.size {
		return 0, io.EOF
	}
	if b.data == nil {
		return 0, errBodyEnded
	}
	n := copy(p, b.data[r.at:])
	r.at += n
	return n, nil
}

// Close does nothing: the memory belongs to the body.
func (r *bodyReader) Close() error { return nil }
