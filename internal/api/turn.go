package api

import (
	"runtime"
	"sync"
)

// turnSize is the body from which a request waits for its turn. Below it the work is shorter than the waiting
// (arbitrary: some twenty events).
const turnSize = 16 << 10

// turns let as many large bodies be decoded at one time as there are processors, dataset after dataset. Without
// them a hundred batches of one dataset share the processors, and a single event of another waits behind them all.
type turns struct {
	mu   sync.Mutex
	busy int
	ring []*lane // those with someone waiting, in the order of their next turn
}

// take waits for a turn.
func (t *turns) take(l *lane) {
	t.mu.Lock()
	if t.busy < runtime.GOMAXPROCS(0) {
		t.busy++
		t.mu.Unlock()
		return
	}
	mine := make(chan struct{})
	l.waiting = append(l.waiting, mine)
	if len(l.waiting) == 1 {
		t.ring = append(t.ring, l)
	}
	t.mu.Unlock()
	<-mine
}

// give passes the turn on to the next dataset that waits.
func (t *turns) give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.ring) == 0 {
		t.busy--
		return
	}
	l := t.ring[0]
	t.ring = t.ring[1:]
	close(l.waiting[0])
	l.waiting = l.waiting[1:]
	if len(l.waiting) > 0 {
		t.ring = append(t.ring, l)
	}
}

// takeTurn waits until the request may work on a body of size bytes.
func (q *request) takeTurn(size int) {
	if size >= turnSize {
		q.server.turns.take(q.lane)
		q.inTurn = true
	}
}

// giveTurn ends the request's turn, if it has one: before it waits for anything else.
func (q *request) giveTurn() {
	if q.inTurn {
		q.inTurn = false
		q.server.turns.give()
	}
}
