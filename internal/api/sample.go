package api

import (
	"log/slog"
	"maps"
	"sync"
	"time"

	"sluice/event"
)

// sample logs rejected requests: the first of a dataset and a code, then one a minute, with how many there were since.
// A flood of rejected requests must not become a flood of log lines.
type sample struct {
	mu    sync.Mutex
	lines map[sampleKey]*sampleLine
}

type sampleKey struct {
	dataset string
	keyID   string // of a key that opens no dataset any more, else empty
	code    event.Code
}

type sampleLine struct {
	at    time.Time // of the last line
	since uint64    // rejections without a line after it
}

const (
	sampleEvery = time.Minute
	sampleLimit = 4096 // arbitrary: 40 codes × 100 datasets, 400 KB
)

// take says whether a rejection gets a line, and how many before it got none.
func (s *sample) take(key sampleKey, now time.Time) (since uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	line := s.lines[key]
	if line == nil {
		if len(s.lines) >= sampleLimit { // forget what may have a line again
			maps.DeleteFunc(s.lines, func(_ sampleKey, line *sampleLine) bool { return now.Sub(line.at) >= sampleEvery })
		}
		if len(s.lines) >= sampleLimit {
			return 0, false
		}
		if s.lines == nil {
			s.lines = make(map[sampleKey]*sampleLine)
		}
		s.lines[key] = &sampleLine{at: now}
		return 0, true
	}
	if passed := now.Sub(line.at); passed >= 0 && passed < sampleEvery {
		line.since++
		return 0, false
	}
	since, line.at, line.since = line.since, now, 0
	return since, true
}

// logRejection writes the line of a rejected request, if it gets one. It has nothing of the body and nothing of the key
// but its id.
func (q *request) logRejection(r *rejection, status int) {
	s := q.server
	if !s.Log.Enabled(q.r.Context(), slog.LevelInfo) {
		return
	}
	key := sampleKey{code: r.code}
	if q.dataset != nil {
		key.dataset = q.dataset.ID
	} else {
		key.keyID = q.keyID
	}
	since, ok := s.sample.take(key, q.start)
	if !ok {
		return
	}
	attrs := []any{
		"code", string(r.code), "status", status, "dataset", key.dataset, "key_id", q.keyID, "route",
		routes[q.route].Path, "request_id", q.id,
	}
	if since > 0 {
		attrs = append(attrs, "rejected_since_last_line", since)
	}
	s.Log.Info("request rejected", attrs...)
}
