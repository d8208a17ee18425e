package iceberg

import (
	"cmp"
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

	"sluice/internal/metadata"
	"sluice/internal/objectstore"
	"sluice/internal/watermark"
)

// Options say where a table lies and how it is kept. Store and Now are required.
type Options struct {
	Store objectstore.Store
	Now   func() time.Time
	Log   *slog.Logger // default: nothing is logged

	// SnapshotRetention is for how long a snapshot, with its files, stays readable after the next one has come.
	SnapshotRetention time.Duration
	FileBytes         int64 // compaction merges files up to this size

	// Step is called before each named step of a commit, compaction or deletion; its error ends it there. Tests
	// crash with it. The names are in the comments of the functions that take the steps.
	Step func(name string) error

	// PutBack is called when somebody has put an older copy of the table in its place, with the time at which the copy was
	// last changed, before anything is done with it; after its error nothing is. nil does nothing.
	PutBack func(ctx context.Context, changed time.Time) error

	// Committing says whether this process is the only one that commits, as far as it knows; nil says no. In a bucket
	// it then asks less often whether another process has committed.
	Committing func() bool
}

// Table is an Iceberg table of rows of type T, in a place of its own. Many goroutines and processes may use it at once.
type Table[T any] struct {
	*table
	schema *Schema[T]
}

// ErrNotOpen says that a table is not open yet.
var ErrNotOpen = errors.New("the table is not open yet")

// New is a table that is not open. Until Open returns nil, Stats are those of an empty table; all else is ErrNotOpen.
func New[T any](s *Schema[T], o Options) *Table[T] {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Table[T]{schema: s, table: &table{
		layout: &s.layout, spec: s.layout.spec(), store: o.Store, now: o.Now, log: o.Log.With("table", s.name), step: o.Step,
		retention: o.SnapshotRetention, fileBytes: o.FileBytes, remote: o.Store.Grace() > 0,
		committing: o.Committing, putBack: o.PutBack,
	}}
}

// Open opens the table, or makes it. A table that was moved is made readable from its new place. In a store that is
// open to be read only, the table must be there, and nothing is done. After an error it can be called again.
func (t *Table[T]) Open(ctx context.Context) error {
	if err := t.open(ctx); err != nil {
		return fmt.Errorf("open table %s: %w", t.schema.name, err)
	}
	return nil
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

	mu           sync.Mutex // one commit, or one reading of the directory, at a time
	state        atomic.Pointer[state]
	damage       atomic.Int64 // how often metadata was found damaged
	damagedFiles sync.Map     // names of files that could not be read

	// Of a table in a bucket, where each look costs a request.
	remote     bool
	checked    atomic.Int64 // when state was last known to be the newest, in nanoseconds
	stood      atomic.Int64 // when its file was last known to be there
	hinted     atomic.Int64 // when the hint was last written
	committing func() bool
	putBack    func(context.Context, time.Time) error

	hintedVersion atomic.Int64 // and which version it names
	swept         atomic.Int64 // when the last sweep began

	listings listings

	printsMu           sync.Mutex
	printsOf, summedOf *state // of which prints and summed are
	prints, summed     map[int32]watermark.Print

	narrowMu sync.Mutex
	narrowed map[string]string // for what Narrow has looked into files

	bad sync.Map // files that could not be read, and until when compaction leaves them alone; zero is for ever
}

// state is a table as of one version. It never changes.
type state struct {
	version   int64  // the number of the newest file
	read      int64  // the number of the file this was read from: lower when newer ones are damaged
	end       string // the last bytes of that file, its seal: they tell it from another one by the same name
	meta      *metadata.Table
	widened   bool // meta has columns that the file lacks; the next commit writes them
	manifests []*manifest
	progress  watermark.Progress
}

// files is every living file.
func (s *state) files() []*dataFile {
	var out []*dataFile
	for _, m := range s.manifests {
		out = append(out, m.files...)
	}
	return out
}

// namesOf are the names of files.
func namesOf(files []*dataFile) map[string]bool {
	out := make(map[string]bool, len(files))
	for _, f := range files {
		out[f.name] = true
	}
	return out
}

// lists says whether all of these files are living ones.
func (s *state) lists(names map[string]bool) bool {
	n := 0
	for _, f := range s.files() {
		if names[f.name] {
			n++
		}
	}
	return n == len(names)
}

func (s *state) damaged() bool {
	return s.read != s.version || slices.ContainsFunc(s.manifests, func(m *manifest) bool { return m.damaged != nil })
}

