package engine

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"sluice/internal/durable"
)

// Join moves everything of an embedded engine into an external one that holds nothing of Sluice's. The order of writes, and
// what a crash behind each leaves:
//
//  1. The record of the external engine says that a join was begun, and of which stream. No node starts there any more. The
//     directory can still be used: nothing was copied.
//  2. The directory notes the cluster, and that it is being moved. It starts no engine of its own any more.
//  3. The buckets and the journal are copied here, frames and keys by package stream. Each can be copied again, and
//     continues where it ended.
//  4. The record of the cluster takes the place of the one of the join. This is the instant of the move: nodes can start.
//  5. The directory notes that it was moved.
//
// After a crash the same join again does what is missing. Undo goes back until step 4.
type Join struct {
	Record Record    // of the cluster
	State  JoinState // when it was planned
	Origin Origin    // the stream that is moved

	// Step is called before each named step, with join.record, join.note, join.bucket (each), join.journal, join.finish and
	// join.noted for the gaps before steps 1 to 5. Its error ends the join there. nil is for none.
	Step func(name string) error

	from, to *Engine
	ends     []uint64 // number of the newest frame of each partition of the embedded engine
	revision uint64   // of the join's record; 0 where there is none yet
}

// JoinState is how far a join was when it was planned.
type JoinState uint8

// The states.
const (
	JoinNew      JoinState = iota // nothing was done yet
	JoinBegun                     // an earlier one was interrupted
	JoinFinished                  // the cluster has everything
)

var (
	// ErrJoining means that the external engine does not have everything of a directory yet.
	ErrJoining = errors.New("a data directory is being moved into this cluster: finish that with sluice cluster join on that directory, or give it up with the same and --undo")
	// ErrOccupied means that a directory cannot be moved into an engine because of what that holds.
	ErrOccupied = errors.New("the NATS servers hold data of Sluice's already")
)

// joining is what the bucket of settings holds instead of the record until the join is finished. An earlier version finds no
// number of replicas in it, and stops.
type joining struct {
	Join *joinRecord `json:"join,omitempty"`
}

type joinRecord struct {
	Stream string   `json:"stream"` // identity of the stream that is moved
	Ends   []uint64 `json:"ends"`   // number of the newest frame of each of its partitions
	Record Record   `json:"record"`
}

// PlanJoin says what a join has to do. It changes nothing. Both engines were opened with Options.Join. What want does not
// say is as in the embedded engine; the copies must be said.
func PlanJoin(ctx context.Context, from, to *Engine, want Record) (*Join, error) {
	if from.mode == Attached {
		return nil, fmt.Errorf("a server runs on %s: stop it first", from.o.Dir)
	}
	if from.mode != Embedded || to.mode != External {
		return nil, errors.New("a join goes from an embedded engine to an external one")
	}
	j := &Join{from: from, to: to, Record: want}
	if err := j.describe(ctx); err != nil {
		return nil, err
	}
	dir, err := readMembership(from.o.Dir)
	if err == nil && dir.Join == joinUndo {
		err = dir.refusal(from.o.Dir)
	}
	if err != nil {
		return nil, err
	}
	return j, j.compare(ctx, dir)
}

// describe completes the record from the embedded engine.
func (j *Join) describe(ctx context.Context) error {
	there, err := j.from.findPartitions(ctx)
	if err != nil {
		return err
	}
	if len(there) == 0 {
		return fmt.Errorf("the data directory %s holds no stream: start sluice serve on it once, or name another one with --data", j.from.o.Dir)
	}
	r := &j.Record
	switch {
	case r.Partitions == 0:
		r.Partitions = len(there)
	case r.Partitions < len(there) || r.Partitions > MaxPartitions:
		return fmt.Errorf("%w: there are %d, and there can be %d to %d", ErrPartitions, len(there), len(there), MaxPartitions)
	}
	for p := range there {
		st, err := j.from.js.Stream(ctx, partitionName(uint8(p)))
		if err != nil {
			return translate(err)
		}
		j.ends = append(j.ends, st.CachedInfo().State.LastSeq)
		if p == 0 {
			j.Origin.Created = st.CachedInfo().Created
		}
	}
	if r.StreamRetention == 0 {
		r.StreamRetention = there[0].MaxAge
	}
	if r.MaxStream == 0 {
		r.MaxStream = max(-1, there[0].MaxBytes)
	}
	if j.Origin.ID, err = j.from.identity(ctx); err != nil {
		return err
	}
	r.Stream = j.Origin.ID
	return nil
}

