package iceberg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	apache "github.com/apache/iceberg-go"

	"sluice/internal/objectstore"
)

// Options say where a table lies and how it is kept. Store and Now are required.
type Options struct {
	Store objectstore.Store
	Now   func() time.Time
	Log   *slog.Logger // default: nothing is logged

	// SnapshotRetention is for how long a snapshot, with its files, stays readable after the next one has come.
	SnapshotRetention time.Duration
	FileBytes         int64 // compaction merges files up to this size

	// Step is called before each named step of a commit, compaction, deletion or repair; its error ends it there. Tests
	// crash with it. The names are in the comments of the functions that take the steps.
	Step func(name string) error

	// Committing says whether this process is the only one that commits, as far as it knows; nil says no. In a bucket
	// it then asks less often whether another process has committed.
	Committing func() bool
}

// Table is an Iceberg table of rows of type T, in a place of its own. It may be used by many goroutines, and by several
// processes at once.
type Table[T any] struct {
	*table
	schema *Schema[T]
}

// Open opens a table, or makes it. A table that was moved is made readable from its new place.
func Open[T any](ctx context.Context, s *Schema[T], o Options) (*Table[T], error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	t := &Table[T]{schema: s, table: &table{
		layout: &s.layout, store: o.Store, now: o.Now, log: o.Log.With("table", s.name), step: o.Step,
		retention: o.SnapshotRetention, fileBytes: o.FileBytes, remote: o.Store.Grace() > 0, committing: o.Committing,
	}}
	if err := t.open(ctx); err != nil {
		return nil, fmt.Errorf("open table %s: %w", s.name, err)
	}
	return t, nil
}

// table is what does not depend on the rows.
//
// Its versions are files v1.metadata.json, v2.metadata.json, …; the one with the highest number is the table. A
// commit creates the next number, which fails if there is one: that is the fence between loaders, compaction
// and erasure, in this process or another, and nothing else decides. So the directory alone is the whole truth,
// can be copied, and can never disagree with a pointer kept elsewhere.
type table struct {
	layout *layout
	spec   apache.PartitionSpec
	store  objectstore.Store
	now    func() time.Time
	log    *slog.Logger
	step   func(string) error

	retention time.Duration // of snapshots
	fileBytes int64

	mu    sync.Mutex // one commit, or one reading of the directory, at a time
	state atomic.Pointer[state]
	counters

	// Of a table in a bucket, where each look costs a request.
	remote     bool
	checked    atomic.Int64 // when state was last known to be the newest, in nanoseconds
	hinted     atomic.Int64 // when the hint was last written
	committing func() bool

	hintedVersion atomic.Int64 // and which version it names
	swept         atomic.Int64 // when the last sweep began

	listings listings

	badMu sync.Mutex
	bad   map[string]bool // files that could not be read: compaction leaves them alone
}

func (t *table) markUnreadable(name string) {
	t.badMu.Lock()
	defer t.badMu.Unlock()
	if t.bad == nil {
		t.bad = map[string]bool{}
	}
	t.bad[name] = true
}

func (t *table) unreadable(name string) bool {
	t.badMu.Lock()
	defer t.badMu.Unlock()
	return t.bad[name]
}

// state is a table as of one version. It never changes.
type state struct {
	version   int64 // the number of the newest file
	read      int64 // the number of the file this was read from: lower when newer ones are damaged
	meta      *metadata
	manifests []*manifest
	progress
}

// files is every living file.
func (s *state) files() []*dataFile {
	var out []*dataFile
	for _, m := range s.manifests {
		out = append(out, m.files...)
	}
	return out
}

// oldFiles counts the files of version 1.
func (s *state) oldFiles() (n int) {
	for _, p := range s.files() {
		if p.old != nil {
			n++
		}
	}
	return n
}

func (s *state) damaged() bool {
	return s.read != s.version || slices.ContainsFunc(s.manifests, func(m *manifest) bool { return m.damaged != nil })
}

func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// open reads the table, or makes it.
func (t *table) open(ctx context.Context) error {
	t.spec = t.layout.spec()
	s, err := t.refresh(ctx)
	if err == nil {
		t.hint(s.version)
		if s.meta.Location == t.store.Location("") {
			return nil // who may only read need not be able to lock
		}
		return t.relocate(ctx)
	}
	if !errors.Is(err, errNoTable) {
		return err
	}
	meta, err := newMetadata(t.layout, t.store.Location(""), t.now())
	if err != nil {
		return err
	}
	b, err := meta.encode()
	if err != nil {
		return err
	}
	// Somebody may be making it at the same time: then theirs it is.
	if err := t.store.CreateExclusive(metadataName(1), b); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	s, err = t.refresh(ctx)
	if err == nil {
		t.hint(s.version)
	}
	return err
}

var errNoTable = errors.New("no table")