func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// open reads the table, or makes it.
func (t *table) open(ctx context.Context) error {
	s, err := t.read(ctx)
	if t.store.ReadOnly() {
		return err
	}
	if err == nil {
		t.hint(ctx, s.version)
		switch {
		case s.meta.Location != t.store.Location(""):
			return t.relocate(ctx)
		case s.widened:
			return t.evolve(ctx)
		}
		return nil // who may only read need not be able to lock
	}
	if !errors.Is(err, ErrNoTable) || t.state.Load() != nil { // one that was open and is gone is not made anew
		return err
	}
	meta, err := newMetadata(t.layout, t.store.Location(""), t.now())
	if err != nil {
		return err
	}
	b, err := meta.Encode()
	if err != nil {
		return err
	}
	// Somebody may be making it at the same time: then theirs it is.
	if err := t.store.CreateExclusive(ctx, metadata.Name(1), b); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	s, err = t.read(ctx)
	if err == nil {
		t.hint(ctx, s.version)
	}
	return err
}

// read is refresh for a table that need not be open.
func (t *table) read(ctx context.Context) (*state, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.refreshLocked(ctx)
}

// What somebody else can do to a table while it is open. Neither is continued from memory: each look asks again, so a
// table that is put back is taken up.
var (
	ErrNoTable    = errors.New("there is no table")
	ErrOtherTable = errors.New("another table has been put in the place of the one that was there")
)

// refresh answers the table as it is now. It does not wait for a commit that is under way.
func (t *table) refresh(ctx context.Context) (*state, error) {
	if t.state.Load() == nil {
		return nil, ErrNotOpen
	}
	if s, err := t.newest(ctx, remoteFresh); s != nil || err != nil {
		return s, err
	}
	return t.read(ctx)
}

// ask is refresh that asks the store in every case.
func (t *table) ask(ctx context.Context) (*state, error) {
	if s, err := t.newest(ctx, 0); s != nil || err != nil {
		return s, err
	}
	t.doubt()
	return t.refresh(ctx)
}

// lately answers the table as this process last knew it to be, if that is not long ago. It is for work that asks again
// and again: in a bucket each question is a request. A process that commits learns of other commits by its next one.
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

// newest is the state we know if it is the newest, or was so less than that ago in a bucket; else nil.
func (t *table) newest(ctx context.Context, within time.Duration) (*state, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := t.state.Load()
	if s == nil {
		return nil, nil
	}
	if t.remote && t.isRecent(&t.checked, within) {
		return s, nil
	}
	later, err := t.store.Exists(ctx, metadata.Name(s.version+1))
	if err != nil || later {
		return nil, err
	}
	// Versions stay for a day in a bucket, so a successor could not have come and gone. In a directory old versions are
	// removed from below: a successor that came and went took this one along.
	if !t.remote || !t.isRecent(&t.stood, backgroundFresh) {
		if stands, err := t.stands(ctx, s); err != nil || !stands {
			return nil, err
		}
		t.touch(&t.stood)
	}
	t.touch(&t.checked)
	return s, nil
}

// stands says whether the version that a state was read from is there, and not another one by its name. Else somebody
// has emptied the table, or put a copy in its place.
func (t *table) stands(ctx context.Context, s *state) (bool, error) {
	end, err := t.store.ReadEnd(ctx, metadata.Name(s.read), metadata.SealLength)
	if isMissing(err) {
		return false, nil
	}
	return err == nil && string(end) == s.end, err
}

// endOf is the end of a metadata file.
func endOf(file []byte) string { return string(file[max(0, len(file)-metadata.SealLength):]) }

// doubt makes the next look ask the store.
func (t *table) doubt() {
	t.checked.Store(0)
	t.stood.Store(0)
}

// How old what we know of a table in a bucket may be. Commits need no fresher knowledge, for it is their conditional
// write that decides.
const (
	remoteFresh     = 2 * time.Second  // when somebody reads
	backgroundFresh = 15 * time.Second // for lately, and that the version is there at all
	committerFresh  = 5 * time.Minute  // for lately, in the process that commits
)

// isRecent says whether a moment that touch noted is less than d ago. One that lies ahead is not: the clock was set
// back, and what was read then would count as new for as long.
func (t *table) isRecent(at *atomic.Int64, d time.Duration) bool {
	ago := t.now().UnixNano() - at.Load()
	return at.Load() != 0 && ago >= 0 && ago < int64(d)
}

func (t *table) touch(at *atomic.Int64) { at.Store(t.now().UnixNano()) }

func (t *table) refreshLocked(ctx context.Context) (*state, error) {
	if s, err := t.newest(ctx, remoteFresh); s != nil || err != nil {
		return s, err
	}
	old, base := t.state.Load(), t.state.Load()
	if old != nil {
		stands, err := t.stands(ctx, old)
		if err != nil {
			return nil, err
		}
		if !stands {
			t.doubt()
			base = nil
		}
	}
	s, err := t.find(ctx, base)
	switch {
	case err != nil:
		return nil, err
	case old != nil && old.meta.TableUUID != s.meta.TableUUID:
		return nil, fmt.Errorf("%s: %w", t.layout.name, ErrOtherTable)
	case old != nil && base == nil && s.meta.LastUpdatedMS < old.meta.LastUpdatedMS:
		t.log.Error("an older copy of the table was put in its place", "version", s.version, "before", old.version)
		if t.putBack != nil {
			if err := t.putBack(ctx, time.UnixMilli(s.meta.LastUpdatedMS)); err != nil {
				return nil, err
			}
		}
	}
	t.state.Store(s)
	t.touch(&t.checked)
	t.touch(&t.stood)
	return s, nil
}

