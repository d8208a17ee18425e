package iceberg

import (
	"context"
	"fmt"
	"path"
	"slices"
	"time"

	"sluice/internal/metadata"
)

// Expire ends snapshots that have passed their retention, where no commit came along that would have done it.
func (t *table) Expire(ctx context.Context) error {
	_, err := t.expire(ctx, false)
	return err
}

// expire commits the newest snapshot alone with those that are still of use; forget leaves it none.
func (t *table) expire(ctx context.Context, forget bool) (*state, error) {
	return t.update(ctx, func(s *state) (*change, error) {
		older, cur := s.meta.History()
		if cur == nil || !forget && len(t.unexpired(older, cur, false, t.now().UnixMilli())) == len(older) {
			return nil, nil
		}
		return &change{forget: forget}, nil
	})
}

// Sweep deletes every file that no snapshot lists: what crashes, failed commits, compaction and expiry left. It
// waits until nobody is writing, which is how it knows. It returns how many files went.
//
// Steps: T.sweep, then T.remove for each file.
func (t *table) Sweep(ctx context.Context) (files int, err error) {
	if t.remote {
		return t.sweepRemote(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, sweepWait)
	defer cancel()
	if files, err = t.sweep(ctx, keepVersions); err != nil {
		return files, fmt.Errorf("sweep %s: %w", t.layout.name, err)
	}
	return files, nil
}

// sweepWait is how long a sweep waits for a moment without writers before it is put off. Nobody waits for it meanwhile.
const sweepWait = 30 * time.Second

// sweepEvery is how often a bucket is listed: each listing costs requests by the number of objects.
const sweepEvery = time.Hour

// sweepRemote is Sweep in a bucket: one listing an hour, and only what is older than the store's grace, for somebody
// may be about to list what is young.
func (t *table) sweepRemote(ctx context.Context) (n int, err error) {
	if t.isRecent(&t.swept, sweepEvery) {
		return 0, nil
	}
	t.touch(&t.swept)
	t.doubt() // what the newest version lists is not deleted, so it must be the newest
	s, err := t.beginSweep(ctx)
	if err != nil {
		return 0, err
	}
	// The listing comes first: what is listed by then and written later is not in it.
	objects, err := t.store.List(ctx, "", true)
	if err != nil {
		return 0, err
	}
	used, err := t.used(ctx, s)
	if err != nil {
		return 0, err
	}
	there := map[string]bool{}
	for _, o := range objects {
		there[o.Name] = true
	}
	t.noteMissing(s, there)
	if err := t.hintNow(ctx, s.version); err != nil { // who goes by it must not be led to what is gone
		return 0, err
	}
	for _, o := range objects {
		version, isVersion := metadata.VersionOf(o.Name)
		keep := used[o.Name] || o.Name == metadata.HintName || isVersion && version > s.version-keepVersions
		if keep || t.now().Sub(o.Modified) < t.store.Grace() {
			continue
		}
		if err := t.remove(ctx, o.Name); err != nil {
			return n, err
		}
		n++
	}
	return n, ctx.Err()
}

// beginSweep is the table that a sweep goes by. Of a damaged one nothing is deleted.
func (t *table) beginSweep(ctx context.Context) (*state, error) {
	if err := t.at("sweep"); err != nil {
		return nil, err
	}
	s, err := t.refresh(ctx)
	if err == nil && s.damaged() {
		err = fmt.Errorf("%w: what is not listed may be needed to repair it", ErrDamaged)
	}
	return s, err
}

// removeUnlisted deletes what earlier listed and s does not, by name. The hint comes first: who goes by it must not be
// led to what is gone.
func (t *table) removeUnlisted(ctx context.Context, earlier map[string]bool, s *state) (n int, err error) {
	used, err := t.used(ctx, s)
	if err != nil {
		return 0, err
	}
	if err := t.hintNow(ctx, s.version); err != nil {
		return 0, err
	}
	for name := range earlier {
		if used[name] {
			continue
		}
		if err := t.remove(ctx, name); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

func (t *table) sweep(ctx context.Context, versions int64) (int, error) {
	release, err := t.store.LockExclusive(ctx)
	if err != nil {
		return 0, err
	}
	defer release()
	s, err := t.beginSweep(ctx)
	if err != nil {
		return 0, err
	}
	used, err := t.used(ctx, s)
	if err != nil {
		return 0, err
	}
	n, err := t.sweepMetadata(ctx, s, used, versions)
	if err != nil {
		return n, err
	}
	days, err := t.store.List(ctx, "data", false)
	if err != nil {
		return n, err
	}
	there := map[string]bool{}
	defer t.noteMissing(s, there)
	for _, day := range days {
		files, err := t.store.List(ctx, day.Name, false)
		if err != nil {
			return n, err
		}
		left := len(files)
		for _, f := range files {
			there[f.Name] = true
			if used[f.Name] {
				continue
			}
			if err := t.remove(ctx, f.Name); err != nil {
				return n, err
			}
			n, left = n+1, left-1
		}
		if left == 0 {
			if err := t.store.Remove(ctx, day.Name); err != nil {
				return n, err
			}
		}
	}
	return n, t.store.Sync(ctx) // or a power cut could bring an erased identifier back
}

// remove is one file less. A crash between two leaves the rest for the next sweep.
func (t *table) remove(ctx context.Context, name string) error {
	if err := t.at("remove"); err != nil {
		return err
	}
	return t.store.Remove(ctx, name)
}

// sweepMetadata removes old versions from below, then what no version lists. That order lets a writer that has
// slept through all of it notice: see publish.
func (t *table) sweepMetadata(ctx context.Context, s *state, used map[string]bool, versions int64) (int, error) {
	n := 0
	list, err := t.versions(ctx)
	if err != nil {
		return 0, err
	}
	for _, v := range slices.Backward(list) {
		if v > s.version-versions {
			used[metadata.Name(v)] = true
			continue
		}
		if err := t.remove(ctx, metadata.Name(v)); err != nil {
			return n, err
		}
		n++
	}
	files, err := t.store.List(ctx, metadata.Dir, false)
	if err != nil {
		return n, err
	}
	for _, f := range files {
		if used[f.Name] || f.Name == metadata.HintName || path.Ext(f.Name) == ".json" {
			continue
		}
		if err := t.remove(ctx, f.Name); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
