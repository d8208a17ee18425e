package client

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// lateReader is a transport that answers before it reads the body, as net/http may, and keeps the bodies.
type lateReader struct {
	mu     sync.Mutex
	bodies []io.ReadCloser
	status int
}

func (l *lateReader) RoundTrip(r *http.Request) (*http.Response, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bodies = append(l.bodies, r.Body)
	again, err := r.GetBody()
	if err != nil {
		return nil, err
	}
	l.bodies = append(l.bodies, again)
	if l.status == 0 {
		return nil, errors.New("the connection broke")
	}
	answer := `{"submission_id":"batch.1","received_at":"2026-11-14T23:40:05Z","status":"RECEIVED"}`
	return &http.Response{StatusCode: l.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(answer)), Request: r}, nil
}

// TestBodyIsNotReadAfterSubmit holds what a Request promises: its body is not kept. A transport may read a body after
// it has answered; it must then see the end or an error, never memory that holds something else by now.
func TestBodyIsNotReadAfterSubmit(t *testing.T) {
	for name, o := range map[string]Options{
		"plain": {Compression: Plain}, "gzip": {}, "zstd": {Compression: Zstd},
	} {
		for _, status := range []int{200, 400, 0} {
			transport := &lateReader{status: status}
			o.Transport = transport
			o.Retry.Budget = 1
			o.Retry.Base, o.Retry.Max = 1, 1
			c, err := New("http://127.0.0.1:1", "test-key", o)
			if err != nil {
				t.Fatal(err)
			}
			body := bytes.Repeat([]byte("[1]"), 1000)
			_, err = c.Submit(t.Context(), Request{Batch: true, Body: body, Events: 1})
			if (err == nil) != (status == 200) {
				t.Fatalf("%s: status %d: got %v", name, status, err)
			}
			for i := range body {
				body[i] = 'x' // the caller uses its memory again
			}
			if _, err := c.Submit(t.Context(), Request{Batch: true, Body: body, Events: 1}); (err == nil) != (status == 200) {
				t.Fatalf("%s: status %d: got %v", name, status, err)
			}
			for i, b := range transport.bodies {
				data, err := io.ReadAll(b)
				if len(data) > 0 || err == nil {
					t.Errorf("%s: status %d: body %d: got %d bytes and error %v after Submit returned, want none and an error", name, status, i, len(data), err)
				}
			}
		}
	}
}
