package limit

import "sync"

// Fair shares something scarce among datasets. A request gets some at once while there is any left and nobody
// waits; those that wait get it dataset after dataset. Without it a hundred batches of one dataset share the processors
// and the stream, and a single event of another dataset waits behind them all.
type Fair struct {
	mu   sync.Mutex
	used int64
	ring []*Waiters // the datasets with a request that waits, in the order in which they are served
}

// Waiters are the requests of one dataset that wait. The semaphore guards them.
type Waiters []waiter

type waiter struct {
	n     int64
	ready chan struct{}
}

// Acquire waits for n. A request that begins below the limit may pass it, so nothing is too large to be served.
func (s *Fair) Acquire(w *Waiters, n, limit int64) {
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

// Release gives n back and lets the next ones in.
func (s *Fair) Release(n, limit int64) {
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

// Waiting is how many requests of a dataset wait.
func (s *Fair) Waiting(w *Waiters) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(*w)
}

// Used is how much is in use.
func (s *Fair) Used() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}
