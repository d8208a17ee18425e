// Package api answers senders over HTTP.
package api

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"sluice/event"
	"sluice/internal/arrival"
	"sluice/internal/campaign"
	"sluice/internal/dataset"
	"sluice/internal/journal"
	"sluice/internal/limit"
	"sluice/internal/listen"
	"sluice/internal/stream"
	"sluice/internal/submission"
)

// Keys says which dataset a key opens. *dataset.Registry does.
type Keys interface {
	Authenticate(presented string) (d *dataset.Dataset, keyID string, err error)
}

// Stream is the durable log: a 200 means that it holds the events. *stream.Stream is one; tests have others that fail
// on demand.
type Stream interface {
	Append(ctx context.Context, record []byte) (stream.Position, error)
	AppendKeyed(ctx context.Context, key string, record []byte) (stream.Position, error)
	ReadKeyed(ctx context.Context, key string) ([]byte, stream.Position, error)
	Read(ctx context.Context, at stream.Position) ([]byte, error)
	Ready() error
}

// Lookup finds submissions that the stream has let go of.
type Lookup interface {
	// FindSubmission reads a submission of a dataset back, or returns nil if there is none by this id.
	FindSubmission(ctx context.Context, datasetID, submissionID string) (*submission.Submission, error)
}

// Live is a view of what arrives. Its methods return at once.
type Live interface {
	// Wants says how many events of a submission it would show now, in Unix seconds; 0 while nobody watches.
	Wants(now int64) int
	// Show gets a submission that was acknowledged, with at most so many rows, or the counts of a request that was
	// rejected as a whole. It may keep what it gets.
	Show(*submission.Submission)
}

// Server answers senders. Set the exported fields, all but Live and Step, before the first request and leave them alone
// afterwards. It is an http.Handler; Run keeps the counts of rejected events.
type Server struct {
	Keys   Keys
	Stream Stream
	// Processed says whether the record at a position of the stream is in the store.
	Processed func(stream.Position) bool
	Lookup    Lookup
	// Numbers are those of a dataset, from the store; the dataset's name, hints, examples and the key are filled in by the
	// server.
	Numbers func(ctx context.Context, datasetID string, w NumbersWindow, now time.Time) (Numbers, error)
	// Campaigns are the same numbers by campaign.
	Campaigns func(ctx context.Context, datasetID string, w NumbersWindow, now time.Time) ([]campaign.Campaign, error)
	// IDs makes and reads submission ids.
	IDs *submission.IDs
	// BodyDigest is what is kept of the body of a request with an idempotency key, to tell whether a later one is the
	// same.
	BodyDigest func(key [sha256.Size]byte, body string) [sha256.Size]byte
	// Known says whether the other nodes know this one: nil, or why not. What followers of the feed are told counts only
	// nodes that are known.
	Known func() error
	// BacklogAge is how long the oldest event not yet in the store has waited.
	BacklogAge func() time.Duration
	// Share is the part of every dataset's rate limits that this node may use, above 0 and up to 1. Nodes of a cluster
	// share the limits.
	Share func() float64
	// Suppression are the people whose events of a dataset are suppressed, nil for nobody.
	Suppression func(datasetID string) event.SuppressionList
	// Live gets samples of what is accepted and rejected. It may be nil.
	Live   Live
	Limits Limits
	Now    func() time.Time
	Log    *slog.Logger

	// Step is called before each named step of a request. Tests panic in it. The steps are enter, body, decode, store,
	// append, stored, answer, written. It may be nil.
	Step func(name string)

	Journal journal.Journal // of rejected requests

	pools     pools
	usages    sync.Map // dataset id → *usage
	strangers usage    // requests without a valid key
	inFlight  atomic.Int64
	decoding  limit.Fair   // processors for large bodies
	arrivals  arrival.Desk // of events that are on their way into the stream
	queueing  limit.Fair   // bytes of large records on their way into the stream
	pacing    limit.Pacing // of large bodies
	listener  atomic.Pointer[listen.Listener]
	tally     tally
	sample    sample
	outage    outage
	counts    counts
	document  document
}

// Limit returns the listener with the limits of connections. Use it for one listener only, with listen.NewServer.
func (s *Server) Limit(l net.Listener) net.Listener {
	limited := listen.New(l, s.Limits.Connections, 0)
	s.listener.Store(limited)
	return limited
}

// Ready says whether a POST would be taken now: nil, or why not.
func (s *Server) Ready() error {
	if err := s.Stream.Ready(); err != nil {
		return err
	}
	if err := s.Known(); err != nil {
		return err
	}
	if s.Limits.BacklogAge > 0 && s.BacklogAge() > s.Limits.BacklogAge {
		return errBacklog
	}
	return nil
}
