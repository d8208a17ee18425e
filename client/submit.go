package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"sluice/event"
)

// Receipt is the service's word that it holds a submission on stable storage.
type Receipt struct {
	SubmissionID string
	ReceivedAt   time.Time
	Status       string
	Accepted     int             // events queued
	Rejected     int             // events rejected
	Problems     []event.Error   // why, at most 100
	Truncated    bool            // there were more than 100
	Warnings     []event.Warning // of accepted events
	Replayed     bool            // the service knew the Idempotency-Key: this is the receipt of an earlier try
	Key          string          // the Idempotency-Key
	First        int             // index of the request's first event in the slice given to SendBatch
}

// Request is one logical request whose body is JSON already.
type Request struct {
	Batch  bool   // Body is an array, not one object
	Events int    // events in Body, so that a clean receipt can say how many were accepted; 0 counts as 1
	Body   []byte // not changed, not kept
	Key    string // Idempotency-Key, of at least 64 random bits; empty: a fresh one
	Strict bool   // one invalid event rejects the whole batch
}

// Submit sends one request and tries until an answer is final. A nil error means that every event the receipt counts as
// accepted is stored; in a batch others may have been rejected, and only the receipt says so.
func (c *Client) Submit(ctx context.Context, r Request) (*Receipt, error) {
	if r.Key == "" {
		r.Key = NewKey()
	}
	path := "/v1/events"
	if r.Batch {
		path = "/v1/events/batch"
	}
	h := http.Header{"Idempotency-Key": {r.Key}}
	if r.Strict {
		h.Set("Prefer", "handling=strict")
	}
	var receipt *Receipt
	err := c.post(ctx, r.Key, path, h, r.Body, func(a *answer) (err error) {
		receipt, err = readReceipt(a, max(r.Events, 1))
		return err
	})
	if err != nil {
		return nil, err
	}
	receipt.Key = r.Key
	return receipt, nil
}

// post sends a body until an answer is final. read may reject an answer, which is tried again like any other failure.
func (c *Client) post(
	ctx context.Context, key, path string, h http.Header, body []byte, read func(*answer) error,
) error {
	if len(body) > MaxBytes {
		return fmt.Errorf("client: the body is %d bytes, over the limit of %d", len(body), MaxBytes)
	}
	packed, encoding, release := c.compress(body)
	defer release()
	if encoding != "" {
		h.Set("Content-Encoding", encoding)
	}
	return c.repeat(ctx, key, func(ctx context.Context) error {
		a, err := c.exchange(ctx, http.MethodPost, path, h.Clone(), packed)
		if err != nil {
			return err
		}
		return read(a)
	})
}

// NewKey is a fresh Idempotency-Key of 130 random bits.
func NewKey() string { return rand.Text() }

// answer is what came back with status 200, read to its end.
type answer struct {
	status      int
	header      http.Header
	body        []byte
	took        time.Duration
	tlsVersion  string
	certExpires time.Time
}

// exchange makes one try. Any status but 200 is an *Error.
func (c *Client) exchange(ctx context.Context, method, path string, h http.Header, body []byte) (*answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, nil)
	if err != nil {
		return nil, err
	}
	if len(body) > 0 {
		sent := &sentBody{data: body, size: len(body)}
		defer sent.end()
		req.Body, req.ContentLength = sent.open(), int64(len(body))
		req.GetBody = func() (io.ReadCloser, error) { return sent.open(), nil }
	}
	if h != nil {
		req.Header = h
	}
	c.authorize(req.Header)
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("User-Agent", strings.TrimSpace(c.o.UserAgent+" sluice-client/1"))
	if c.o.Propagate != nil {
		c.o.Propagate(ctx, req.Header)
	}
	begin := time.Now()
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, c.readError(resp, data)
	}
	a := &answer{status: resp.StatusCode, header: resp.Header, body: data, took: time.Since(begin)}
	if resp.TLS != nil {
		a.tlsVersion = tls.VersionName(resp.TLS.Version)
		if len(resp.TLS.PeerCertificates) > 0 {
			a.certExpires = resp.TLS.PeerCertificates[0].NotAfter
		}
	}
	return a, nil
}

type wireAnswer struct {
	Status       string          `json:"status"`
	SubmissionID string          `json:"submission_id"`
	ReceivedAt   time.Time       `json:"received_at"`
	Accepted     *int            `json:"accepted"`
	Rejected     int             `json:"rejected"`
	ErrorCode    event.Code      `json:"error_code"`
	Message      string          `json:"message"`
	RequestID    string          `json:"request_id"`
	Errors       []event.Error   `json:"errors"`
	Truncated    bool            `json:"errors_truncated"`
	Warnings     []event.Warning `json:"warnings"`
}

func readReceipt(a *answer, events int) (*Receipt, error) {
	var w wireAnswer
	if err := json.Unmarshal(a.body, &w); err != nil || w.SubmissionID == "" {
		return nil,
			&Error{Status: a.status, Message: "the answer is not a receipt; something between here and the service gave it"}
	}
	r := &Receipt{
		SubmissionID: w.SubmissionID, ReceivedAt: w.ReceivedAt, Status: w.Status,
		Accepted: events, Rejected: w.Rejected,
		Problems: w.Errors, Truncated: w.Truncated, Warnings: w.Warnings,
		Replayed: a.header.Get("Idempotency-Replayed") == "true",
	}
	if w.Accepted != nil {
		r.Accepted = *w.Accepted
	}
	return r, nil
}

func (c *Client) readError(resp *http.Response, body []byte) error {
	e := &Error{
		Status: resp.StatusCode, RequestID: resp.Header.Get("X-Request-Id"),
		RetryAfter: retryAfter(resp.Header, c.o.Now()),
	}
	var w wireAnswer
	if err := json.Unmarshal(body, &w); err != nil || w.Status != "error" {
		e.Message = "the answer is not the service's own (" + http.StatusText(resp.StatusCode) + ")"
		return e
	}
	e.Code, e.Message, e.Problems, e.Truncated = w.ErrorCode, w.Message, w.Errors, w.Truncated
	if w.RequestID != "" {
		e.RequestID = w.RequestID
	}
	return e
}

var (
	gzips = sync.Pool{New: func() any {
		z, _ := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed) // the level is a valid one
		return z
	}}
	buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}
	zstds   = sync.OnceValue(func() *zstd.Encoder {
		// the options are valid ones
		z, _ := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
		return z
	})
)

// compress gives the body as it goes on the wire. The caller calls release when no try needs it any more.
func (c *Client) compress(body []byte) (out []byte, encoding string, release func()) {
	if len(body) <= gzipOver || c.o.Compression == Plain {
		return body, "", func() {}
	}
	buf := buffers.Get().(*bytes.Buffer)
	buf.Reset()
	release = func() { buffers.Put(buf) }
	if c.o.Compression == Zstd {
		buf.Write(zstds().EncodeAll(body, buf.AvailableBuffer()))
		return buf.Bytes(), "zstd", release
	}
	z := gzips.Get().(*gzip.Writer)
	defer gzips.Put(z)
	z.Reset(buf)
	_, _ = z.Write(body) // a buffer takes everything
	_ = z.Close()
	return buf.Bytes(), "gzip", release
}
