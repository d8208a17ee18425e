package dataset

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/engine"
	"sluice/internal/replica"
)

// Options are what a registry needs to know.
type Options struct {
	Now func() time.Time // nil means time.Now
	Log *slog.Logger     // nil means nothing is logged
}

func (o *Options) setDefaults() {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}

// Registry knows the datasets. Its methods may be called by many goroutines.
type Registry struct {
	replica replica.Replica
	o       Options
	uses    *engine.Bucket
	snap    atomic.Pointer[snapshot]

	// What was read; the replica alone uses it.
	records  map[string]*Dataset // by record
	created  time.Time           // of the bucket
	revision uint64
}

// snapshot is a copy of all datasets. It never changes; a new one takes its place.
type snapshot struct {
	datasets []*Dataset // by id
	keys     map[string]*entry
}

// entry is what Authenticate needs to know of a key.
type entry struct {
	id      string
	hash    [32]byte
	dataset *Dataset
	until   int64 // Unix nanoseconds from which it opens nothing
	use     *use  // the same over all snapshots
}

// Open makes the bucket where there is none, reads all datasets, and returns the registry. Without Run it still sees
// what it changes itself, and Read and List see everything.
func Open(ctx context.Context, e *engine.Engine, o Options) (*Registry, error) {
	o.setDefaults()
	kv, err := e.Bucket(ctx, engine.Datasets)
	if err != nil {
		return nil, fmt.Errorf("open datasets: %w", err)
	}
	uses, err := e.Bucket(ctx, engine.KeyUse)
	if err != nil {
		return nil, fmt.Errorf("open the use of keys: %w", err)
	}
	r := &Registry{
		o: o, uses: uses, records: map[string]*Dataset{},
		replica: replica.Replica{Engine: e, Bucket: kv, What: "datasets", Now: o.Now, Log: o.Log},
	}
	r.replica.Read = r.changes
	r.snap.Store(&snapshot{})
	if err := r.replica.Load(ctx); err != nil {
		return nil, fmt.Errorf("open datasets: %w", err)
	}
	return r, nil
}

// Run keeps the copy in memory current, and the use of keys in the engine, until ctx ends.
func (r *Registry) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	var keeper sync.WaitGroup
	keeper.Go(func() { r.keepUse(ctx) })
	defer keeper.Wait()
	defer stop()
	return r.replica.Run(ctx)
}

// changes reads what has changed since the last time, at first everything: there may be thousands of datasets.
func (r *Registry) changes(ctx context.Context) (uint64, func(), error) {
	created, err := r.replica.Bucket.Created(ctx)
	if err != nil {
		return 0, nil, err
	}
	after := r.revision
	if !created.Equal(r.created) { // somebody has made the bucket anew
		after = 0
	}
	changed := map[string]*Dataset{} // nil where there is none any more
	revision, err := r.replica.Bucket.ScanAfter(ctx, after, func(e engine.Entry, deleted bool) error {
		changed[e.Key] = nil
		if deleted {
			return nil
		}
		d, err := decode(e.Value)
		if err != nil { // it closes its own dataset and no other
			r.o.Log.Error("dataset record cannot be read", "record", e.Key, "error", err)
			return nil
		}
		if d.Deleted == nil {
			changed[e.Key] = d
		}
		return nil
	})
	return revision, func() {
		if after == 0 {
			clear(r.records)
		}
		maps.Copy(r.records, changed)
		maps.DeleteFunc(r.records, func(_ string, d *Dataset) bool { return d == nil })
		r.created, r.revision = created, revision
		r.snap.Store(r.index(slices.SortedFunc(maps.Values(r.records), func(a, b *Dataset) int {
			return cmp.Compare(a.ID, b.ID)
		})))
	}, err
}

