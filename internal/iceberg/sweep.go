package iceberg

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
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
		if t.isRecent(&t.swept, sweepEvery) {
			return 0, nil
		}
		t.touch(&t.swept)
		t.doubt() // what the newest version lists is not deleted, so it must be the newest
	} else {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, sweepWait)
		defer cancel()
	}
	if files, err = t.sweep(ctx, keepVersions); err != nil {
		return files, fmt.Errorf("sweep %s: %w", t.layout.name, err)
	}
	return files, nil
}

// sweepWait is how long a sweep waits for a moment without writers before it is put off. Nobody waits for it meanwhile.
const sweepWait = 30 * time.Second

// sweepEvery is how often a bucket is listed: each listing costs requests by the number of objects.
const sweepEvery = time.Hour

// sweep deletes what no snapshot lists, and all but so many versions. Versions go first, from below: that order lets a
// writer that has slept through all of it notice, see publish. What is younger than the store's grace stays, for
// somebody may be about to list it; of a damaged table everything does.
func (t *table) sweep(ctx context.Context, versions int64) (n int, err error) {
	release, err := t.store.LockExclusive(ctx)
	if err != nil {
		return 0, err
	}
	defer release()
	if err := t.at("sweep"); err != nil {
		return 0, err
	}
	s, err := t.refresh(ctx)
	if err == nil && s.damaged() {
		err = fmt.Errorf("%w: what is not listed may be needed to repair it", ErrDamaged)
	}
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
	there, left := map[string]bool{}, map[string]int{} // files; how many a directory has
	var old []int64
	var gone []string
	for _, o := range objects {
		there[o.Name] = true
		left[path.Dir(o.Name)]++
		version, isVersion := metadata.VersionOf(o.Name)
		switch {
		case used[o.Name] || t.remote && t.now().Sub(o.Modified) < t.store.Grace():
		case isVersion && version <= s.version-versions:
			old = append(old, version)
		case !isKept(o.Name):
			gone = append(gone, o.Name)
		}
	}
	t.noteMissing(s, there)
	if t.remote { // who goes by the hint must not be led to what is gone
		if err := t.hintNow(ctx, s.version); err != nil {
			return 0, err
		}
	}
	slices.Sort(old)
	names := make([]string, 0, len(old)+len(gone))
	for _, version := range old {
		names = append(names, metadata.Name(version))
	}
	for _, name := range append(names, gone...) {
		if err := t.remove(ctx, name); err != nil {
			return n, err
		}
		n++
		left[path.Dir(name)]--
	}
	if !t.remote {
		days, err := t.store.List(ctx, "data", false)
		if err != nil {
			return n, err
		}
		for _, day := range days {
			if day.Dir && left[day.Name] == 0 {
				if err := t.store.Remove(ctx, day.Name); err != nil {
					return n, err
				}
			}
		}
	}
	return n, t.store.Sync(ctx) // or a power cut could bring an erased identifier back
}

// isKept says whether a file that no snapshot lists is none that a commit has left.
func isKept(name string) bool {
	metadataFile := strings.HasPrefix(name, metadata.Dir+"/") && name != metadata.HintName && path.Ext(name) != ".json"
	return !metadataFile && !strings.HasPrefix(name, "data/")
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

// remove is one file less. A crash between two leaves the rest for the next sweep.
func (t *table) remove(ctx context.Context, name string) error {
	if err := t.at("remove"); err != nil {
		return err
	}
	return t.store.Remove(ctx, name)
}
