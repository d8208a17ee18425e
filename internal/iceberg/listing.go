package iceberg

import (
	"context"
	"fmt"
	"sync"

	"sluice/internal/metadata"
)

// listings remembers which files the snapshots of a table list. A table keeps hundreds of snapshots for a day, which
// share most of their manifests, and a sweep needs to know all of them.
type listings struct {
	mu        sync.Mutex
	lists     map[string][]string // names of manifests, by the name of a list
	manifests map[string][]string // names of data files, by the name of a manifest
}

// used is every file that a snapshot lists. What is remembered of others is dropped.
func (t *table) used(ctx context.Context, s *state) (map[string]bool, error) {
	l := &t.listings
	l.mu.Lock()
	defer l.mu.Unlock()
	used := map[string]bool{}
	lists, manifests := map[string][]string{}, map[string][]string{}
	for i := range s.meta.Snapshots {
		snap := &s.meta.Snapshots[i]
		name, ok := below(snap.ManifestList, metadata.Dir)
		if !ok {
			return nil, fmt.Errorf("%w: a manifest list outside of the table", metadata.ErrDamaged)
		}
		if err := t.remember(ctx, snap, name, s.manifests); err != nil {
			return nil, err
		}
		used[name], lists[name] = true, l.lists[name]
		for _, m := range l.lists[name] {
			if _, done := manifests[m]; done {
				continue
			}
			used[m], manifests[m] = true, l.manifests[m]
			for _, file := range l.manifests[m] {
				used[file] = true
			}
		}
	}
	l.lists, l.manifests = lists, manifests
	return used, nil
}

// remember reads a list and those of its manifests that nobody has read yet.
func (t *table) remember(ctx context.Context, snap *metadata.Snapshot, name string, known []*manifest) error {
	l := &t.listings
	if _, ok := l.lists[name]; ok {
		return nil
	}
	if l.lists == nil {
		l.lists, l.manifests = map[string][]string{}, map[string][]string{}
	}
	files, err := t.listFiles(ctx, snap)
	if err != nil {
		return err
	}
	var names []string
	for _, f := range files {
		m, ok := below(f.FilePath(), metadata.Dir)
		if _, done := l.manifests[m]; ok && done {
			names = append(names, m)
			continue
		}
		read, err := t.openManifest(ctx, f, known)
		if err != nil {
			return err
		}
		if read.damaged != nil {
			return fmt.Errorf("%w: what is not listed may be needed to repair it", ErrDamaged)
		}
		files := make([]string, 0, len(read.files))
		for _, p := range read.files {
			files = append(files, p.name)
		}
		l.manifests[m] = files
		names = append(names, m)
	}
	l.lists[name] = names
	return nil
}