// index makes a snapshot, taking over when each key was last used.
func (r *Registry) index(all []*Dataset) *snapshot {
	old := r.snap.Load()
	s := &snapshot{datasets: all, keys: make(map[string]*entry, 2*len(all))}
	for _, d := range all {
		for i := range d.Keys {
			k := &d.Keys[i]
			en := &entry{id: k.ID, hash: k.Hash, dataset: d, until: 1<<63 - 1}
			if !k.Expires.IsZero() {
				en.until = k.Expires.UnixNano()
			}
			if d.Disabled || !k.Revoked.IsZero() {
				en.until = 0
			}
			if o := old.keys[k.ID]; o != nil {
				en.use = o.use
			} else {
				en.use = new(use)
			}
			s.keys[k.ID] = en
		}
	}
	return s
}

// nobody is compared with when a key is unknown, so that the answer takes as long as for a wrong one.
var nobody = &entry{use: new(use)}

// Authenticate returns the dataset that a presented key opens, and the key's id. It looks only at memory, takes the
// same time for a wrong key as for an unknown one, and allocates nothing. Its only error is ErrKey. The right secret of
// a key that has ended, or of a disabled dataset, is ErrKey with the key's id, for the operator's log. The id shares no
// memory with what was presented: callers keep it, and the secret must not stay with it.
func (r *Registry) Authenticate(presented string) (*Dataset, string, error) {
	id, secret, ok := parseSecret(keyPrefix, presented)
	if !ok {
		return nil, "", ErrKey
	}
	en := r.snap.Load().keys[id]
	if en == nil {
		en = nobody
	}
	hash := sha256.Sum256(secret[:])
	now := r.o.Now()
	if subtle.ConstantTimeCompare(hash[:], en.hash[:]) != 1 {
		return nil, "", ErrKey
	}
	if now.UnixNano() >= en.until {
		note(&en.use.rejected, now)
		return nil, en.id, ErrKey
	}
	note(&en.use.accepted, now)
	return en.dataset, en.id, nil
}

// List returns all datasets by id, as they are stored now.
func (r *Registry) List(ctx context.Context) ([]*Dataset, error) {
	if err := r.replica.Refresh(ctx); err != nil {
		return nil, fmt.Errorf("list datasets: %w", err)
	}
	return r.snap.Load().datasets, nil
}

// Datasets returns the copy in memory, by id.
func (r *Registry) Datasets() []*Dataset { return r.snap.Load().datasets }

// Retentions are how long the events of datasets are kept that have a retention of their own, in the copy in memory.
func (r *Registry) Retentions() map[string]time.Duration {
	of := map[string]time.Duration{}
	for _, d := range r.Datasets() {
		if d.RetentionDays > 0 {
			of[d.ID] = d.Retention()
		}
	}
	return of
}

// Known says whether the copy in memory has a dataset.
func (r *Registry) Known(id string) bool {
	_, found := slices.BinarySearchFunc(r.Datasets(), id, func(d *Dataset, id string) int { return cmp.Compare(d.ID, id) })
	return found
}

// Read returns one dataset as it is stored now, or ErrNotFound.
func (r *Registry) Read(ctx context.Context, id string) (d *Dataset, err error) {
	if !ValidID(id) {
		return nil, ErrNotFound
	}
	kve, err := r.replica.Bucket.Get(ctx, recordKey(id))
	if errors.Is(err, engine.ErrNotFound) {
		return nil, ErrNotFound
	}
	if err == nil {
		d, err = decode(kve.Value)
	}
	if err != nil {
		return nil, fmt.Errorf("read dataset %s: %w", id, err)
	}
	if d.Deleted != nil {
		return nil, ErrNotFound
	}
	return d, nil
}

// recordKey spells a dataset's id in the characters the engine allows.
func recordKey(id string) string { return base64.RawURLEncoding.EncodeToString([]byte(id)) }

func decode(data []byte) (*Dataset, error) {
	var s stored
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, err
	}
	return s.dataset()
}

// Stats are the registry's numbers.
type Stats struct {
	Datasets, Disabled int
	LiveKeys           int
	replica.Stats
}

// Stats returns the numbers of now.
func (r *Registry) Stats() Stats {
	now := r.o.Now()
	st := Stats{Stats: r.replica.Stats()}
	for _, d := range r.snap.Load().datasets {
		st.Datasets++
		st.LiveKeys += d.live(now)
		if d.Disabled {
			st.Disabled++
		}
	}
	return st
}
