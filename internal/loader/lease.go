package loader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	leaseBucket = "leases"
	// leaseTime is for how long a loader that has died keeps others out. Arbitrary: renewed three times within.
	leaseTime = 9 * time.Second
)

// errLeaseLost says that another loader may be at work.
var errLeaseLost = errors.New("the lease is lost")

// lease calls work while this process holds the partition's lease, and ends its context when the lease could not
// be renewed in time. The lease only saves double work: it is the lake's commit that keeps two loaders apart.
func (p *partition) lease(ctx context.Context, work func(context.Context) error) error {
	if p.l.o.Engine == nil {
		return work(ctx)
	}
	kv, err := p.l.o.Engine.JetStream().CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket: leaseBucket, History: 1, TTL: leaseTime, Replicas: p.l.o.Engine.Replicas(),
	})
	if err != nil {
		return fmt.Errorf("open leases: %w", err)
	}
	key := fmt.Sprintf("loader.%d", p.id)
	revision, err := take(ctx, kv, key, p.l.o.Owner)
	if err != nil {
		return err
	}
	working, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		revision = p.renew(working, stop, kv, key, revision)
	}()
	err = work(working)
	if cause := context.Cause(working); errors.Is(cause, errLeaseLost) {
		err = cause
	}
	stop(nil)
	<-renewed
	if !errors.Is(err, errLeaseLost) {
		gone, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = kv.Delete(gone, key, jetstream.LastRevision(revision)) // else it runs out
	}
	return err
}

// take gets the lease if nobody has it, or if it is our own from before a crash.
func take(ctx context.Context, kv jetstream.KeyValue, key, owner string) (uint64, error) {
	revision, err := kv.Create(ctx, key, []byte(owner))
	if !errors.Is(err, jetstream.ErrKeyExists) {
		return revision, err
	}
	entry, err := kv.Get(ctx, key)
	if err != nil {
		return 0, errLeaseLost // it ran out between the two, or the engine is away: try again
	}
	if owner == "" || string(entry.Value()) != owner {
		return 0, errLeaseLost
	}
	revision, err = kv.Update(ctx, key, []byte(owner), entry.Revision())
	if err != nil {
		return 0, errLeaseLost
	}
	return revision, nil
}

// renew keeps the lease until ctx ends, and stops the work when it has not been able to for too long.
func (p *partition) renew(
	ctx context.Context, stop context.CancelCauseFunc, kv jetstream.KeyValue, key string, revision uint64,
) uint64 {
	const every = leaseTime / 4
	good := p.l.o.Now()
	for {
		select {
		case <-ctx.Done():
			return revision
		case <-time.After(every):
		}
		attempt, cancel := context.WithTimeout(ctx, every)
		next, err := kv.Update(attempt, key, []byte(p.l.o.Owner), revision)
		cancel()
		switch {
		case err == nil:
			revision, good = next, p.l.o.Now()
		case errors.Is(err, jetstream.ErrKeyRevisionMismatch) || p.l.o.Now().Sub(good) > leaseTime-every:
			stop(errLeaseLost)
			return revision
		}
	}
}
