package api

import (
	"runtime"
	"sync"
)

// turns share something scarce among datasets: whoever comes gets some while there is any left, and then those
// who wait get it dataset after dataset. Without turns a hundred batches of one dataset share the processors and
// the queue, and a single event of another waits behind them all.
type turns struct {
	mu   sync.Mutex
	used int64
	ring []*waiting // the datasets with someone waiting, in the order of their next turn
}

// waiting is a dataset's requests that wait for a turn. The turns guard it.
type waiting []ticket

type ticket struct {
	n    int64
	turn chan struct{}
}

// take waits for a turn with n. One that begins below room may pass it, so nothing is too large to be served.
func (t *turns) take(w *waiting, n, room int64) {
	t.mu.Lock()
	if t.used < room && len(t.ring) == 0 {
		t.used += n
		t.mu.Unlock()
		return
	}
	mine := ticket{n, make(chan struct{})}
	*w = append(*w, mine)
	if len(*w) == 1 {
		t.ring = append(t.ring, w)
	}
	t.mu.Unlock()
	<-mine.turn
}

// give ends a turn with n and lets the next ones in.
func (t *turns) give(n, room int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.used -= n
	for t.used < room && len(t.ring) > 0 {
		w := t.ring[0]
		t.ring = t.ring[1:]
		next := (*w)[0]
		*w = (*w)[1:]
		if len(*w) > 0 {
			t.ring = append(t.ring, w)
		}
		t.used += next.n
		close(next.turn)
	}
}

// Small requests take no turn: the work is shorter than the waiting (arbitrary: some twenty events).
const turnSize = 16 << 10

// As many large bodies are decoded at one time as there are processors.
func processors() int64 { return int64(runtime.GOMAXPROCS(0)) }

// queueRoom is how many bytes of large records the stream is given to write at one time: enough for it to write
// while it syncs, and little enough that a record which comes now is soon written (measured: three times as much
// is no faster and makes a single event of another dataset wait half as long again).
const queueRoom = 768 << 10

// takeTurn waits until the request may work on a body of size bytes.
func (q *request) takeTurn(size int) {
	if size >= turnSize {
		q.server.decoding.take(&q.lane.decoding, 1, processors())
		q.inTurn = true
	}
}

// giveTurn ends the request's turn, if it has one: before it waits for anything else.
func (q *request) giveTurn() {
	if q.inTurn {
		q.inTurn = false
		q.server.decoding.give(1, processors())
	}
}