// find reads the newest version, from what is known of the table on; nil is nothing.
func (t *table) find(ctx context.Context, known *state) (*state, error) {
	if t.remote {
		versions, err := t.remoteVersions(ctx, known)
		if err != nil {
			return nil, err
		}
		s, err := t.load(ctx, versions, known)
		if err == nil && !s.damaged() || err != nil && !isMissing(err) && !errors.Is(err, metadata.ErrDamaged) {
			return s, err
		}
		// The hint is of another time than the versions: a copy that was made file by file.
	}
	versions, err := t.versions(ctx)
	for err == nil {
		s, lost := t.load(ctx, versions, known)
		if lost == nil && !s.damaged() {
			return s, nil
		}
		// An erasure may have deleted these versions after they were listed. Then there is a newer one.
		listed := versions[0]
		if versions, err = t.versions(ctx); err == nil && versions[0] == listed {
			if lost == nil {
				t.damage.Add(1)
				t.log.Error("table metadata is damaged", "version", s.version, "read", s.read)
			}
			return s, lost
		}
	}
	return nil, err
}

// remoteVersions finds the newest version of a table in a bucket without listing: from the one we know, or from the
// hint, it looks ahead in growing steps, and then between the last two. Versions have no gaps, for each is made by the
// condition that there is none by its name. Older ones follow, in case the newest are damaged.
func (t *table) remoteVersions(ctx context.Context, old *state) ([]int64, error) {
	least := int64(0)
	if old != nil {
		least = old.version
	} else if b, err := t.store.Read(ctx, metadata.HintName); err == nil {
		least, _ = strconv.ParseInt(string(b), 10, 64)
	} else if !isMissing(err) {
		return nil, err
	}
	if least == 0 {
		return t.versions(ctx)
	}
	most := least // the newest is in [least, most]
	for step := int64(1); ; step *= 4 {
		there, err := t.store.Exists(ctx, metadata.Name(least+step))
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
		there, err := t.store.Exists(ctx, metadata.Name(middle))
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
func (t *table) versions(ctx context.Context) ([]int64, error) {
	list, err := t.store.List(ctx, metadata.Dir, false)
	if err != nil {
		return nil, err
	}
	var out []int64
	for _, l := range list {
		if v, ok := metadata.VersionOf(l.Name); ok {
			out = append(out, v)
		}
	}
	slices.SortFunc(out, func(a, b int64) int { return cmp.Compare(b, a) })
	if len(out) == 0 {
		return nil, ErrNoTable
	}
	return out, nil
}

// load reads the newest version that can be read whole. Going back is safe: an older version has an older
// watermark, so the loader brings again what is missing, from the stream; and files are deleted only when two
// versions in a row no longer list them. Where no version is whole, the newest that can be read at all serves.
func (t *table) load(ctx context.Context, versions []int64, old *state) (*state, error) {
	var known []*manifest
	if old != nil {
		known = old.manifests
	}
	var partial *state
	var first error
	for _, v := range versions {
		s, err := t.loadVersion(ctx, v, known)
		switch {
		case err == nil && !slices.ContainsFunc(s.manifests, func(m *manifest) bool { return m.damaged != nil }):
			s.version = versions[0]
			return s, nil
		case err == nil && partial == nil:
			partial = s
			known = append(slices.Clone(known), s.manifests...)
		case err != nil && !errors.Is(err, metadata.ErrDamaged) && !isMissing(err):
			return nil, err
		case err != nil && first == nil:
			first = err
		}
	}
	if partial != nil {
		partial.version = versions[0]
		return partial, nil
	}
	return nil, fmt.Errorf("%s: no version of the table can be read: %w", t.layout.name, first)
}

func (t *table) loadVersion(ctx context.Context, version int64, known []*manifest) (*state, error) {
	b, err := t.store.Read(ctx, metadata.Name(version))
	if err != nil {
		return nil, err
	}
	meta, err := metadata.Decode(b)
	if err == nil {
		err = meta.Describe(t.layout.comment, t.layout.docs)
	}
	if err != nil {
		return nil, err
	}
	widened, err := meta.AddColumns(t.layout.columns())
	if err != nil {
		return nil, err
	}
	s := &state{version: version, read: version, end: endOf(b), meta: meta, widened: widened, progress: meta.Progress()}
	if s.manifests, err = t.readList(ctx, meta.Current(), known); err != nil {
		return nil, err
	}
	return s, nil
}
