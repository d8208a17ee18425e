// Package erasure keeps what was erased from coming back: a tombstone for each erased identifier, in the engine.
//
// The stream holds frames for days, and an old version of a table may be put back. Whoever makes rows of either asks here
// first. A tombstone has no identifier, only a digest with a key that the engine holds.
package erasure

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"sluice/event"
	"sluice/internal/engine"
)

// Kind is the kind of an identifier, spelled as its column.
type Kind string

// The kinds.
const (
	Email   Kind = "email_sha256"
	IFA     Kind = "ifa"
	IP      Kind = "ip_sha256"
	Partner Kind = "partner_id"
)

// Kinds are all kinds.
var Kinds = []Kind{Email, IFA, IP, Partner}

// Of returns the identifier of a row; "" for none.
func (k Kind) Of(r *event.Row) string {
	switch k {
	case Email:
		return r.EmailSHA256
	case IFA:
		return r.IFA
	case IP:
		return r.IPSHA256
	case Partner:
		return r.PartnerID
	}
	return ""
}

// leastAge is how long a tombstone is kept at least, however short the stream: an old version of a table may be put back
// in this time. Arbitrary: longer than most keep backups.
const leastAge = 90 * 24 * time.Hour

// Tombstone says that an identifier was erased. Rows that were received later are not concerned.
type Tombstone struct {
	Kind    Kind      `json:"kind"`
	Digest  string    `json:"digest"`            // of kind and identifier, keyed
	Dataset string    `json:"dataset,omitempty"` // "" for all
	Before  time.Time `json:"before"`            // rows received then or earlier are erased
	Until   time.Time `json:"until"`             // when it may be forgotten
	Table   time.Time `json:"table,omitzero"`    // when the table was changed that has none of the rows; zero while they are being deleted
	Again   bool      `json:"again,omitempty"`   // an older version of the table was put back: the rows are to be deleted again

	key string // in the bucket
}

// Tombstones are all of a service. The methods may be called by many goroutines.
type Tombstones struct {
	e      *engine.Engine
	kv     *engine.Bucket
	secret []byte

	mu       sync.Mutex
	revision uint64 // of current; 0 before the first look
	current  *Set

	logMu sync.Mutex
	log   *Log // nil before somebody asked for it
}

// Open opens the tombstones in an engine.
func Open(ctx context.Context, e *engine.Engine) (*Tombstones, error) {
	kv, err := e.Bucket(ctx, engine.Erasures)
	if err != nil {
		return nil, err
	}
	secret, err := e.Secret(ctx, "erasures")
	if err != nil {
		return nil, err
	}
	return &Tombstones{e: e, kv: kv, secret: secret}, nil
}

// Add notes that an identifier is being erased, before anything is deleted. It returns once that is on stable storage.
// Everybody who asks Current from now on knows. retention is how long the stream keeps frames.
func (t *Tombstones) Add(ctx context.Context, k Kind, identifier, dataset string, now time.Time, retention time.Duration) (Tombstone, error) {
	digest := digest(t.secret, k, identifier)
	s := Tombstone{
		Kind: k, Digest: digest, Dataset: dataset, Before: now.UTC().Truncate(time.Second), Until: now.UTC().Add(max(retention, leastAge)).Truncate(time.Second),
		key: key(digest, dataset),
	}
	return s, t.put(ctx, s)
}

// Finish notes that the rows are deleted, by a change of the table at a time.
func (t *Tombstones) Finish(ctx context.Context, s Tombstone, table time.Time) error {
	s.Table, s.Again = table, false
	return t.put(ctx, s)
}

