package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"sluice/cmd/sluice/internal/tables"
	"sluice/internal/audit"
	"sluice/internal/backup"
	"sluice/internal/deletion"
	"sluice/internal/durable"
	"sluice/internal/engine"
	"sluice/internal/erasure"
	"sluice/internal/stream"
)

func newRestore() *cobra.Command {
	var r restorer
	var retention days
	cmd := &cobra.Command{
		Use: "restore DIR", Short: "Make a data directory, or a cluster, from a backup", Args: cobra.ExactArgs(1),
		Long: `Makes the data directory --data, which must not exist or be empty, from the backup in DIR; or, with --nats, a
cluster of NATS servers, or of an account there, that hold nothing of Sluice's. Keys, readers and submission ids
go on working. The tables hold what they held, the stream holds what was not loaded yet, and what is started on it
stores nothing twice: a retry with an Idempotency-Key gets the first answer, in a cluster 409 with the time of
the restore. With --lake the tables are copied there; a cluster needs it, unless its tables are in a bucket
already. Nothing is written into the backup.

Cursors of the feed stay valid if the backup is a final one: see sluice backup.

Until the restore is done the data directory holds the file restore.unfinished, and no other command uses the
directory: delete it and restore again. Servers with half a restore are not used either: run the same command
again, and it begins anew.

What was erased after the backup is in it still. Name a newer backup of the same service with --erasures:
what was erased until that was made is erased from the restored tables, too, and its suppression list is
the one that holds. A backup that is older, or of another service, is rejected. Datasets, keys, readers and the
console's password are those of DIR: revoke again what was revoked since.`,
		Example: `  sluice restore /backup/2026-11-15 --data /var/lib/sluice-new
  sluice restore /backup/move --nats tls://nats-1:4222 --lake s3://my-bucket/sluice ` +
			"--s3-region eu-central-1 --partitions 3",
	}
	f := cmd.Flags()
	f.StringVar(&r.newer, "erasures", "", "a newer backup; what was erased until then stays erased")
	f.IntVar(&r.replicas, "replicas", 0,
		"copies of everything in the cluster; default: as the cluster of the backup had, or 3")
	f.IntVar(&r.partitions, "partitions", 0,
		"partitions of the cluster's stream, at least as many as the backup has; 0 is as many")
	f.Var(&retention, "table-retention",
		"how long the tables of the cluster retain events; 0 is for ever; default: as the first node says")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r.cmd, r.from, r.target = cmd, args[0], engineOptions(cmd)
		for _, name := range []string{"replicas", "partitions", "table-retention"} {
			if f.Changed(name) && r.target.URL == "" {
				return fmt.Errorf("--%s is for a cluster: name its servers with --nats", name)
			}
		}
		if r.replicas < 0 || r.replicas > 5 {
			return errors.New("--replicas is 1 to 5")
		}
		if f.Changed("table-retention") {
			r.retention = cmp.Or(time.Duration(retention), -1)
		}
		if err := r.read(); err != nil {
			return failed(err)
		}
		if err := r.findTables(); err != nil {
			return err
		}
		if r.target.URL != "" {
			return failed(r.intoCluster())
		}
		return failed(r.intoDirectory())
	}
	return cmd
}

// restorer makes a service of a backup.
type restorer struct {
	cmd                  *cobra.Command
	from, newer          string // directories of backups
	newerMade            time.Time
	replicas, partitions int // 0 is not said
	retention            time.Duration

	info   backupInfo
	target engine.Options
	place  tables.Location        // of the tables
	ends   map[uint8]uint64       // of tables that are not in the backup: the last frame of each partition in them
	copies []engine.PartitionCopy // of the stream
}