// refresh answers the table as it is now. It does not wait for a commit that is under way.
func (t *table) refresh(ctx context.Context) (*state, error) {
	if s, err := t.newest(ctx); s != nil || err != nil {
		return s, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.refreshLocked(ctx)
}

// lately answers the table as this process last knew it to be, if that is not long ago. It is for work that asks again and
// again: in a bucket each question is a request. A process that commits learns of other commits by its next one.
func (t *table) lately(ctx context.Context) (*state, error) {
	within := backgroundFresh
	if t.committing != nil && t.committing() {
		within = committerFresh
	}
	if s := t.state.Load(); s != nil && t.remote && t.isRecent(&t.checked, within) {
		return s, ctx.Err()
	}
	return t.refresh(ctx)
}

// lists says whether the newest version lists all of these files.
func (t *table) lists(ctx context.Context, files []*dataFile) (bool, error) {
	t.checked.Store(0)
	s, err := t.refresh(ctx)
	if err != nil {
		return false, err
	}
	listed := map[string]bool{}
	for _, f := range s.files() {
		listed[f.name] = true
	}
	return !slices.ContainsFunc(files, func(f *dataFile) bool { return !listed[f.name] }), nil
}

// newest is the state we know if it is the newest, else nil.
func (t *table) newest(ctx context.Context) (*state, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := t.state.Load()
	if s == nil {
		return nil, nil
	}
	if t.remote && t.isRecent(&t.checked, remoteFresh) {
		return s, nil
	}
	later, err := t.store.Exists(metadataName(s.version + 1))
	if err != nil || later {
		return nil, err
	}
	if t.remote { // versions stay for a day there, so a successor could not have come and gone
		t.touch(&t.checked)
		return s, nil
	}
	// Old versions are removed from below: a successor that came and went took this one along.
	same, err := t.store.Exists(metadataName(s.version))
	if err != nil || !same {
		return nil, err
	}
	return s, nil
}

// How old what we know of a table in a bucket may be. Commits need no fresher knowledge, for it is their conditional
// write that decides.
const (
	remoteFresh     = 2 * time.Second  // when somebody reads
	backgroundFresh = 15 * time.Second // for lately
	committerFresh  = 5 * time.Minute  // for lately, in the process that commits
)

// isRecent says whether a moment that touch noted is less than d ago.
func (t *table) isRecent(at *atomic.Int64, d time.Duration) bool {
	return at.Load() != 0 && t.now().UnixNano()-at.Load() < int64(d)
}

func (t *table) touch(at *atomic.Int64) { at.Store(t.now().UnixNano()) }

func (t *table) refreshLocked(ctx context.Context) (*state, error) {
	if s, err := t.newest(ctx); s != nil || err != nil {
		return s, err
	}
	old := t.state.Load()
	versions, err := t.versions()
	if t.remote {
		versions, err = t.remoteVersions(old)
	}
	if err != nil {
		return nil, err
	}
	s, err := t.load(versions, old)
	if err != nil {
		return nil, err
	}
	t.state.Store(s)
	t.touch(&t.checked)
	return s, nil
}

// remoteVersions finds the newest version of a table in a bucket without listing: from the one we know, or from the
// hint, it looks ahead in growing steps, and then between the last two. Versions have no gaps, for each is made by the
// condition that there is none by its name. Older ones follow, in case the newest are damaged.
func (t *table) remoteVersions(old *state) ([]int64, error) {
	least := int64(0)
	if old != nil {
		least = old.version
	} else if b, err := t.store.Read(hintName); err == nil {
		least, _ = strconv.ParseInt(string(b), 10, 64)
	} else if !isMissing(err) {
		return nil, err
	}
	if least == 0 {
		return t.versions()
	}
	most := least // the newest is in [least, most]
	for step := int64(1); ; step *= 4 {
		there, err := t.store.Exists(metadataName(least + step))
		if err != nil {
			return nil, err
		}
		if !there {
			most = least + step - 1
			break
		}
		least += step
	}
	for least < most {
		middle := least + (most-least+1)/2
		there, err := t.store.Exists(metadataName(middle))
		if err != nil {
			return nil, err
		}
		if there {
			least = middle
		} else {
			most = middle - 1
		}
	}
	var out []int64
	for v := least; v > 0 && v > least-keepVersions; v-- {
		out = append(out, v)
	}
	return out, nil
}

// versions lists the numbers of the metadata files, newest first.
func (t *table) versions() ([]int64, error) {
	list, err := t.store.List(metadataDir, false)
	if err != nil {
		return nil, err
	}
	var out []int64
	for _, l := range list {
		if v, ok := metadataVersion(l.Name); ok {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	slices.Reverse(out)
	if len(out) == 0 {
		return nil, errNoTable
	}
	return out, nil
}

// load reads the newest version that can be read whole. Going back is safe: an older version has an older
// watermark, so the loader brings again what is missing, from the stream; and files are deleted only when two
// versions in a row no longer list them. Where no version is whole, the newest that can be read at all serves.
func (t *table) load(versions []int64, old *state) (*state, error) {
	var known []*manifest
	if old != nil {
		known = old.manifests
	}
	var partial *state
	var first error
	for _, v := range versions {
		s, err := t.loadVersion(v, known)
		switch {
		case err == nil && !slices.ContainsFunc(s.manifests, func(m *manifest) bool { return m.damaged != nil }):
			return t.fallBack(s, versions[0]), nil
		case err == nil && partial == nil:
			partial = s
			known = append(slices.Clone(known), s.manifests...)
		case err != nil && !errors.Is(err, errDamaged) && !isMissing(err):
			return nil, err
		case err != nil && first == nil:
			first = err
		}
	}
	if partial != nil {
		return t.fallBack(partial, versions[0]), nil
	}
	return nil, fmt.Errorf("%s: no version of the table can be read: %w", t.layout.name, first)
}

func (t *table) fallBack(s *state, newest int64) *state {
	s.version = newest
	if s.damaged() {
		t.damage.Add(1)
		t.log.Error("table metadata is damaged", "version", newest, "read", s.read)
	}
	return s
}

func (t *table) loadVersion(version int64, known []*manifest) (*state, error) {
	b, err := t.store.Read(metadataName(version))
	if err != nil {
		return nil, err
	}
	meta, err := decodeMetadata(b)
	if err != nil {
		return nil, err
	}
	manifests, err := t.readList(meta.current(), known)
	if err != nil {
		return nil, err
	}
	return &state{version: version, read: version, meta: meta, manifests: manifests, progress: meta.progress()}, nil
}
