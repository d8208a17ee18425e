package api

import (
	"cmp"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"sluice/event"
	"sluice/internal/histogram"
	"sluice/internal/listen"
)

// statuses are all we ever answer with.
var statuses = [...]int{
	http.StatusOK, http.StatusNotModified, http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound,
	http.StatusMethodNotAllowed, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType,
	http.StatusUnprocessableEntity, http.StatusTooManyRequests, http.StatusInternalServerError,
	http.StatusServiceUnavailable,
}

// counts are the server's numbers.
type counts struct {
	answers     [routeCount][len(statuses)]atomic.Uint64
	latency     [routeCount]histogram.Histogram
	shedMemory  atomic.Uint64
	shedShare   atomic.Uint64
	shedStream  atomic.Uint64
	paced       atomic.Uint64
	slowBodies  atomic.Uint64
	replays     atomic.Uint64
	keysLimited atomic.Uint64
	faults      atomic.Uint64
	bytesWire   atomic.Uint64
	bytesPlain  atomic.Uint64
}

func (c *counts) answered(route, status int, took time.Duration) {
	if i := slices.Index(statuses[:], status); i >= 0 {
		c.answers[route][i].Add(1)
	}
	c.latency[route].Record(took)
}

// Stats is what the server has done since it began.
type Stats struct {
	Routes         []RouteStats   // one per path of the API, and one named "other"
	RejectedByCode []CodeCount    // requests without a valid key, by error code, those that happened
	Datasets       []DatasetStats // by id; datasets whose key was presented

	BytesInFlight      int64
	BytesInFlightLimit int64
	BytesWire          uint64 // bodies as they came
	BytesPlain         uint64 // bodies decompressed
	KeysLimit          int64  // Idempotency-Keys that one dataset may have in use
	KeysLimited        uint64 // requests rejected because their dataset has that many
	Connections        listen.Stats
	Replays            uint64        // receipts given again
	ShedMemory         uint64        // rejected: the server holds too many bytes
	ShedShare          uint64        // rejected: one dataset holds too many bytes
	ShedStream         uint64        // rejected: the stream is not ready, or did not take it
	Paced              uint64        // rejected: large requests of their dataset delay the requests of others
	Rested             time.Duration // what datasets waited between large requests for that reason, together
	SlowBodies         uint64        // cut off: the body took too long
	Faults             uint64        // 500s
	RejectionsLost     uint64        // counts that were dropped: too many different ones
}

// RouteStats is one path's answers.
type RouteStats struct {
	Method, Path string
	Statuses     []StatusCount // those that happened
	Latency      histogram.Buckets
	LatencySum   time.Duration
}

// StatusCount is how many answers had a status.
type StatusCount struct {
	Status int
	Count  uint64
}

// CodeCount is how many requests were rejected with a code.
type CodeCount struct {
	Code  event.Code
	Count uint64
}

// DatasetStats is one dataset's events.
type DatasetStats struct {
	DatasetID                                        string
	Accepted, Rejected, Late, Restricted, Suppressed uint64 // events
	RejectedRequests, Limited                        uint64 // requests: rejected as a whole, over a rate
	RejectedByCode                                   []CodeCount
	Failing                                          Failing
	BytesInFlight                                    int64
	Keys                                             int64 // Idempotency-Keys used on this node that are still known
}

// Stats reads the numbers.
func (s *Server) Stats() Stats {
	c := &s.counts
	st := Stats{
		BytesInFlight: s.inFlight.Load(), BytesInFlightLimit: s.Limits.BytesInFlight,
		BytesWire: c.bytesWire.Load(), BytesPlain: c.bytesPlain.Load(), Replays: c.replays.Load(),
		ShedMemory: c.shedMemory.Load(), ShedShare: c.shedShare.Load(), ShedStream: c.shedStream.Load(),
		SlowBodies: c.slowBodies.Load(), Faults: c.faults.Load(), KeysLimit: s.Limits.keys(),
		KeysLimited: c.keysLimited.Load(), Paced: c.paced.Load(), Rested: time.Duration(s.pacing.Rested.Load()),
		RejectedByCode: s.strangers.stats().RejectedByCode, RejectionsLost: s.tally.lost.Load(),
	}
	if l := s.listener.Load(); l != nil {
		st.Connections = l.Stats()
	}
	for i := range routes {
		r := RouteStats{
			Method: routes[i].Method, Path: routes[i].Path, Latency: c.latency[i].Buckets(), LatencySum: c.latency[i].Sum(),
		}
		for j, status := range statuses {
			if n := c.answers[i][j].Load(); n > 0 {
				r.Statuses = append(r.Statuses, StatusCount{status, n})
			}
		}
		st.Routes = append(st.Routes, r)
	}
	s.usages.Range(func(_, v any) bool {
		d := v.(*usage).stats()
		d.Keys = v.(*usage).keys.Count(s.Now(), s.Limits.KeyAge)
		st.Datasets = append(st.Datasets, d)
		return true
	})
	slices.SortFunc(st.Datasets, func(a, b DatasetStats) int { return cmp.Compare(a.DatasetID, b.DatasetID) })
	return st
}