// readInfo reads what a backup is.
func readInfo(dir string) (info backupInfo, err error) {
	b, err := os.ReadFile(filepath.Join(dir, backupName))
	if err == nil {
		err = json.Unmarshal(b, &info)
	}
	switch {
	case err != nil || info.Format < 1:
		return info, fmt.Errorf("%s is not a whole backup", dir)
	case info.Format > backupFormat:
		return info, fmt.Errorf("the backup in %s has format %d, this program knows %d: use the sluice that made it "+
			"(%.40s), or a newer one", dir, info.Format, backupFormat, info.Program)
	}
	return info, nil
}

// read reads what the backup is, and looks whether it can be restored as far as that can be seen: before anything is
// written. The tables and the frames are read when they are copied.
func (r *restorer) read() (err error) {
	if r.info, err = readInfo(r.from); err != nil {
		return err
	}
	if r.partitions == 0 {
		r.partitions = r.info.Stream
	}
	if r.partitions < r.info.Stream || r.partitions > engine.MaxPartitions {
		return fmt.Errorf("the backup has %d partitions: --partitions is %d to %d", r.info.Stream, r.info.Stream,
			engine.MaxPartitions)
	}
	if r.copies, err = backup.PartitionCopies(r.streamDir(), r.info.Stream); err != nil {
		return err
	}
	err = errors.Join(backup.CheckRegistry(filepath.Join(r.from, registryName)), backup.CheckErased(r.from),
		audit.Check(r.from))
	if err == nil && r.newer != "" {
		err = r.readNewer()
	}
	return err
}

// readNewer looks at the backup of --erasures. One that is older, or of another service, would let people come back: it
// has fewer tombstones, and its suppression list takes the place of the other.
func (r *restorer) readNewer() error {
	info, err := readInfo(r.newer)
	if err == nil {
		err = backup.SameService(filepath.Join(r.from, registryName), filepath.Join(r.newer, registryName))
	}
	if err != nil {
		return fmt.Errorf("--erasures %s: %w", r.newer, err)
	}
	if info.Made.Before(r.info.Made) {
		return fmt.Errorf("--erasures names a backup of %s, which is older than the one to restore, of %s: swap the two, "+
			"sluice restore %s --erasures %s", info.Made.Format(time.RFC3339), r.info.Made.Format(time.RFC3339), r.newer, r.from)
	}
	r.newerMade = info.Made
	return nil
}

func (r *restorer) streamDir() string { return filepath.Join(r.from, "stream") }

// copied says whether the backup has the tables.
func (r *restorer) copied() bool { return r.info.Tables == "copied" }

// findTables decides where the tables will be.
func (r *restorer) findTables() (err error) {
	if r.place, err = saidPlace(r.cmd); err != nil || r.place != (tables.Location{}) {
		return err
	}
	switch {
	case !r.copied():
		r.place, err = parsePlace(r.cmd, "the place of the backup's tables", r.info.Tables)
	case r.target.URL != "":
		err = errors.New("--lake says where the tables of the cluster go")
	default:
		r.place.Dir = filepath.Join(r.target.Dir, "lake")
	}
	return err
}

// intoDirectory restores into a data directory. The order: the marker, everything, and the marker goes. A crash before
// that leaves a directory that no command uses.
func (r *restorer) intoDirectory() error {
	dir := r.target.Dir
	if err := unfinished(dir); err != nil {
		return err
	}
	if err := emptyDir(dir); err != nil {
		return err
	}
	marker := filepath.Join(dir, restoreMarker)
	if err := durable.WriteFile(marker, []byte("sluice restore has not finished in this directory.\n")); err != nil {
		return err
	}
	if err := r.fill(); err != nil {
		return fmt.Errorf("%w\n%w", err, errUnfinished(dir))
	}
	if err := errors.Join(os.Remove(marker), durable.Sync(dir)); err != nil {
		return err
	}
	r.say("sluice serve --data " + dir)
	return nil
}

