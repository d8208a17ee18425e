package client

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// The limits of one request. The first two are the specification's, the others its advice.
const (
	MaxEvents  = 1000             // events in a batch
	MaxBytes   = 5 * 1024 * 1024  // bytes of a body, before compression
	FillEvents = 500              // events a Queue puts into one batch
	FillBytes  = 1_000_000        // bytes after which a Queue closes a batch
	gzipOver   = 1024             // bytes from which compression is worth its header
	maxAnswer  = 16 * 1024 * 1024 // bytes of an answer: 1,000 warnings are under 1 MB, the rest is a reserve
)

// Compression is the Content-Encoding of request bodies.
type Compression uint8

// The encodings of a body. Gzip is used over 1 KiB only.
const (
	Gzip Compression = iota
	Plain
	Zstd
)

// Options are the choices of a Client. The zero value is ready to use.
type Options struct {
	// DatasetID is put into every event that names no dataset, and is what Validate holds events against.
	DatasetID string
	// SuppressOptOut is how the dataset was provisioned; it changes what Validate says of an opt-out.
	SuppressOptOut bool
	// Transport carries the requests; nil is a private one with the defaults of net/http.
	Transport http.RoundTripper
	// Propagate adds trace headers to a try.
	Propagate func(ctx context.Context, h http.Header)
	// UserAgent is sent before the client's own name.
	UserAgent string
	// Compression of bodies.
	Compression Compression
	// PlainHTTP allows an http:// address that is not this machine's own. The key then travels readable.
	PlainHTTP bool
	// Retry bounds the tries of a request.
	Retry Retry
	// Now is the clock of Validate and of dates in Retry-After; nil is time.Now.
	Now func() time.Time
}

// Client sends the events of one dataset. It may be used by many goroutines at once.
type Client struct {
	base   string
	o      Options
	http   *http.Client
	budget *budget
	// authorize holds the key in a closure: fmt prints the fields of a struct, but not what a function keeps.
	authorize func(http.Header)
}

// New makes a Client for the service at base, for example https://events.example.com, with the dataset's key. It
// opens no connection and starts no goroutine.
func New(base, key string, o Options) (*Client, error) {
	u, err := url.Parse(strings.TrimRight(base, "/"))
	if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		return nil, errors.New("client: the address of the service is not an http or https URL")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("client: the address of the service has a user, a query or a fragment")
	}
	if u.Scheme == "http" && !o.PlainHTTP && !loopback(u.Hostname()) {
		return nil, errors.New("client: plain http would show the key to the network; use https")
	}
	if key == "" {
		return nil, errors.New("client: the key is empty")
	}
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("client: the key has a space, a line break or a character outside ASCII")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Retry = o.Retry.withDefaults()
	if o.Transport == nil {
		o.Transport = defaultTransport()
	}
	return &Client{
		base:      u.String(),
		o:         o,
		http:      &http.Client{Transport: o.Transport, CheckRedirect: stay},
		budget:    newBudget(o.Retry.Budget),
		authorize: func(h http.Header) { h.Set("Authorization", "Bearer "+key) },
	}, nil
}

// stay rejects redirects: a POST that becomes a GET elsewhere loses the events and shows the key.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// Local says whether the service is on this machine, where compression costs more than it saves.
func (c *Client) Local() bool {
	u, err := url.Parse(c.base)
	return err == nil && loopback(u.Hostname())
}

func defaultTransport() http.RoundTripper {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   32, // arbitrary: more than the parallel requests of any caller of ours
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
	}
}
