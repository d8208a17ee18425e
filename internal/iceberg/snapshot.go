package iceberg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"time"

	apache "github.com/apache/iceberg-go"

	"sluice/internal/metadata"
	"sluice/internal/objectstore"
	"sluice/internal/watermark"
)

// What a commit did, in Iceberg's words.
const (
	appended = "append"
	replaced = "replace"   // other files, same rows
	deleted  = "delete"    // rows are gone
	narrowed = "overwrite" // rows are gone, and files with the others have come
)

// change is what one commit does to a table.
type change struct {
	operation string // "" makes no snapshot, only ends older ones
	add       []*dataFile
	with      *objectstore.Uploads // of what is added; nil if all of it is durable
	remove    map[string]bool      // names of files
	progress  *watermark.Progress  // nil leaves it as it is
	forget    bool                 // expire every snapshot but the new one
	set       map[string]string    // table properties
	relocate  bool                 // makes no snapshot, but writes all lists and manifests anew
	widen     bool                 // makes no snapshot, but gives the table the columns that it lacks

	written []string // names of what the commit has written, to be removed if it fails
}

// update commits what decide makes of the newest state, if not nil, and asks again when another commit came between.
//
// The order is: files, which the caller wrote, manifest and list, side by side; metadata beside its name; the names of
// the files; its name. All of a group is on stable storage before the next begins. A crash before the last leaves files
// that nothing lists, for the sweep, which is held off meanwhile. A caller that writes files holds it off from the
// first of them on.
func (t *table) update(ctx context.Context, decide func(*state) (*change, error)) (*state, error) {
	release, err := t.lockShared(ctx) // before the mutex: a sweep takes the two in this order
	if err != nil {
		return nil, err
	}
	defer release()
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		s := t.state.Load()
		if s == nil {
			return nil, ErrNotOpen
		}
		// In a bucket the conditional write says whether there is a newer version. Not after an hour: a version that we
		// do not know could have been swept, and its name be free again.
		if !t.remote || !t.isRecent(&t.checked, time.Hour) {
			var err error
			if s, err = t.refreshLocked(ctx); err != nil {
				return nil, err
			}
		}
		c, err := decide(s)
		if err != nil || c == nil {
			return s, err
		}
		next, err := t.commit(ctx, s, c)
		if err == nil {
			t.state.Store(next)
			t.touch(&t.checked)
			t.touch(&t.stood)
			return next, nil
		}
		if !errors.Is(err, objectstore.ErrUncertain) {
			for _, name := range c.written {
				_ = t.store.Remove(ctx, name) // else the sweep finds it
			}
		}
		t.doubt()
		if !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("commit %s: %w", t.layout.name, err)
		}
	}
}

// lockShared holds off the sweep. Where the place is gone it says so of the table.
func (t *table) lockShared(ctx context.Context) (func(), error) {
	release, err := t.store.LockShared(ctx)
	if isMissing(err) {
		if _, err := t.refresh(ctx); err != nil {
			return nil, err
		}
	}
	return release, err
}

func (t *table) at(step string) error {
	if t.step == nil {
		return nil
	}
	return t.step(t.layout.name + "." + step)
}