// compare holds the directory against what the external engine holds.
func (j *Join) compare(ctx context.Context, dir membership) error {
	there, revision, err := j.to.readJoin(ctx)
	switch {
	case errors.Is(err, ErrNotFound):
		return j.compareEmpty(ctx, dir)
	case err != nil:
		return err
	case there.Join == nil: // a cluster
		if dir.Cluster != there.Cluster || dir.Join == "" {
			return fmt.Errorf("%w: the cluster %s. A directory can only be moved to servers, or to an account, without a cluster", ErrOccupied, there.Cluster)
		}
		j.State, j.Record = JoinFinished, there.Record
		return nil
	case there.Join.Stream != j.Origin.ID:
		return fmt.Errorf("%w: another data directory is being moved there", ErrOccupied)
	case dir.Cluster != "" && dir.Cluster != there.Cluster:
		return fmt.Errorf("%w: a move into them was begun, and another one into the cluster %s", ErrOccupied, dir.Cluster)
	}
	j.revision = revision
	if dir.Cluster == "" { // a crash between step 1 and step 2; or somebody has deleted the note of step 2
		return j.onlySettings(ctx)
	}
	if !slices.Equal(there.Join.Ends, j.ends) {
		return errUsedSince
	}
	if err := there.Join.Record.differences(&j.Record); err != nil {
		return fmt.Errorf("the move was begun with other flags: %w", err)
	}
	j.State, j.Record = JoinBegun, there.Join.Record
	return nil
}

// errUsedSince means a copy that is not the beginning of what it was copied from.
var errUsedSince = errors.New("a move of this data directory into these NATS servers was begun, and the directory was used since then: delete what was copied with --undo, then begin again")

// compareEmpty is compare for an external engine without a record.
func (j *Join) compareEmpty(ctx context.Context, dir membership) error {
	if dir.Cluster != "" {
		return dir.missing(j.from.o.Dir)
	}
	return j.onlySettings(ctx)
}

// missing says that the servers do not have the cluster that the directory is, or was, moved into. That cluster may be
// complete elsewhere, so the program does not decide that it is gone.
func (m *membership) missing(dir string) error {
	return fmt.Errorf("the data directory %s was being moved into the cluster %s, and the servers at --nats do not have it: name the right servers. "+
		"Only if that cluster is gone for good, delete %s: then the directory starts as before", dir, m.Cluster, filepath.Join(dir, clusterName))
}

// onlySettings returns an error if the external engine holds more than the bucket of settings, which a join, or a node, left
// that got no further.
func (j *Join) onlySettings(ctx context.Context) error {
	names, err := j.to.ourStreams(ctx)
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == settingsStream })
	switch {
	case len(names) == 0:
		return nil
	case j.revision != 0:
		return errUsedSince
	}
	return fmt.Errorf("%w: %s and no configuration of a cluster", ErrOccupied, names[0])
}

// settingsStream is the stream of the bucket of settings.
var settingsStream = "KV_" + buckets[Settings].name

// anyRecord is what the bucket of settings can hold: the record of a cluster, or the one of a join, with the cluster's name.
type anyRecord struct {
	Record
	joining
}

// readJoin reads the record, also one of a join.
func (e *Engine) readJoin(ctx context.Context) (r anyRecord, revision uint64, err error) {
	kv, err := e.js.KeyValue(ctx, buckets[Settings].name)
	if err != nil {
		return r, 0, translate(err)
	}
	found, err := (&Bucket{name: buckets[Settings].name, js: e.js, kv: kv}).Get(ctx, recordKey)
	if err != nil {
		return r, 0, err
	}
	if err := json.Unmarshal(found.Value, &r); err != nil || r.Cluster == "" {
		return r, 0, errors.New("the cluster's configuration in the engine cannot be read")
	}
	return r, found.Revision, nil
}

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

// step tells Step where the join is.
func (j *Join) step(name string) error {
	if j.Step == nil {
		return nil
	}
	return j.Step("join." + name)
}

