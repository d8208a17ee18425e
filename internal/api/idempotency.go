package api

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sluice/event"
	"sluice/internal/stream"
	"sluice/internal/submission"
)

// idempotencyKey is an Idempotency-Key within its dataset and path, as a digest, because senders make keys out of order
// numbers and worse. It does not go to disk: the stream stores a digest of its name. So the digest of a body, which is
// made with it, can be compared with a guess only by who knows the Idempotency-Key.
type idempotencyKey [sha256.Size]byte

// requestKey is the key of a request.
func requestKey(dataset, path, header string) (key idempotencyKey) {
	h := sha256.New()
	for _, part := range []string{dataset, path, header} {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	h.Sum(key[:0])
	return key
}

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
		return advise(event.InvalidType, "The Idempotency-Key header is not 1 to 255 visible ASCII characters, sent once.",
			"Send one Idempotency-Key, for example a random UUID, and the same one when you send the same request again.")
	}
	q.key = new(requestKey(q.dataset.ID, routes[q.route].Path, values[0]))
	return nil
}

func visible(s string) bool {
	return s != "" && len(s) <= 255 && !strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c >= 0x7f })
}

func inProgress() error {
	return reject(event.IdempotencyInProgress, "A request with this Idempotency-Key is still running.").after(time.Second)
}

// keyRestored rejects a key that was used before the service was moved: its receipt did not come along. A sender that
// tried again would get the same answer for as long as the key is known.
func keyRestored(at time.Time) error {
	r := advise(event.IdempotencyKeyReused, "The Idempotency-Key was used before the service was moved on "+
		at.UTC().Format(time.RFC3339)+". What was sent with it then is stored. Nothing is stored now.",
		"Do not send these events again. Use a new key for a new body.")
	r.other = http.StatusConflict
	return r
}

// allKeys says that all datasets together have used as many idempotency keys as there may be: this one is new, or can
// no longer be told from a new one.
func allKeys() *rejection {
	return advise(event.RateLimited, "The limit idempotency_keys_total of this service is reached.",
		"Put more events into each request with a key, or send without Idempotency-Key.").after(time.Minute)
}

// tooManyKeys says that the dataset has used as many idempotency keys as it may.
func tooManyKeys(limit int64, age time.Duration) *rejection {
	return advise(event.RateLimited, "The limit idempotency_keys of this dataset is reached: "+
		strconv.FormatInt(limit, 10)+" keys in "+strconv.Itoa(int(age.Hours()))+" hours.",
		"Put more events into each request with a key, send without Idempotency-Key, or ask the operator for a "+
			"higher limit.").after(time.Minute)
}

// submitKeyed is submit for a request with an Idempotency-Key. The stream lets one of all requests with a key through,
// on whatever node: the others get its receipt, or are told to wait while it is on its way.
func (q *request) submitKeyed() error {
	s := q.server
	body, err := q.body()
	if err != nil {
		return err
	}
	digest := s.BodyDigest(*q.key, body)
	res, received, err := q.judge(body)
	most, age := s.Limits.keys(), s.Limits.KeyAge
	full := err == nil && q.usage.keys.Count(received, age) >= most
	if err == nil && !full {
		if err = q.store(res, received, &digest); err == nil {
			q.usage.keys.Add(received)
		}
		if !errors.Is(err, stream.ErrExists) {
			return err
		}
		err = inProgress()
	}
	// What was accepted once stays accepted, however old it is by now.
	if replayed, rerr := q.replay(digest); replayed || rerr != nil {
		return rerr
	}
	if full {
		s.counts.keysLimited.Add(1)
		return tooManyKeys(most, age)
	}
	return err
}

// replay answers with the first receipt, byte for byte, if the key has been used.
func (q *request) replay(digest [sha256.Size]byte) (bool, error) {
	q.stopDecoding()
	rec, pos, err := q.server.Stream.ReadKeyed(q.r.Context(), q.key.name())
	if restored, ok := errors.AsType[*stream.RestoredError](err); ok {
		return false, keyRestored(restored.At)
	}
	switch {
	case errors.Is(err, stream.ErrNotFound):
		return false, nil
	case errors.Is(err, stream.ErrTooManyKeys): // it may be in use
		q.server.counts.keysLimited.Add(1)
		return false, allKeys()
	case err != nil:
		return false, q.unavailable("read back a submission", err)
	}
	first, err := q.server.IDs.DecodeRecord(string(rec), pos.Partition, pos.Seq, pos.Slot)
	if err != nil {
		return false, err
	}
	if first.BodyDigest != digest {
		return false, reject(event.IdempotencyKeyReused, "The Idempotency-Key was used before, with another body.")
	}
	q.w.Header()["Idempotency-Replayed"] = isTrue
	q.server.counts.replays.Add(1)
	q.server.tally.add(q.dataset.ID, nil, []submission.Requests{{Count: 1}})
	q.usage.accepted(submission.Counts{})
	n := first.Counts()
	q.accepted, q.rejected = n.Accepted, n.Rejected
	if n.Rejected > 0 {
		delete(q.w.Header(), "Preference-Applied") // the first request did not ask for it
	}
	q.out = first.AppendReceipt(q.out[:0])
	return true, nil
}
