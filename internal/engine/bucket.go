package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Bucket is a key-value store on disk. It keeps the newest value of each key. Its methods may be called by many
// goroutines and stay valid over a restart of the engine.
type Bucket struct {
	kv  jetstream.KeyValue // for writing
	log *Partition         // the JetStream stream that holds it, for reading

	seen atomic.Uint64 // the highest revision that was written or read here
}

// errBehind is the answer of a leader that lacks what was there before: a server whose disk was replaced can become
// leader before it has its copy, and lacks it for a moment.
var errBehind = fmt.Errorf("%w: the leader of a bucket has not all of its entries yet", ErrUnavailable)

// note remembers a revision that is there.
func (b *Bucket) note(revision uint64) {
	for {
		seen := b.seen.Load()
		if revision <= seen || b.seen.CompareAndSwap(seen, revision) {
			return
		}
	}
}

// Entry is the value of a key. A later change of any key in the bucket has a higher Revision.
type Entry struct {
	Key      string
	Value    []byte
	Revision uint64
	Time     time.Time // when it was set
}

// Bucket opens a bucket, and makes it where there is none. The copies of an existing bucket may grow to
// Options.Replicas; they never become fewer.
func (e *Engine) Bucket(ctx context.Context, k Kind) (*Bucket, error) {
	return insistOn(ctx, func(ctx context.Context) (*Bucket, error) { return e.openBucket(ctx, k) })
}

func (e *Engine) openBucket(ctx context.Context, k Kind) (*Bucket, error) {
	spec := buckets[k]
	kv, err := e.js.KeyValue(ctx, spec.name)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		kv, err = e.js.CreateKeyValue(ctx, e.bucketConfig(k, e.Copies()))
		if errors.Is(err, jetstream.ErrBucketExists) { // another node made it in the meantime
			kv, err = e.js.KeyValue(ctx, spec.name)
		}
	}
	if err == nil {
		kv, err = e.correctBucket(ctx, k, kv)
	}
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", spec.name, translate(err))
	}
	b := e.bucket(kv)
	if e.mode == External {
		// A cluster answers that a bucket is made before a server answers for what is in it.
		if _, err = b.Get(ctx, "ready"); err != nil && !errors.Is(err, ErrNotFound) {
			return nil, fmt.Errorf("open bucket %s: %w", spec.name, err)
		}
	}
	return b, nil
}

func (e *Engine) bucket(kv jetstream.KeyValue) *Bucket {
	return &Bucket{kv: kv, log: &Partition{e: e, rc: e.nc, name: "KV_" + kv.Bucket()}}
}

func (e *Engine) bucketConfig(k Kind, replicas int) jetstream.KeyValueConfig {
	spec := buckets[k]
	return jetstream.KeyValueConfig{
		Bucket: spec.name, Description: spec.description, History: 1, TTL: spec.age,
		Storage: jetstream.FileStorage, Replicas: max(1, replicas), Metadata: withVersion(nil),
	}
}

// correctBucket gives a bucket of a version that this program knows more copies if it has too few, and the age it must
// have.
func (e *Engine) correctBucket(ctx context.Context, k Kind, kv jetstream.KeyValue) (jetstream.KeyValue, error) {
	st, err := kv.Status(ctx)
	if err != nil {
		return nil, err
	}
	if err := checkVersion(st.Config().Metadata); err != nil {
		return nil, err
	}
	want := e.bucketConfig(k, max(st.Config().Replicas, e.Copies()))
	if st.Config().Replicas == want.Replicas && st.Config().TTL == want.TTL {
		return kv, nil
	}
	return e.js.UpdateKeyValue(ctx, want)
}

// Get returns the value of a key, or ErrNotFound. The leader answers: a replica that lags has an older value, or none.
func (b *Bucket) Get(ctx context.Context, key string) (Entry, error) {
	last, deleted, err := b.last(ctx, key)
	if deleted {
		return Entry{}, ErrNotFound
	}
	return last, err
}

// last returns the newest entry of a key, also the one that its deletion left.
func (b *Bucket) last(ctx context.Context, key string) (_ Entry, deleted bool, _ error) {
	m, err := b.log.askLeader(ctx, getRequest{LastFor: b.prefix() + key})
	if err != nil {
		return Entry{}, false, err
	}
	e, deleted := b.entry(&m)
	if e.Key != key { // it was a pattern
		return Entry{}, false, ErrNotFound
	}
	return e, deleted, nil
}

// prefix is what the subjects of the bucket begin with; the key follows.
func (b *Bucket) prefix() string { return "$KV." + b.kv.Bucket() + "." }

func (b *Bucket) entry(m *Message) (_ Entry, deleted bool) {
	return Entry{Key: strings.TrimPrefix(m.subject, b.prefix()), Value: m.Data, Revision: m.Seq, Time: m.Time},
		m.header.Get("KV-Operation") != "" || m.header.Get(jetstream.MarkerReasonHeader) != ""
}

// Put sets the value of a key and returns its revision.
func (b *Bucket) Put(ctx context.Context, key string, value []byte) (uint64, error) {
	revision, err := b.kv.Put(ctx, key, value)
	b.note(revision)
	return revision, translate(err)
}

