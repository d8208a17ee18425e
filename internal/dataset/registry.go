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
	"slices"
	"sync/atomic"
	"time"

	"sluice/internal/engine"
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
	replica
	o    Options
	snap atomic.Pointer[snapshot]
}

// snapshot is a copy of all datasets. It never changes; a new one takes its place.
type snapshot struct {
	datasets []*Dataset // by id
	keys     map[string]*entry
}

// entry is what Authenticate needs to know of a key.
type entry struct {
	hash    [32]byte
	dataset *Dataset
	until   int64         // Unix nanoseconds from which it opens nothing
	used    *atomic.Int64 // Unix seconds of the last use, the same over all snapshots
	tried   *trial        // the same over all snapshots
}

// trial counts uses of a key after its end.
type trial struct {
	last  atomic.Int64 // Unix seconds
	count atomic.Uint64
}

// Open makes the bucket where there is none, reads all datasets, and returns the registry. Without Run it still sees
// what it changes itself, and Read and List see everything.
func Open(ctx context.Context, e *engine.Engine, o Options) (*Registry, error) {
	o.setDefaults()
	kv, err := e.Bucket(ctx, engine.Datasets)
	if err != nil {
		return nil, fmt.Errorf("open datasets: %w", err)
	}
	r := &Registry{o: o, replica: replica{e: e, kv: kv, what: "datasets", now: o.Now, log: o.Log}}
	r.take = r.replace
	r.snap.Store(&snapshot{})
	if err := r.load(ctx); err != nil {
		return nil, fmt.Errorf("open datasets: %w", err)
	}
	return r, nil
}

// replace swaps in what was read. A record that cannot be read closes its own dataset and no other.
func (r *Registry) replace(records []engine.Entry) {
	all := make([]*Dataset, 0, len(records))
	for _, record := range records {
		d, err := decode(record.Value)
		if err != nil {
			r.o.Log.Error("dataset record cannot be read", "record", record.Key, "error", err)
			continue
		}
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b *Dataset) int { return cmp.Compare(a.ID, b.ID) })
	r.snap.Store(r.index(all))
}

// index makes a snapshot, taking over when each key was last used.
func (r *Registry) index(all []*Dataset) *snapshot {
	old := r.snap.Load()
	s := &snapshot{datasets: all, keys: make(map[string]*entry, 2*len(all))}
	for _, d := range all {
		for i := range d.Keys {
			k := &d.Keys[i]
			en := &entry{hash: k.Hash, dataset: d, until: 1<<63 - 1}
			if !k.Expires.IsZero() {
				en.until = k.Expires.UnixNano()
			}
			if d.Disabled || !k.Revoked.IsZero() {
				en.until = 0
			}
			if o := old.keys[k.ID]; o != nil {
				en.used, en.tried = o.used, o.tried
			} else {
				en.used, en.tried = new(atomic.Int64), new(trial)
			}
			s.keys[k.ID] = en
		}
	}
	return s
}

// nobody is compared with when a key is unknown, so that the answer takes as long as for a wrong one.
var nobody = &entry{used: new(atomic.Int64), tried: new(trial)}

// Authenticate returns the dataset that a presented key opens, and the key's id. It looks only at memory, takes the
// same time for a wrong key as for an unknown one, and allocates nothing. Its only error is ErrKey.
func (r *Registry) Authenticate(presented string) (*Dataset, string, error) {
	id, secret, ok := parseKey(presented)
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
		en.tried.last.Store(now.Unix())
		en.tried.count.Add(1)
		return nil, "", ErrKey
	}
	// Once a second is exact enough, and keeps many cores from writing to one place.
	if sec := now.Unix(); en.used.Load() != sec {
		en.used.Store(sec)
	}
	return en.dataset, id, nil
}

// List returns all datasets by id, as they are stored now.
func (r *Registry) List(ctx context.Context) ([]*Dataset, error) {
	if err := r.refresh(ctx); err != nil {
		return nil, fmt.Errorf("list datasets: %w", err)
	}
	return r.snap.Load().datasets, nil
}

// Datasets returns the copy in memory, by id.
func (r *Registry) Datasets() []*Dataset { return r.snap.Load().datasets }

// Read returns one dataset as it is stored now, or ErrNotFound.
func (r *Registry) Read(ctx context.Context, id string) (*Dataset, error) {
	d, _, err := r.read(ctx, id)
	return d, err
}

func (r *Registry) read(ctx context.Context, id string) (*Dataset, uint64, error) {
	if !ValidID(id) {
		return nil, 0, ErrNotFound
	}
	kve, err := r.kv.Get(ctx, recordKey(id))
	if errors.Is(err, engine.ErrNotFound) {
		return nil, 0, ErrNotFound
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read dataset %s: %w", id, err)
	}
	d, err := decode(kve.Value)
	if err != nil {
		return nil, 0, fmt.Errorf("read dataset %s: %w", id, err)
	}
	return d, kve.Revision, nil
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

// Used returns when each key was last used, to the second, as far as this process knows.
func (r *Registry) Used() map[string]time.Time {
	used := map[string]time.Time{}
	for id, en := range r.snap.Load().keys {
		if sec := en.used.Load(); sec != 0 {
			used[id] = time.Unix(sec, 0).UTC()
		}
	}
	return used
}

// Tried says that a key was used after it was revoked or had expired, or while its dataset was disabled.
type Tried struct {
	Last  time.Time // to the second
	Count uint64    // since this process began
}

// Tried returns the keys that were used after their end, by id, as far as this process knows. A key counts only if it is the
// right one: nobody can add to it by guessing.
func (r *Registry) Tried() map[string]Tried {
	out := map[string]Tried{}
	for id, en := range r.snap.Load().keys {
		if sec := en.tried.last.Load(); sec != 0 {
			out[id] = Tried{time.Unix(sec, 0).UTC(), en.tried.count.Load()}
		}
	}
	return out
}

// Restore takes over times of last use that were kept from an earlier run; a later one known here stays.
func (r *Registry) Restore(used map[string]time.Time) {
	keys := r.snap.Load().keys
	for id, at := range used {
		if en := keys[id]; en != nil {
			if known := en.used.Load(); at.Unix() > known {
				en.used.CompareAndSwap(known, at.Unix())
			}
		}
	}
}

// Stats are the registry's numbers.
type Stats struct {
	Datasets, Disabled int
	LiveKeys           int
	Loads, Failures    uint64    // times everything was read; times the engine did not answer
	Synced             time.Time // when the copy was last known to be current
}

// Stats returns the numbers of now.
func (r *Registry) Stats() Stats {
	now := r.o.Now()
	st := Stats{Loads: r.loads.Load(), Failures: r.failures.Load(), Synced: time.Unix(0, r.synced.Load()).UTC()}
	for _, d := range r.snap.Load().datasets {
		st.Datasets++
		st.LiveKeys += d.live(now)
		if d.Disabled {
			st.Disabled++
		}
	}
	return st
}
