package iceberg

import (
	"context"
	"fmt"

	apache "github.com/apache/iceberg-go"

	"sluice/internal/metadata"
)

// relocate makes a table that was moved or copied readable from its new place. Iceberg has absolute locations in its
// metadata, in lists and in manifests; we read the names alone, other programs do not. A table in its place stays so.
//
// Order: manifests and lists of every snapshot under new names, then a version that names them. A crash before that
// leaves files that nothing lists, for the sweep.
//
// Steps: T.relocate, T.metadata, T.committed.
func (t *table) relocate(ctx context.Context) error {
	from := ""
	s, err := t.update(ctx, func(s *state) (*change, error) {
		from = s.meta.Location
		if from == t.store.Location("") {
			return nil, nil
		}
		if s.damaged() {
			return nil, fmt.Errorf("%w: it was moved from %s, and cannot be made readable from here before it is repaired",
				ErrDamaged, from)
		}
		return &change{relocate: true}, nil
	})
	if err != nil {
		return fmt.Errorf("relocate %s: %w", t.layout.name, err)
	}
	if from != s.meta.Location {
		t.log.Info("table was moved", "from", from, "to", s.meta.Location)
	}
	return nil
}

// commitRelocation writes the lists and manifests of all snapshots anew.
func (t *table) commitRelocation(ctx context.Context, s *state, c *change) (*state, error) {
	if err := t.at("relocate"); err != nil {
		return nil, err
	}
	m := t.forward(s, c)
	m.MetadataLog = []metadata.LogEntry{} // it names the old place
	moved := map[string]*manifest{}       // by the old name
	m.Snapshots = make([]metadata.Snapshot, 0, len(s.meta.Snapshots))
	next := &state{version: s.version + 1, read: s.version + 1, meta: m, progress: s.progress}
	for i := range s.meta.Snapshots {
		snap := s.meta.Snapshots[i]
		old, err := t.readList(ctx, &snap, s.manifests)
		if err != nil {
			return nil, err
		}
		manifests := make([]*manifest, 0, len(old))
		for _, o := range old {
			if o.damaged == nil && len(o.files) == 0 {
				continue // it says which files were deleted, which nobody needs at the new place; an empty one cannot be written
			}
			if moved[o.name] == nil {
				if moved[o.name], err = t.moveManifest(ctx, c, s.meta, o); err != nil {
					return nil, err
				}
			}
			manifests = append(manifests, moved[o.name])
		}
		list, err := t.writeList(ctx, c, snap.ID, snap.Sequence, snap.Parent, manifests)
		if err != nil {
			return nil, err
		}
		snap.ManifestList = t.store.Location(list)
		m.Snapshots = append(m.Snapshots, snap)
		if m.CurrentSnapshot != nil && *m.CurrentSnapshot == snap.ID {
			next.manifests = manifests
		}
	}
	return next, t.publish(ctx, s, next)
}

// moveManifest writes a manifest with the locations of now. Who added which file and when stays as it was.
func (t *table) moveManifest(ctx context.Context, c *change, of *metadata.Table, m *manifest) (*manifest, error) {
	if m.damaged != nil {
		return nil, m.damaged
	}
	id := m.file.SnapshotID()
	var entries []entry
	for _, p := range m.files {
		status := apache.EntryStatusEXISTING
		if p.snapshot == id {
			status = apache.EntryStatusADDED
		}
		entries = append(entries, entry{p, status})
	}
	return t.writeManifest(ctx, c, of, id, m.file.SequenceNum(), entries)
}
