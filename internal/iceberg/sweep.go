package iceberg

import (
	"context"
	"fmt"
	"path"
	"slices"
	"time"
)

// DropBefore drops the days before the one of a time. It says how many rows are gone from the newest snapshot; their
// files go with the snapshots that still list them.
func (t *table) DropBefore(ctx context.Context, at time.Time) (rows int64, err error) {
	oldest := dayOf(at.Unix())
	_, err = t.update(ctx, func(s *state) (*change, error) {
		rows = 0
		remove := map[string]bool{}
		for _, f := range s.files() {
			if f.day < oldest {
				remove[f.name] = true
				rows += f.rows
			}
		}
		if len(remove) == 0 {
			return nil, nil
		}
		return &change{operation: deleted, remove: remove}, nil
	})
	if err == nil && rows > 0 {
		t.log.Info("rows have passed their retention", "rows", rows, "before", dayName(oldest))
	}
	return rows, err
}

// Expire ends snapshots that have passed their retention, where no commit came along that would have done it.
func (t *table) Expire(ctx context.Context) error {
	_, err := t.expire(ctx, false)
	return err
}

// expire commits the newest snapshot alone with those that are still of use; forget leaves it none.
func (t *table) expire(ctx context.Context, forget bool) (*state, error) {
	return t.update(ctx, func(s *state) (*change, error) {
		older, cur := s.meta.history()
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

// sweepWait is how long a sweep waits for a moment without writers before it is put off. It keeps nobody waiting
// itself until it has begun.
const sweepWait = 30 * time.Second

// sweepEvery is how often a bucket is listed: each listing costs requests by the number of objects.
const sweepEvery = time.Hour

// sweepRemote is Sweep in a bucket: one listing an hour, and only what is older than the store's grace, for somebody may
// be about to list what is young.
func (t *table) sweepRemote(ctx context.Context) (n int, err error) {
	if t.isRecent(&t.swept, sweepEvery) {
		return 0, nil
	}
	t.touch(&t.swept)
	if err := t.at("sweep"); err != nil {
		return 0, err
	}
	s, err := t.refresh(ctx)
	if err != nil {
		return 0, err
	}
	if s.damaged() {
		return 0, fmt.Errorf("%w: what is not listed may be needed to repair it", ErrDamaged)
	}
	// The listing comes first: what is listed by then and written later is not in it.
	objects, err := t.store.List("", true)
	if err != nil {
		return 0, err
	}
	used, err := t.used(s)
	if err != nil {
		return 0, err
	}
	for _, o := range objects {
		version, isVersion := metadataVersion(o.Name)
		keep := used[o.Name] || o.Name == hintName || isVersion && version > s.version-keepVersions
		if keep || t.now().Sub(o.Modified) < t.store.Grace() {
			continue
		}
		if err := t.remove(o.Name); err != nil {
			return n, err
		}
		n++
	}
	return n, ctx.Err()
}

// removeUnlisted deletes what earlier listed and s does not, by name.
func (t *table) removeUnlisted(earlier map[string]bool, s *state) (n int, err error) {
	used, err := t.used(s)
	if err != nil {
		return 0, err
	}
	for name := range earlier {
		if used[name] {
			continue
		}
		if err := t.remove(name); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

func (t *table) sweep(ctx context.Context, versions int64) (int, error) {
	release, err := t.store.Alone(ctx)
	if err != nil {
		return 0, err
	}
	defer release()
	if err := t.at("sweep"); err != nil {
		return 0, err
	}
	s, err := t.refresh(ctx)
	if err != nil {
		return 0, err
	}
	if s.damaged() {
		return 0, fmt.Errorf("%w: what is not listed may be needed to repair it", ErrDamaged)
	}
	used, err := t.used(s)
	if err != nil {
		return 0, err
	}
	n, err := t.sweepMetadata(s, used, versions)
	if err != nil {
		return n, err
	}
	days, err := t.store.List("data", false)
	if err != nil {
		return n, err
	}
	for _, day := range days {
		files, err := t.store.List(day.Name, false)
		if err != nil {
			return n, err
		}
		left := len(files)
		for _, f := range files {
			if used[f.Name] {
				continue
			}
			if err := t.remove(f.Name); err != nil {
				return n, err
			}
			n, left = n+1, left-1
		}
		if left == 0 {
			if err := t.store.Remove(day.Name); err != nil {
				return n, err
			}
		}
	}
	return n, t.store.Sync() // or a power cut could bring an erased identifier back
}

// remove is one file less. A crash between two leaves the rest for the next sweep.
func (t *table) remove(name string) error {
	if err := t.at("remove"); err != nil {
		return err
	}
	return t.store.Remove(name)
}

// sweepMetadata removes old versions from below, then what no version lists. That order lets a writer that has
// slept through all of it notice: see publish.
func (t *table) sweepMetadata(s *state, used map[string]bool, versions int64) (int, error) {
	n := 0
	list, err := t.versions()
	if err != nil {
		return 0, err
	}
	slices.Reverse(list)
	for _, v := range list {
		if v > s.version-versions {
			used[metadataName(v)] = true
			continue
		}
		if err := t.remove(metadataName(v)); err != nil {
			return n, err
		}
		n++
	}
	files, err := t.store.List(metadataDir, false)
	if err != nil {
		return n, err
	}
	for _, f := range files {
		if used[f.Name] || f.Name == hintName || path.Ext(f.Name) == ".json" {
			continue
		}
		if err := t.remove(f.Name); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