// Create sets the value of a key that has none. Else it returns ErrExists.
func (b *Bucket) Create(ctx context.Context, key string, value []byte) (uint64, error) {
	revision, err := b.Update(ctx, key, value, 0)
	if !errors.Is(err, ErrRevision) {
		return revision, err
	}
	last, deleted, err := b.last(ctx, key)
	switch {
	case errors.Is(err, ErrNotFound), err == nil && !deleted: // not found: it is on its way, or has just run out
		return 0, ErrExists
	case err != nil:
		return 0, err
	}
	revision, err = b.Update(ctx, key, value, last.Revision)
	if errors.Is(err, ErrRevision) {
		err = ErrExists
	}
	return revision, err
}

// Update sets the value of a key if its revision is still the given one. Else it returns ErrRevision.
func (b *Bucket) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	next, err := b.kv.Update(ctx, key, value, revision)
	b.note(next)
	return next, changed(err)
}

// Set is Update where the revision is that of a value, and Create where it is 0.
func (b *Bucket) Set(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	if revision == 0 {
		return b.Create(ctx, key, value)
	}
	return b.Update(ctx, key, value, revision)
}

// Change sets the value of a key to what change makes of the one that it has, nil for none. If another process was
// first, it begins again with what is there then. An error of change, or a nil value, changes nothing.
func (b *Bucket) Change(ctx context.Context, key string, change func(before []byte) ([]byte, error)) error {
	for {
		now, err := b.Get(ctx, key)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		value, err := change(now.Value)
		if err != nil || value == nil {
			return err
		}
		_, err = b.Set(ctx, key, value, now.Revision)
		if !errors.Is(err, ErrExists) && !errors.Is(err, ErrRevision) {
			return err
		}
	}
}

// Delete removes a key if its revision is still the given one, or in any case if that is 0. A changed one is
// ErrRevision.
func (b *Bucket) Delete(ctx context.Context, key string, revision uint64) error {
	var opts []jetstream.KVDeleteOpt
	if revision > 0 {
		opts = append(opts, jetstream.LastRevision(revision))
	}
	return changed(b.kv.Delete(ctx, key, opts...))
}

// changed is translate for a write that expects a revision.
func changed(err error) error {
	if err = translate(err); errors.Is(err, ErrExists) {
		return ErrRevision
	}
	return err
}

// Revision returns the highest revision of the bucket: a change of any key raises it.
func (b *Bucket) Revision(ctx context.Context) (uint64, error) {
	st, err := b.log.State(ctx)
	return st.LastSeq, err
}

// Created returns when the bucket was made: another one under the same name has another time.
func (b *Bucket) Created(ctx context.Context) (time.Time, error) {
	st, err := b.log.State(ctx)
	return st.Created, err
}

// Size returns about how many bytes the bucket holds.
func (b *Bucket) Size(ctx context.Context) (int, error) {
	st, err := b.log.State(ctx)
	return int(st.Bytes), err
}

// All returns every key with its value, and the revision that this is the state of, or 0 without any.
func (b *Bucket) All(ctx context.Context) ([]Entry, uint64, error) {
	found := map[string]Entry{}
	revision, err := b.Scan(ctx, func(e Entry, deleted bool) error {
		if deleted {
			delete(found, e.Key)
		} else {
			found[e.Key] = e
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	return slices.SortedFunc(maps.Values(found), func(a, b Entry) int { return cmp.Compare(a.Revision, b.Revision) }),
		revision, nil
}

// Scan calls yield with every entry in the order of revisions, and returns the revision that this is the state of, or 0
// without any. A key that is set or deleted meanwhile is yielded again. Everything that was written when it was called
// is yielded: the replicas that lag are asked too, but the leader says where the end is.
//
// A replica has its entries in order. So if it has an entry, it has every earlier one that is still the newest of its
// key; what it lacks is behind the last entry that it gives. Whoever answers next is asked for what is behind that, and
// when nobody has more, the leader is. A leader that is behind what was seen before is ErrUnavailable.
func (b *Bucket) Scan(ctx context.Context, yield func(e Entry, deleted bool) error) (uint64, error) {
	return b.ScanAfter(ctx, 0, yield)
}

// ScanAfter is Scan of what was set or deleted after a revision. Where there is nothing it returns that revision.
func (b *Bucket) ScanAfter(ctx context.Context, after uint64, yield func(e Entry, deleted bool) error) (uint64, error) {
	revision := after
	r, err := b.log.Reader(256, 1<<20)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	var stop error
	take := func(m Message) {
		e, deleted := b.entry(&m)
		revision = e.Revision
		if stop == nil {
			stop = yield(e, deleted)
		}
	}
	for {
		before := revision
		err := r.batch(ctx, revision+1, take)
		if err != nil && !errors.Is(err, ErrInterrupted) {
			return 0, err
		}
		if stop != nil {
			return 0, stop
		}
		if revision > before {
			continue
		}
		m, err := b.log.askLeader(ctx, getRequest{Seq: revision + 1, NextFor: b.prefix() + ">"})
		if errors.Is(err, ErrNotFound) {
			break
		}
		if err != nil {
			return 0, err
		}
		take(m)
	}
	// its newest entries have ended by their age, or the leader lacks them
	if revision == after || revision < b.seen.Load() {
		last, err := b.Revision(ctx)
		if err != nil {
			return 0, err
		}
		if last < max(after, b.seen.Load()) {
			return 0, errBehind
		}
	}
	b.note(revision)
	return revision, nil
}