// intoCluster restores into NATS servers. The comment of engine.Restore has the order.
func (r *restorer) intoCluster() error {
	r.target.Dir, r.target.Restore, r.target.Replicas = "", true, cmp.Or(r.replicas, 3)
	if before := r.info.Cluster; before != nil {
		r.target.Replicas = cmp.Or(r.replicas, before.Replicas)
	}
	if err := r.fill(); err != nil {
		return err
	}
	r.say(fmt.Sprintf("sluice serve --nats … --lake %s, on each node", r.place))
	return nil
}

// say says that it is done, what the stream lacks, and how to go on. In a cluster the log of a node may not say what it
// lacks: the keys are stored under numbers that the tables know.
func (r *restorer) say(start string) {
	for p, c := range r.copies {
		if end := r.ends[uint8(p)]; c.Last < end {
			fmt.Fprintf(r.cmd.ErrOrStderr(), "Partition %d: the stream ends before the tables do: it has frames up to %d, they "+
				"up to %d. All events up to there are stored.\n", p, c.Last, end)
		}
	}
	made := r.info.Made.Format(time.RFC3339)
	if !r.info.Final {
		fmt.Fprintf(r.cmd.ErrOrStderr(), "Datasets, keys, readers and the console's password are those of %s: what was "+
			"disabled or revoked since works again, until you do that again.\n", made)
	}
	fmt.Fprintf(r.cmd.ErrOrStderr(), "The backup of %s is restored. Start it with: %s\n", made, start)
}

// restoreMarker is in a data directory while it is restored: half of a service must not be taken for one.
const restoreMarker = "restore.unfinished"

// unfinished is an error for a directory in which a restore has not finished.
func unfinished(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, restoreMarker)); err != nil {
		return nil // there is none, or whoever uses the directory says what is wrong with it
	}
	return failed(errUnfinished(dir))
}

func errUnfinished(dir string) error {
	return fmt.Errorf("a restore into %s has not finished: if none is running, delete the directory and "+
		"restore again", dir)
}

// usable keeps every command off a data directory in which a restore has not finished, or whose service has moved: but
// for those that have to do with it, or with no directory.
func usable(cmd *cobra.Command) error {
	dir := flagText(cmd, "data")
	if slices.Contains([]string{"restore", "version", "health"}, cmd.Name()) {
		return nil
	}
	if err := unfinished(dir); err != nil {
		return err
	}
	for _, name := range []string{"final", "undo-final"} {
		if set, err := cmd.Flags().GetBool(name); err == nil && set {
			return nil
		}
	}
	if _, err := os.Stat(filepath.Join(dir, finalMark)); err != nil {
		return nil
	}
	return failed(fmt.Errorf("a final backup of %s was made, and its service goes on where that is restored. "+
		"To go on here instead, run: sluice backup --undo-final --data %s", dir, dir))
}

// fill opens the engine and stores everything in it.
func (r *restorer) fill() error {
	ctx := r.cmd.Context()
	e, err := engine.Open(ctx, r.target)
	if err != nil {
		return err
	}
	err = e.Restore(ctx, func(ctx context.Context, c *engine.Record) error {
		erased := func(ctx context.Context, e *engine.Engine) error { return backup.RestoreErased(ctx, e, r.from) }
		steps := []func(context.Context, *engine.Engine) error{r.tables, r.registry, r.stream, erased, r.erase, r.note}
		for _, step := range steps {
			if err := step(ctx, e); err != nil && e.Mode() == engine.External {
				return fmt.Errorf("%w\n%w", err, engine.ErrUnfinished)
			} else if err != nil {
				return err
			}
		}
		return r.record(ctx, e, c)
	})
	return errors.Join(err, e.Close())
}

