package api

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"sync"
	"time"

	"sluice/event"
	"sluice/internal/stream"
)

// idempotencyKey is an Idempotency-Key within its dataset and path, as a digest, because senders make keys
// out of order numbers and worse, and it goes to disk.
type idempotencyKey [sha256.Size]byte

// name is the key as the stream knows it.
func (k *idempotencyKey) name() string { return hex.EncodeToString(k[:]) }

// readIdempotencyKey takes the Idempotency-Key, if there is one. There is no code of its own for a bad one: it is a
// member of the request of the wrong type.
func (q *request) readIdempotencyKey() error {
	values := q.r.Header["Idempotency-Key"]
	if len(values) == 0 {
		return nil
	}
	if len(values) > 1 || !visible(values[0]) {
		r := reject(event.InvalidType, "The Idempotency-Key header is not 1 to 255 visible ASCII characters, sent once.")
		r.hint = "Send one Idempotency-Key, for example a UUID, and the same one when you send the same request again."
		return r
	}
	h := sha256.New()
	for _, part := range []string{q.dataset.ID, routes[q.route].path, values[0]} {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	q.key = new(idempotencyKey)
	h.Sum(q.key[:0])
	return nil
}

func visible(s string) bool {
	if len(s) == 0 || len(s) > 255 {
		return false
	}
	for i := 0; i < len(s); i++ {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// patience is how long a request whose body is still coming holds its key. A sender whose connection stalled
// tries again after some seconds, and must then not be rejected because of its own first request (arbitrary).
const patience = 10 * time.Second

// claims are the keys of the requests that run now, on this node. Between nodes, and after a crash, the
// stream itself lets only one through; claims only spare the others the work.
type claims struct {
	mu   sync.Mutex
	open map[idempotencyKey]*claim
}

type claim struct {
	since   time.Time
	arrived bool // its body is here
}

// take claims the key, or says that another request holds it.
func (c *claims) take(key idempotencyKey, now time.Time) (*claim, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if held := c.open[key]; held != nil && (held.arrived || now.Sub(held.since) < patience) {
		return nil, false
	}
	if c.open == nil {
		c.open = make(map[idempotencyKey]*claim)
	}
	mine := &claim{since: now}
	c.open[key] = mine
	return mine, true
}

// arrived says that the request's body is whole: from now on it holds its key to the end.
func (c *claims) arrived(mine *claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	mine.arrived = true
}

// drop ends the claim, unless the key has been passed on.
func (c *claims) drop(key idempotencyKey, mine *claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[key] == mine {
		delete(c.open, key)
	}
}

func (c *claims) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}

func inProgress() error {
	r := reject(event.IdempotencyInProgress, "A request with this Idempotency-Key is still running.")
	r.wait = time.Second
	return r
}

// submitKeyed is submit for a request with an Idempotency-Key.
func (q *request) submitKeyed() error {
	s := q.server
	mine, ok := s.claims.take(*q.key, q.start)
	if !ok {
		return inProgress()
	}
	defer s.claims.drop(*q.key, mine)
	body, err := q.body()
	if err != nil {
		return err
	}
	s.claims.arrived(mine)
	digest := s.BodyDigest(body)
	res, received, err := q.judge(body)
	if err != nil {
		// What was accepted once stays accepted, however old it is by now.
		if replayed, rerr := q.replay(body, digest); replayed || rerr != nil {
			return rerr
		}
		return err
	}
	if most, age := s.Limits.keys(); q.usage.keys.count(received, age) >= most {
		if replayed, rerr := q.replay(body, digest); replayed || rerr != nil {
			return rerr
		}
		s.counts.keysLimited.Add(1)
		return tooManyKeys(most, age)
	}
	err = q.store(res, received, &digest)
	if err == nil {
		q.usage.keys.add(received)
	}
	if errors.Is(err, stream.ErrExists) {
		replayed, rerr := q.replay(body, digest)
		if !replayed && rerr == nil { // it is on its way, on another node
			return inProgress()
		}
		return rerr
	}
	return err
}

// replay answers with the first receipt, byte for byte, if the key has been used.
func (q *request) replay(body string, digest [sha256.Size]byte) (bool, error) {
	q.stopDecoding()
	rec, pos, err := q.server.Stream.ReadKeyed(q.r.Context(), q.key.name())
	switch {
	case errors.Is(err, stream.ErrNotFound):
		return false, nil
	case err != nil:
		return false, q.unavailable("read back a submission", err)
	}
	first, err := q.server.IDs.DecodeRecord(string(rec), pos.Partition, pos.Seq, pos.Slot)
	if err != nil {
		return false, err
	}
	// Records of earlier versions have the plain hash.
	if first.BodyDigest != digest && first.BodyDigest != sha256.Sum256([]byte(body)) {
		return false, reject(event.IdempotencyKeyReused, "The Idempotency-Key was used before, with another body.")
	}
	q.w.Header()["Idempotency-Replayed"] = isTrue
	q.server.counts.replays.Add(1)
	n := first.Counts()
	q.accepted, q.rejected = n.Accepted, n.Rejected
	if n.Rejected > 0 {
		delete(q.w.Header(), "Preference-Applied") // the first request did not ask for it
	}
	q.out = first.AppendReceipt(q.out[:0])
	return true, nil
}