// commit writes the successor of s.
func (t *table) commit(ctx context.Context, s *state, c *change) (next *state, err error) {
	switch {
	case c.relocate:
		return t.commitRelocation(ctx, s, c)
	case c.operation == "":
		return t.commitExpiry(ctx, s, c)
	}
	if c.with == nil {
		c.with = &objectstore.Uploads{}
	}
	defer func() {
		if err != nil { // nothing of it may appear after the caller has removed it
			_ = c.with.Wait()
		}
	}()
	id, sequence := metadata.NewSnapshotID(), s.meta.LastSequence+1
	if err := t.at("manifest"); err != nil {
		return nil, err
	}
	manifests, err := t.arrange(ctx, s, c, id, sequence)
	if err != nil {
		return nil, err
	}
	if err := t.at("list"); err != nil {
		return nil, err
	}
	var parent *int64
	if cur := s.meta.Current(); cur != nil {
		parent = new(cur.ID) // not a pointer into the older snapshots: it would hold them all, and those before them
	}
	list, err := t.writeList(ctx, c, id, sequence, parent, manifests)
	if err != nil {
		return nil, err
	}
	next = &state{version: s.version + 1, read: s.version + 1, manifests: manifests, progress: s.progress}
	if c.progress != nil {
		next.progress = *c.progress
	}
	next.meta = t.succeed(s, c, next, metadata.Snapshot{
		ID: id, Parent: parent, Sequence: sequence, ManifestList: t.store.Location(list), SchemaID: s.meta.CurrentSchemaID,
	})
	if err := c.with.Wait(); err != nil {
		return nil, err
	}
	if err := t.publish(ctx, s, next); err != nil {
		return nil, err
	}
	for _, p := range c.add {
		p.snapshot, p.sequence = id, sequence
	}
	return next, nil
}

// commitExpiry is a commit of the same snapshot with fewer older ones.
//
// Steps: T.expire, T.metadata, T.committed.
func (t *table) commitExpiry(ctx context.Context, s *state, c *change) (*state, error) {
	if err := t.at("expire"); err != nil {
		return nil, err
	}
	m := t.forward(s, c)
	older, cur := m.History()
	if cur != nil {
		m.Snapshots = append(t.unexpired(older, cur, c.forget, m.LastUpdatedMS), *cur)
	}
	m.TrimLog()
	next := &state{version: s.version + 1, read: s.version + 1, meta: m, manifests: s.manifests, progress: s.progress}
	return next, t.publish(ctx, s, next)
}

// publish gives the metadata its name: the instant of the commit. Then it asks whether the version that the commit
// builds on is still there. Somebody may have emptied the table or put a copy in its place; or that version had become
// so old that it was removed, and the name was free for a second time. Asking afterwards leaves no gap: what happens
// later, the next commit finds. A crash in between leaves a version without its manifests, which load passes over.
func (t *table) publish(ctx context.Context, s, next *state) error {
	if err := t.at("metadata"); err != nil {
		return err
	}
	b, err := next.meta.Encode()
	if err != nil {
		return err
	}
	version := next.version
	name := metadata.Name(version)
	if err := t.store.CreateExclusive(ctx, name, b); err != nil {
		return err
	}
	stands, err := t.stands(ctx, s)
	if err != nil {
		return errors.Join(objectstore.ErrUncertain, err)
	}
	if !stands {
		return errors.Join(fs.ErrExist, t.store.Remove(ctx, name))
	}
	next.end = endOf(b)
	t.hint(ctx, version)
	if err := t.at("committed"); err != nil {
		return errors.Join(objectstore.ErrUncertain, err)
	}
	return nil
}

// hint tells programs that do not list which version is the newest. Its loss costs nothing: opening the table writes it
// again. In a bucket it is written once a minute: a hint that is behind costs a reader a minute of rows.
func (t *table) hint(ctx context.Context, version int64) {
	if !t.remote || !t.isRecent(&t.hinted, time.Minute) {
		_ = t.hintNow(ctx, version)
	}
}

// hintNow is hint without regard to when the last one was. The hint does not go back: another process may have
// committed meanwhile. One that names no version was of another table, which a copy has replaced.
func (t *table) hintNow(ctx context.Context, version int64) error {
	t.touch(&t.hinted)
	t.hintedVersion.Store(version)
	return t.store.Replace(ctx, metadata.HintName, strconv.AppendInt(nil, version, 10), func(there []byte) bool {
		hinted, err := strconv.ParseInt(string(there), 10, 64)
		if err != nil || hinted <= version {
			return false
		}
		stands, err := t.store.Exists(ctx, metadata.Name(hinted))
		return err == nil && stands
	})
}

