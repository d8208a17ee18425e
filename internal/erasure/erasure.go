// Package erasure keeps what was erased from coming back: a tombstone for each erased identifier and each deleted
// dataset, in the engine.
//
// The stream holds frames for days, and an old version of a table may be put back. Whoever makes rows of either asks
// here first. A tombstone has no identifier, only a digest with a key that the engine holds.
package erasure

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"sluice/internal/engine"
	"sluice/internal/identifier"
)

// Kind is the kind of an identifier.
type Kind = identifier.Kind

// LeastAge is how long a tombstone is kept at least, however short the stream: an old version of a table may be put
// back in this time. Arbitrary: longer than most keep backups.
const LeastAge = 90 * 24 * time.Hour

// Tombstone says that identifiers were erased, or a dataset with everything in it. Rows that were received later are
// not concerned.
type Tombstone struct {
	Kinds   []Kind    `json:"kinds,omitempty"`   // of the identifiers
	Digests []byte    `json:"digests,omitempty"` // the first 16 bytes of each digest of kind and identifier, keyed; sorted
	Dataset string    `json:"dataset,omitempty"` // "" for all
	Whole   bool      `json:"whole,omitempty"`   // everything of the dataset, whatever identifiers it carries
	Began   time.Time `json:"began,omitzero"`    // of a whole dataset: when its deletion began
	Before  time.Time `json:"before"`            // rows received then or earlier are erased
	Until   time.Time `json:"until"`             // when it may be forgotten
	// when the table was changed that has none of the rows; zero while they are being deleted
	Table time.Time `json:"table,omitzero"`
	// an older version of the table was put back: the rows are to be deleted again
	Again bool `json:"again,omitempty"`

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

// Add notes that the identifiers of a list are being erased, before anything is deleted. It returns once that is on
// stable storage. Everybody who asks Current from now on knows. Rows that were received up to at are erased. retention
// is how long the stream keeps frames.
func (t *Tombstones) Add(ctx context.Context, l *List, dataset string, at time.Time, retention time.Duration) (
	[]Tombstone, error,
) {
	stones := l.Tombstones(dataset, at, retention)
	for _, s := range stones {
		if err := t.put(ctx, s); err != nil {
			return nil, err
		}
	}
	return stones, nil
}

// AddDataset is Add for everything of a dataset that was deleted at a time, and whose id nobody can use again before
// free. So everything that is received until then is of the deleted one, whatever the clock of a node says. A deletion
// that is noted stays as it is.
func (t *Tombstones) AddDataset(ctx context.Context, dataset string, at, free time.Time) error {
	s := newTombstone(dataset, at, free.Sub(at))
	s.Whole, s.Began, s.Before = true, s.Before, free.UTC().Add(-time.Second)
	s.key = s.name()
	all, err := t.All(ctx)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(known Tombstone) bool { return known.key == s.key && known.Began.Equal(s.Began) }) {
		return nil
	}
	return t.put(ctx, s)
}

func newTombstone(dataset string, at time.Time, retention time.Duration) Tombstone {
	return Tombstone{
		Dataset: dataset, Before: at.UTC().Truncate(time.Second),
		Until: at.UTC().Add(max(retention, LeastAge)).Truncate(time.Second),
	}
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
	began := s.Before
	if s.Whole {
		began = s.Began
	}
	return s.Again || s.Table.IsZero() && began.Before(since)
}

// Unfinished says whether the table may have rows still.
func (s *Tombstone) Unfinished() bool { return s.Again || s.Table.IsZero() }

// Adopt adds the tombstones of another service, which must share the secret: of a newer backup, say.
func (t *Tombstones) Adopt(ctx context.Context, stones []Tombstone) error {
	for _, s := range stones {
		s.Again = true
		s.key = s.name()
		if err := t.put(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// put writes a tombstone. One of the same name that reaches further stays: who wrote it erases the same and more, and
// rows that were received in between are deleted already, or about to be. Without it they would come back.
func (t *Tombstones) put(ctx context.Context, s Tombstone) error {
	err := t.kv.Change(ctx, s.key, func(there []byte) ([]byte, error) {
		var now Tombstone
		if there != nil {
			if err := json.Unmarshal(there, &now); err != nil {
				return nil, err
			}
		}
		if now.Before.After(s.Before) {
			return nil, nil
		}
		return json.Marshal(s)
	})
	if err != nil {
		return fmt.Errorf("write a tombstone: %w", err)
	}
	return nil
}

// name is where a tombstone is in the bucket. The same identifiers of the same dataset have one.
func (s *Tombstone) name() string {
	digest := ""
	if len(s.Digests) > 0 {
		sum := sha256.Sum256(s.Digests)
		digest = hex.EncodeToString(sum[:])
	}
	sum := sha256.Sum256([]byte(digest + " " + s.Dataset))
	return hex.EncodeToString(sum[:])
}

// UnmarshalJSON also reads the older form of a single identifier, with all of its digest in hex.
func (s *Tombstone) UnmarshalJSON(b []byte) error {
	type form Tombstone
	var read struct {
		form
		Kind   Kind   `json:"kind"`
		Digest string `json:"digest"`
	}
	err := json.Unmarshal(b, &read)
	if err == nil && read.Kind != "" {
		sum, bad := hex.DecodeString(read.Digest)
		if bad != nil || len(sum) < len(digest{}) {
			return errors.New("the digest is damaged")
		}
		read.Kinds, read.Digests = []Kind{read.Kind}, sum[:len(digest{})]
	}
	read.key = s.key
	*s = Tombstone(read.form)
	return err
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

// Current returns the tombstones as they are now. It is one small question to the engine if nothing changed. After an
// error the caller does not know what was erased, and must make no rows.
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