// tables copies the tables of the backup, or looks whether they are where they shall be.
func (r *restorer) tables(ctx context.Context, e *engine.Engine) error {
	if r.copied() {
		l, err := lakeToRead(ctx, tables.Location{Dir: filepath.Join(r.from, "lake")}, "")
		if err != nil {
			return err
		}
		store, err := r.place.Open(ctx)
		if err != nil {
			return err
		}
		return l.CopyTo(ctx, store, progress(r.cmd, "copied"))
	}
	if said, err := saidPlace(r.cmd); e.Mode() != engine.External && said == (tables.Location{}) {
		return err // the server says it, when they can be reached
	}
	id, ends, err := tables.There(ctx, r.place)
	r.ends = ends
	if err == nil && id != r.info.TablesID {
		err = fmt.Errorf("the tables of the backup are not at %s: copy them there with sluice lake copy --to, or name their "+
			"place with --lake", r.place)
	}
	return err
}

// registry restores what is in buckets, and the audit log.
func (r *restorer) registry(ctx context.Context, e *engine.Engine) error {
	err := backup.RestoreRegistry(ctx, e, filepath.Join(r.from, registryName))
	if err == nil && r.newer != "" {
		if err := backup.AdoptErasures(ctx, e, filepath.Join(r.newer, registryName)); err != nil {
			return fmt.Errorf("--erasures: %w", err)
		}
		err = mendDatasets(ctx, e) // datasets that were deleted since end here, too
	}
	if err != nil {
		return err
	}
	return audit.Restore(ctx, e, r.from)
}

// stream restores the stream, without what was erased since.
func (r *restorer) stream(ctx context.Context, e *engine.Engine) error {
	keep, err := backup.WithoutErased(ctx, e)
	if err != nil {
		return err
	}
	return stream.Restore(ctx, e, stream.RestoreOptions{
		Partitions: r.partitions, Copies: r.copies, Keep: keep, Step: hooks.Step,
		Open: func(p uint8) (io.ReadCloser, error) {
			_, frames := backup.PartitionFiles(r.streamDir(), int(p))
			return os.Open(frames)
		},
	})
}

// erase erases from restored tables what the tombstones say. The server looks after tables that are elsewhere.
func (r *restorer) erase(ctx context.Context, e *engine.Engine) error {
	if !r.copied() {
		return nil
	}
	l, err := lakeOf(ctx, r.place, "")
	if err != nil {
		return err
	}
	t, err := erasure.Open(ctx, e)
	if err != nil {
		return err
	}
	done, err := deletion.Apply(ctx, t, l, hooks.now(), nil)
	if err != nil {
		return fmt.Errorf("erase again what was erased: %w", err)
	}
	if done.Rows > 0 {
		fmt.Fprintf(r.cmd.ErrOrStderr(), "%d rows of the backup were erased after it was made. They are erased again.\n",
			done.Rows)
	}
	return nil
}

func (r *restorer) note(ctx context.Context, e *engine.Engine) error {
	log, err := audit.Open(ctx, e)
	if err != nil {
		return err
	}
	detail := map[string]string{"made": r.info.Made.Format(time.RFC3339)}
	if r.newer != "" {
		detail["erasures"] = r.newerMade.Format(time.RFC3339)
	}
	err = note(ctx, log, "restore", "", detail)
	if errors.Is(err, audit.ErrTampered) { // its events are not the worse for it
		fmt.Fprintln(r.cmd.ErrOrStderr(), "the audit log of the backup was changed: sluice audit verify names the entry")
		return nil
	}
	return err
}

// record notes where the tables are, and completes the record of a cluster.
func (r *restorer) record(ctx context.Context, e *engine.Engine, c *engine.Record) (err error) {
	if e.Mode() != engine.External {
		return tables.Move(ctx, e, r.target.Dir, r.place)
	}
	if before := r.info.Cluster; before != nil {
		c.MaxKeys, c.TableRetention, c.SnapshotRetention = before.MaxKeys, before.TableRetention, before.SnapshotRetention
	}
	first := r.copies[0]
	c.Stream, c.Partitions, c.StreamRetention, c.MaxStream = first.Stream, r.partitions, first.MaxAge, first.MaxBytes
	c.TableRetention = cmp.Or(r.retention, c.TableRetention)
	c.LakeID = r.info.TablesID
	c.Lake, err = r.place.Address()
	return err
}
