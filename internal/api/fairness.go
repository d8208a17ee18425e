package api

import (
	"runtime"
	"sync"
)

// fairSemaphore shares something scarce among datasets. A request gets some at once while there is any left and nobody
// waits; those that wait get it dataset after dataset. Without it a hundred batches of one dataset share the processors
// and the stream, and a single event of another dataset waits behind them all.
type fairSemaphore struct {
	mu   sync.Mutex
	used int64
	ring []*waiters // the datasets with a request that waits, in the order in which they are served
}

// waiters are the requests of one dataset that wait. The semaphore guards them.
type waiters []waiter

type waiter struct {
	n     int64
	ready chan struct{}
}

// acquire waits for n. A request that begins below the limit may pass it, so nothing is too large to be served.
func (s *fairSemaphore) acquire(w *waiters, n, limit int64) {
	s.mu.Lock()
	if s.used < limit && len(s.ring) == 0 {
		s.used += n
		s.mu.Unlock()
		return
	}
	mine := waiter{n, make(chan struct{})}
	*w = append(*w, mine)
	if len(*w) == 1 {
		s.ring = append(s.ring, w)
	}
	s.mu.Unlock()
	<-mine.ready
}

// release gives n back and lets the next ones in.
func (s *fairSemaphore) release(n, limit int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used -= n
	for s.used < limit && len(s.ring) > 0 {
		w := s.ring[0]
		s.ring = s.ring[1:]
		next := (*w)[0]
		*w = (*w)[1:]
		if len(*w) > 0 {
			s.ring = append(s.ring, w)
		}
		s.used += next.n
		close(next.ready)
	}
}

// waiting is how many requests of a dataset wait.
func (s *fairSemaphore) waiting(w *waiters) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(*w)
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