// Reopen notes that rows may be there again, if the table was changed last at a time before they were deleted: an old
// version of it was put back. Call it before anybody changes the table.
func (t *Tombstones) Reopen(ctx context.Context, table time.Time) error {
	all, err := t.All(ctx)
	if err != nil {
		return err
	}
	for _, s := range all {
		if table.Before(s.Table) {
			s.Again = true
			if err := t.put(ctx, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// Due says whether rows are to be deleted: again, or because a command that began before since did not finish.
func (s *Tombstone) Due(since time.Time) bool {
	return s.Again || s.Table.IsZero() && s.Before.Before(since)
}

// Unfinished says whether the table may have rows still.
func (s *Tombstone) Unfinished() bool { return s.Again || s.Table.IsZero() }

// Adopt adds the tombstones of another service, which must share the secret: of a newer backup, say.
func (t *Tombstones) Adopt(ctx context.Context, stones []Tombstone) error {
	for _, s := range stones {
		s.Again = true
		s.key = key(s.Digest, s.Dataset)
		if err := t.put(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (t *Tombstones) put(ctx context.Context, s Tombstone) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if _, err := t.kv.Put(ctx, s.key, b); err != nil {
		return fmt.Errorf("write a tombstone: %w", err)
	}
	return nil
}

// key is the name of a tombstone. The same identifier of the same dataset has one.
func key(digest, dataset string) string {
	sum := sha256.Sum256([]byte(digest + " " + dataset))
	return hex.EncodeToString(sum[:])
}

func digest(secret []byte, k Kind, identifier string) string {
	switch k {
	case Email, IP:
		identifier = strings.ToLower(identifier)
	case IFA:
		identifier = event.FoldIFA(identifier)
	}
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(k))
	h.Write([]byte{0})
	h.Write([]byte(identifier))
	return hex.EncodeToString(h.Sum(nil))
}

// All returns the tombstones.
func (t *Tombstones) All(ctx context.Context) ([]Tombstone, error) {
	all, _, err := t.read(ctx)
	return all, err
}

// read returns the tombstones and their revision.
func (t *Tombstones) read(ctx context.Context) ([]Tombstone, uint64, error) {
	entries, revision, err := t.kv.All(ctx)
	if err != nil {
		return nil, 0, fmt.Errorf("read tombstones: %w", err)
	}
	out := make([]Tombstone, 0, len(entries))
	for _, e := range entries {
		s := Tombstone{key: e.Key}
		if err := json.Unmarshal(e.Value, &s); err != nil {
			return nil, 0, fmt.Errorf("read a tombstone: %w", err)
		}
		out = append(out, s)
	}
	return out, revision, nil
}

// Forget removes tombstones that nothing can come back for.
func (t *Tombstones) Forget(ctx context.Context, now time.Time) error {
	all, err := t.All(ctx)
	if err != nil {
		return err
	}
	for _, s := range all {
		if now.After(s.Until) {
			if err := t.kv.Delete(ctx, s.key, 0); err != nil && !errors.Is(err, engine.ErrNotFound) {
				return fmt.Errorf("delete a tombstone: %w", err)
			}
		}
	}
	return nil
}

// Current returns the tombstones as they are now. It is one small question to the engine if nothing changed. After an error
// the caller does not know what was erased, and must make no rows.
func (t *Tombstones) Current(ctx context.Context) (*Set, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last, err := t.kv.Revision(ctx)
	if err != nil {
		return nil, fmt.Errorf("read tombstones: %w", err)
	}
	if t.current != nil && last == t.revision {
		return t.current, nil
	}
	all, revision, err := t.read(ctx)
	if err == nil && revision < t.revision {
		err = fmt.Errorf("read tombstones: %w", engine.ErrBehind)
	}
	if err != nil {
		return nil, err
	}
	t.revision, t.current = revision, t.Set(all)
	return t.current, nil
}

// Set makes a set of some tombstones.
func (t *Tombstones) Set(stones []Tombstone) *Set {
	s := &Set{secret: t.secret, stones: map[string][]Tombstone{}, kinds: map[Kind]bool{}}
	for _, stone := range stones {
		s.stones[stone.Digest] = append(s.stones[stone.Digest], stone)
		s.kinds[stone.Kind] = true
		s.latest = max(s.latest, stone.Before.Unix())
	}
	return s
}

// Set is some tombstones. It never changes. The zero value has none.
type Set struct {
	secret []byte
	stones map[string][]Tombstone // by digest
	kinds  map[Kind]bool          // that occur
	latest int64                  // Before of the newest, Unix seconds
}

// Erased says whether a row carries an identifier that was erased after the row was received.
func (s *Set) Erased(r *event.Row) bool {
	if s == nil || r.ReceivedAt > s.latest || len(s.stones) == 0 {
		return false
	}
	for k := range s.kinds {
		id := k.Of(r)
		if id == "" {
			continue
		}
		for _, stone := range s.stones[digest(s.secret, k, id)] {
			if r.ReceivedAt <= stone.Before.Unix() && (stone.Dataset == "" || stone.Dataset == r.DatasetID) {
				return true
			}
		}
	}
	return false
}