// Begin does steps 1 and 2.
func (j *Join) Begin(ctx context.Context) error {
	if j.State == JoinNew {
		if err := j.step("record"); err != nil {
			return err
		}
		if err := j.writeBegun(ctx); err != nil {
			return err
		}
	}
	if err := j.step("note"); err != nil {
		return err
	}
	return writeMembership(j.from.o.Dir, membership{Cluster: j.Record.Cluster, Join: joinBegun})
}

// writeBegun writes the record of the join.
func (j *Join) writeBegun(ctx context.Context) error {
	b, err := j.to.Bucket(ctx, Settings)
	if err != nil {
		return fmt.Errorf("with %d replicas: %w", j.Record.Replicas, err)
	}
	j.Record.Cluster = rand.Text()
	data, err := json.Marshal(struct {
		Cluster string `json:"cluster"`
		joining
	}{j.Record.Cluster, joining{&joinRecord{j.Origin.ID, j.ends, j.Record}}})
	if err != nil {
		return err
	}
	if j.revision == 0 {
		j.revision, err = b.Create(ctx, recordKey, data)
	} else {
		j.revision, err = b.Update(ctx, recordKey, data, j.revision)
	}
	if errors.Is(err, ErrExists) || errors.Is(err, ErrRevision) {
		return fmt.Errorf("%w: a node or another move was started on them just now", ErrOccupied)
	}
	if err != nil {
		return fmt.Errorf("begin the move: %w", err)
	}
	return nil
}

// movedBuckets are those that a join copies. Leases and heartbeats are of processes.
var movedBuckets = []Kind{Settings, Datasets, Readers, KeyUse, Erasures, StreamEnds}

// CopyBuckets makes the external engine's buckets as the embedded engine's are. It returns how many entries they have.
func (j *Join) CopyBuckets(ctx context.Context) (entries int, err error) {
	for _, k := range movedBuckets {
		if err := j.step("bucket"); err != nil {
			return entries, err
		}
		n, err := copyBucket(ctx, j.from, j.to, k)
		if err != nil {
			return entries, fmt.Errorf("copy %s: %w", buckets[k].name, err)
		}
		entries += n
	}
	return entries, nil
}

func copyBucket(ctx context.Context, from, to *Engine, k Kind) (int, error) {
	source, err := from.Bucket(ctx, k)
	if err != nil {
		return 0, err
	}
	target, err := to.Bucket(ctx, k)
	if err != nil {
		return 0, err
	}
	wanted, err := source.All(ctx)
	if err != nil {
		return 0, err
	}
	there, err := target.All(ctx)
	if err != nil {
		return 0, err
	}
	values := map[string]string{}
	for _, e := range there {
		values[e.Key] = string(e.Value)
	}
	for _, e := range wanted {
		value, known := values[e.Key]
		delete(values, e.Key)
		if known && value == string(e.Value) || k == Settings && e.Key == recordKey {
			continue
		}
		if _, err := target.Put(ctx, e.Key, e.Value); err != nil {
			return 0, err
		}
	}
	for key := range values { // deleted since an interrupted join, which somebody gave up by hand
		if k == Settings && key == recordKey {
			continue
		}
		if err := target.Delete(ctx, key, 0); err != nil {
			return 0, err
		}
	}
	return len(wanted), nil
}

// CopyJournal copies the journal: every entry keeps its number, because entries name each other by it. It returns how many
// there are.
func (j *Join) CopyJournal(ctx context.Context) (entries uint64, err error) {
	source, err := j.from.Journal(ctx)
	if err != nil {
		return 0, err
	}
	first, last, err := source.Ends(ctx)
	if err != nil {
		return 0, err
	}
	if err := j.step("journal"); err != nil {
		return 0, err
	}
	target, err := j.to.journalFrom(ctx, first)
	if err != nil {
		return 0, err
	}
	_, there, err := target.Ends(ctx)
	if err != nil {
		return 0, err
	}
	var run [][]byte
	flush := func() error {
		there, err = target.p.PublishRun(ctx, there, run)
		run = run[:0]
		return err
	}
	err = source.Scan(ctx, there+1, func(_ uint64, entry []byte) error {
		if run = append(run, entry); len(run) < 256 { // arbitrary: few syncs, little memory
			return nil
		}
		return flush()
	})
	if err == nil && len(run) > 0 {
		err = flush()
	}
	if err == nil && there != last {
		err = fmt.Errorf("it ends at entry %d, want %d", there, last)
	}
	if err != nil {
		return 0, fmt.Errorf("copy %s: %w", journalName, err)
	}
	return last - first + 1, nil
}