// arrange writes the one manifest a commit needs, if any. It returns all manifests that the table then has.
func (t *table) arrange(ctx context.Context, s *state, c *change, id, sequence int64) ([]*manifest, error) {
	var entries []entry
	for _, p := range c.add {
		entries = append(entries, entry{p, apache.EntryStatusADDED})
	}
	hit := func(p *dataFile) bool { return c.remove[p.name] }
	var touched, rest []*manifest
	for _, m := range s.manifests {
		switch {
		case slices.ContainsFunc(m.files, hit):
			touched = append(touched, m)
		case m.damaged != nil || len(m.files) > 0: // one without living files has had its day
			rest = append(rest, m)
		}
	}
	n := len(entries)
	for _, m := range touched {
		n += len(m.files)
	}
	if n == 0 {
		return rest, nil
	}
	swallowed, rest := swallow(rest, n)
	for _, m := range append(touched, swallowed...) {
		for _, p := range m.files {
			status := apache.EntryStatusEXISTING
			if hit(p) {
				status = apache.EntryStatusDELETED
			}
			entries = append(entries, entry{p, status})
		}
	}
	made, err := t.writeManifest(ctx, c, s.meta, id, sequence, entries)
	return append(rest, made), err
}

// forward is a copy of the newest metadata, for a commit to change. The log names no version that will be deleted: not
// one of those from before an erasure, which is what forget is for.
func (t *table) forward(s *state, c *change) *metadata.Table {
	m := s.meta.Next(t.store.Location(""), t.store.Location(metadata.Name(s.read)), c.set, t.now())
	if c.forget {
		m.MetadataLog = []metadata.LogEntry{}
	}
	if c.relocate || c.widen { // by its time an old copy is known, whose rows came back: they are still those of before
		m.LastUpdatedMS = s.meta.LastUpdatedMS
	}
	return m
}

// succeed is the metadata after a commit.
func (t *table) succeed(s *state, c *change, next *state, snap metadata.Snapshot) *metadata.Table {
	m := t.forward(s, c)
	snap.TimestampMS = m.LastUpdatedMS
	snap.Summary = summary(s, c, next)
	m.LastSequence = snap.Sequence
	m.Snapshots = append(t.unexpired(m.Snapshots, &snap, c.forget, snap.TimestampMS), snap)
	m.SnapshotLog = append(slices.Clone(m.SnapshotLog),
		metadata.SnapshotEntry{TimestampMS: snap.TimestampMS, SnapshotID: snap.ID})
	m.TrimLog()
	m.CurrentSnapshot = new(snap.ID)
	// Also where other programs' snapshots and expiry do not reach.
	next.progress.Write(m.Properties)
	m.Refs = map[string]metadata.Ref{"main": {SnapshotID: snap.ID, Type: "branch"}}
	return m
}

func summary(s *state, c *change, next *state) map[string]string {
	var added, addedRows, addedBytes, rows, bytes, files, removed, removedRows int64
	for _, p := range c.add {
		added, addedRows, addedBytes = added+1, addedRows+p.rows, addedBytes+p.bytes
	}
	for _, p := range s.files() {
		if c.remove[p.name] {
			removed, removedRows = removed+1, removedRows+p.rows
		}
	}
	for _, p := range next.files() {
		files, rows, bytes = files+1, rows+p.rows, bytes+p.bytes
	}
	out := map[string]string{"operation": c.operation}
	for name, n := range map[string]int64{
		"added-data-files": added, "added-records": addedRows, "added-files-size": addedBytes,
		"deleted-data-files": removed, "deleted-records": removedRows,
		"total-data-files": files, "total-records": rows, "total-files-size": bytes,
	} {
		out[name] = strconv.FormatInt(n, 10)
	}
	next.progress.Write(out)
	return out
}

// keepVersions is how many metadata files stay. Arbitrary, more than commits can race.
const keepVersions = 40

// unexpired is which of the snapshots before cur are carried on: none where they are to be forgotten.
func (t *table) unexpired(old []metadata.Snapshot, cur *metadata.Snapshot, forget bool, now int64) []metadata.Snapshot {
	if forget {
		return nil
	}
	return metadata.Unexpired(old, cur, t.retention, now)
}
