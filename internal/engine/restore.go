package engine

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

var (
	// ErrUnfinished means that a restore has not brought everything into the external engine yet.
	ErrUnfinished = errors.New("a restore into these NATS servers has not finished: if none is running, run sluice " +
		"restore again with the same flags")
	// ErrOccupied means that nothing can be restored into an engine because of what that holds.
	ErrOccupied = errors.New("the NATS servers hold data of Sluice's already: restore into servers, or an account, " +
		"without any")
)

// restoreLease keeps two restores from filling one engine.
const restoreLease = "restore"

// Restore lets fill store everything of a service in an engine that holds nothing of Sluice's. An external one becomes
// a cluster, whose record fill completes. The order of writes there, and what a crash behind each leaves:
//
//  1. What an interrupted restore has left is deleted, but for its record.
//  2. The record says that the restore has not finished: no node and no command uses the engine.
//  3. fill.
//  4. The record of the cluster takes the place of that one.
//
// After a crash the same again begins anew. The engine was opened with Options.Restore.
func (e *Engine) Restore(ctx context.Context, fill func(context.Context, *Record) error) error {
	if e.mode != External {
		return fill(ctx, &Record{})
	}
	if _, err := e.vacant(ctx); err != nil { // before anything is written
		return err
	}
	err := e.WithLease(ctx, restoreLease, func(ctx context.Context) error {
		b, revision, err := e.beginRestore(ctx)
		if err != nil {
			return err
		}
		r := Record{Cluster: rand.Text(), Replicas: e.o.Replicas}
		if err := fill(ctx, &r); err != nil {
			return err
		}
		r.MaxKeys = cmp.Or(r.MaxKeys, DefaultMaxKeys)
		data, err := json.Marshal(r)
		if err == nil {
			_, err = b.Update(ctx, recordKey, data, revision)
		}
		return err
	})
	if errors.Is(err, ErrLeaseLost) {
		err = fmt.Errorf("another restore into these NATS servers runs, or was killed within the last %v: %w", leaseAge, err)
	}
	return err
}

// vacant returns what an interrupted restore has left in the engine, or ErrOccupied if there is something else.
func (e *Engine) vacant(ctx context.Context) ([]string, error) {
	names, err := e.ourStreams(ctx)
	if err != nil {
		return nil, err
	}
	_, err = e.Record(ctx)
	switch {
	case errors.Is(err, ErrUnfinished):
		return names, nil
	case err == nil:
		return nil, ErrOccupied
	case !errors.Is(err, ErrNotFound):
		return nil, err
	}
	for _, name := range names { // one that got no further may have left these two
		if name != settingsStream && name != leasesStream {
			return nil, fmt.Errorf("%w: %s", ErrOccupied, name)
		}
	}
	return names, nil
}

// beginRestore does steps 1 and 2. It returns the revision of the record.
func (e *Engine) beginRestore(ctx context.Context) (*Bucket, uint64, error) {
	names, err := e.vacant(ctx)
	if err != nil {
		return nil, 0, err
	}
	for _, name := range names {
		if name == settingsStream || name == leasesStream {
			continue
		}
		if err := e.js.DeleteStream(ctx, name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil, 0, fmt.Errorf("delete what an interrupted restore has left: %w", translate(err))
		}
	}
	b, err := e.Bucket(ctx, Settings)
	if err != nil {
		return nil, 0, fmt.Errorf("with %d replicas: %w", e.o.Replicas, err)
	}
	left, _, err := b.All(ctx)
	for _, entry := range left {
		if err == nil && entry.Key != recordKey {
			err = b.Delete(ctx, entry.Key, 0)
		}
	}
	if err != nil {
		return nil, 0, err
	}
	if _, err := b.Create(ctx, recordKey, []byte(`{"unfinished":true}`)); err != nil && !errors.Is(err, ErrExists) {
		return nil, 0, err
	}
	found, err := b.Get(ctx, recordKey)
	if err == nil {
		if _, err = decodeRecord(found.Value); errors.Is(err, ErrUnfinished) {
			return b, found.Revision, nil
		}
		err = errors.Join(fmt.Errorf("%w: a node was started on them just now", ErrOccupied), err)
	}
	return nil, 0, err
}

// The streams of the two buckets that a restore does not delete.
var (
	settingsStream = "KV_" + buckets[Settings].name
	leasesStream   = "KV_" + buckets[leases].name
)

// ourStreams are the names of everything that Sluice stores in the engine.
func (e *Engine) ourStreams(ctx context.Context) (names []string, err error) {
	lister := e.js.StreamNames(ctx)
	for name := range lister.Name() {
		if strings.HasPrefix(name, "SLUICE_") || strings.HasPrefix(name, "KV_SLUICE_") {
			names = append(names, name)
		}
	}
	if err := lister.Err(); err != nil && !errors.Is(err, jetstream.ErrEndOfData) {
		return nil, translate(err)
	}
	return names, nil
}

// JournalCopy describes a journal, so that the same one can be made in another engine.
type JournalCopy struct {
	First   uint64    `json:"first"`            // number of the oldest entry; one more than the newest where there is none
	Created time.Time `json:"created,omitzero"` // see State; zero for a copy of a journal that goes on where it is
}

// RestoreJournal makes a journal, where there is none, with its first entry under a number: entries are named by their
// numbers. next returns the entries in order, and none at the end.
func (e *Engine) RestoreJournal(ctx context.Context, k JournalKind, from JournalCopy,
	next func() ([][]byte, error),
) error {
	name := journals[k].name
	if err := e.beginJournal(ctx, k, from); err != nil {
		return fmt.Errorf("open %s: %w", name, translate(err))
	}
	j, err := e.Journal(ctx, k)
	if err != nil {
		return err
	}
	for after := from.First - 1; ; {
		run, err := next()
		if err != nil || len(run) == 0 {
			return err
		}
		if err := j.p.StoreRun(ctx, after, run); err != nil {
			return fmt.Errorf("restore %s: %w", name, err)
		}
		after += uint64(len(run))
	}
}

// beginJournal makes a journal that does not begin with 1, or that was moved. A journal cannot be purged, so that
// nobody deletes from it: this one is made before that is forbidden, which Journal does.
func (e *Engine) beginJournal(ctx context.Context, k JournalKind, from JournalCopy) error {
	if from.First == 1 && from.Created.IsZero() {
		return nil
	}
	cfg, err := e.journalConfig(ctx, k)
	if err != nil {
		return err
	}
	if !from.Created.IsZero() {
		cfg.Metadata[movedCreation] = from.Created.UTC().Format(time.RFC3339Nano)
	}
	cfg.DenyPurge = false
	made, err := e.js.CreateStream(ctx, cfg)
	if err == nil && from.First > 1 {
		err = made.Purge(ctx, jetstream.WithPurgeSequence(from.First))
	}
	if err == nil {
		cfg.DenyPurge = true
		_, err = e.js.UpdateStream(ctx, cfg)
	}
	return err
}