// journalFrom makes the journal with its first entry under a number. A journal cannot be purged, so that nobody deletes from
// it: one that does not begin with 1 is made before that is forbidden.
func (e *Engine) journalFrom(ctx context.Context, first uint64) (*Journal, error) {
	if first > 1 {
		cfg := e.journalConfig()
		cfg.DenyPurge = false
		made, err := e.js.CreateStream(ctx, cfg)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			made, err = e.js.Stream(ctx, journalName)
		}
		if err == nil && !made.CachedInfo().Config.DenyPurge {
			if err = made.Purge(ctx, jetstream.WithPurgeSequence(first)); err == nil {
				_, err = e.js.UpdateStream(ctx, e.journalConfig())
			}
		}
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", journalName, translate(err))
		}
	}
	return e.Journal(ctx)
}

// Finish does steps 4 and 5. Everything is copied.
func (j *Join) Finish(ctx context.Context) error {
	if j.State != JoinFinished {
		if err := j.step("finish"); err != nil {
			return err
		}
		b, err := j.to.Bucket(ctx, Settings)
		if err != nil {
			return err
		}
		if err := writeRecord(ctx, b, j.Record, j.revision); err != nil {
			return fmt.Errorf("finish the move: %w; run the same command again", err)
		}
	}
	if err := j.step("noted"); err != nil {
		return err
	}
	return writeMembership(j.from.o.Dir, membership{Cluster: j.Record.Cluster, Join: joinDone})
}

// UndoJoin gives up a join that is not finished: it deletes what was copied, then the directory's note. After a crash the
// same again does what is missing. step is like Join.Step, with join.undo (before each deletion) and join.undone.
func UndoJoin(ctx context.Context, from, to *Engine, step func(string) error) error {
	j := &Join{from: from, to: to, Step: step}
	if from.mode != Embedded || to.mode != External {
		return fmt.Errorf("a server runs on %s: stop it first", from.o.Dir)
	}
	dir, err := readMembership(from.o.Dir)
	if err != nil {
		return err
	}
	if dir.Cluster != "" && dir.Join == "" {
		return fmt.Errorf("the data directory %s is the one of a node of the cluster %s, and was not moved there", from.o.Dir, dir.Cluster)
	}
	there, _, err := to.readJoin(ctx)
	switch {
	case errors.Is(err, ErrNotFound) && (dir.Join == joinBegun || dir.Join == joinDone):
		return dir.missing(from.o.Dir)
	case errors.Is(err, ErrNotFound): // nothing was begun, or everything is deleted
	case err != nil:
		return err
	case dir.Join == joinUndo && dir.Cluster != there.Cluster: // everything is deleted, and the servers are used again
	case there.Join == nil || dir.Join == joinDone:
		return fmt.Errorf("the move into the cluster %s is finished: its nodes may have accepted events that the directory does not have", there.Cluster)
	case dir.Cluster != "" && dir.Cluster != there.Cluster:
		return fmt.Errorf("the servers at --nats have a move into the cluster %s, and the directory is being moved into the cluster %s: name the right servers", there.Cluster, dir.Cluster)
	default:
		if id, err := from.identity(ctx); err != nil || id != there.Join.Stream {
			return errors.Join(err, errors.New("the servers at --nats have a move of another data directory"))
		}
		if err := j.deleteCopy(ctx, there.Cluster); err != nil {
			return fmt.Errorf("delete what was copied: %w", err)
		}
	}
	if err := j.step("undone"); err != nil {
		return err
	}
	err = os.Remove(filepath.Join(from.o.Dir, clusterName))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return errors.Join(err, durable.Sync(from.o.Dir))
}

// deleteCopy notes in the directory that the join is given up. Then it deletes everything of Sluice's from the external
// engine. While the record of a join is there, nobody else stores anything: so that goes last.
func (j *Join) deleteCopy(ctx context.Context, cluster string) error {
	if err := writeMembership(j.from.o.Dir, membership{Cluster: cluster, Join: joinUndo}); err != nil {
		return err
	}
	names, err := j.to.ourStreams(ctx)
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == settingsStream })
	for _, name := range append(names, settingsStream) {
		if err := j.step("undo"); err != nil {
			return err
		}
		if err := j.to.js.DeleteStream(ctx, name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return translate(err)
		}
	}
	return nil
}
