package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Bucket is a key-value store on disk. It keeps the newest value of each key. Its methods may be called by many
// goroutines and stay valid over a restart of the engine.
type Bucket struct {
	name string
	js   jetstream.JetStream
	kv   jetstream.KeyValue
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
func (e *Engine) Bucket(ctx context.Context, k Kind) (b *Bucket, err error) {
	err = e.insist(ctx, func(ctx context.Context) error {
		b, err = e.openBucket(ctx, k)
		return err
	})
	return b, err
}

func (e *Engine) openBucket(ctx context.Context, k Kind) (*Bucket, error) {
	spec := buckets[k]
	kv, err := e.js.KeyValue(ctx, spec.name)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		kv, err = e.js.CreateKeyValue(ctx, e.bucketConfig(k, e.copies()))
		if errors.Is(err, jetstream.ErrBucketExists) { // another node made it in the meantime
			kv, err = e.js.KeyValue(ctx, spec.name)
		}
	}
	if err == nil && e.mode == External {
		kv, err = e.correctBucket(ctx, k, kv)
	}
	if err == nil && e.mode == External {
		// A cluster answers that a bucket is made before a server answers for what is in it.
		if _, err = kv.Get(ctx, "ready"); errors.Is(err, jetstream.ErrKeyNotFound) {
			err = nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", spec.name, translate(err))
	}
	return &Bucket{name: spec.name, js: e.js, kv: kv}, nil
}

func (e *Engine) bucketConfig(k Kind, replicas int) jetstream.KeyValueConfig {
	spec := buckets[k]
	return jetstream.KeyValueConfig{
		Bucket: spec.name, Description: spec.description, History: 1, TTL: spec.age,
		Storage: jetstream.FileStorage, Replicas: max(1, replicas),
	}
}

// correctBucket gives a bucket more copies if it has too few, and the age it must have.
func (e *Engine) correctBucket(ctx context.Context, k Kind, kv jetstream.KeyValue) (jetstream.KeyValue, error) {
	st, err := kv.Status(ctx)
	if err != nil {
		return nil, err
	}
	want := e.bucketConfig(k, max(st.Config().Replicas, e.copies()))
	if st.Config().Replicas == want.Replicas && st.Config().TTL == want.TTL {
		return kv, nil
	}
	return e.js.UpdateKeyValue(ctx, want)
}

// Get returns the value of a key, or ErrNotFound.
func (b *Bucket) Get(ctx context.Context, key string) (Entry, error) {
	kve, err := b.kv.Get(ctx, key)
	if err != nil {
		return Entry{}, translate(err)
	}
	return entry(kve), nil
}

func entry(kve jetstream.KeyValueEntry) Entry {
	return Entry{Key: kve.Key(), Value: kve.Value(), Revision: kve.Revision(), Time: kve.Created()}
}

// Put sets the value of a key and returns its revision.
func (b *Bucket) Put(ctx context.Context, key string, value []byte) (uint64, error) {
	revision, err := b.kv.Put(ctx, key, value)
	return revision, translate(err)
}

// Create sets the value of a key that has none. Else it returns ErrExists.
func (b *Bucket) Create(ctx context.Context, key string, value []byte) (uint64, error) {
	revision, err := b.kv.Create(ctx, key, value)
	return revision, translate(err)
}

// Update sets the value of a key if its revision is still the given one. Else it returns ErrRevision.
func (b *Bucket) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	next, err := b.kv.Update(ctx, key, value, revision)
	return next, changed(err)
}

// Delete removes a key if its revision is still the given one, or in any case if that is 0. A changed one is ErrRevision.
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
	s, err := b.js.Stream(ctx, "KV_"+b.name)
	if err != nil {
		return 0, translate(err)
	}
	return s.CachedInfo().State.LastSeq, nil
}

// All returns every key with its value, as they are when the engine reads them.
func (b *Bucket) All(ctx context.Context) ([]Entry, error) {
	var all []Entry
	w, err := b.kv.WatchAll(ctx, jetstream.IgnoreDeletes())
	if err != nil {
		return nil, translate(err)
	}
	defer func() { _ = w.Stop() }() // an ephemeral reader: if this fails, the engine drops it
	for {
		select {
		case <-ctx.Done():
			return nil, translate(ctx.Err())
		case kve, open := <-w.Updates():
			if !open {
				return nil, ErrInterrupted
			}
			if kve == nil { // everything there was when we asked
				return all, nil
			}
			all = append(all, entry(kve))
		}
	}
}
