package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/audit"
	"sluice/internal/console"
	"sluice/internal/engine"
	"sluice/internal/lake"
	"sluice/internal/stream"
)

func newClusterJoin() *cobra.Command {
	var replicas, partitions int
	var dryRun, undo bool
	cmd := &cobra.Command{
		Use:   "join",
		Short: "Move a data directory with an embedded engine into a new cluster",
		Long: `Moves everything that the embedded engine of --data holds to the NATS servers at --nats: the stream with the events
that are not in the tables yet, datasets, keys, readers, secrets, the console's password, the audit log,
tombstones and idempotency keys. Receipts, keys, retries and cursors of the feed work with the cluster as they
did before. The tables are not moved: see sluice lake copy. With --lake the cluster will use the tables at that
place, which must be there. Without it they must be in the directory, and the first node says where they are.

Stop the server on the directory first. The NATS servers, or the account there, must hold nothing of Sluice's.
The command can be interrupted and run again: it goes on where it ended. Until it is finished neither the
directory nor the cluster can be used, and --undo gives it up: it deletes what was copied, and the directory
can be used again. When it is finished, start the nodes with --nats. The directory stays as it is and does not
start by itself any more.`,
		Example: `  sluice cluster join --data /var/lib/sluice --nats nats://10.0.0.1:4222 --dry-run
  sluice cluster join --data /var/lib/sluice --nats nats://10.0.0.1:4222 --partitions 3`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.IntVar(&replicas, "replicas", 3, "copies of everything in the engine")
	f.IntVar(&partitions, "partitions", 0, "partitions of the stream, at least as many as the directory has; 0 is as many")
	f.BoolVar(&dryRun, "dry-run", false, "say what would be moved and what prevents it, and change nothing")
	f.BoolVar(&undo, "undo", false, "give up a move that is not finished")
	cmd.MarkFlagsMutuallyExclusive("dry-run", "undo")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if replicas < 1 || replicas > 5 {
			return errors.New("--replicas is 1 to 5")
		}
		if engineOptions(cmd).URL == "" {
			return errors.New("--nats names the servers to move to")
		}
		j := joiner{cmd: cmd, want: engine.Record{Replicas: replicas, Partitions: partitions}}
		if err := j.open(); err != nil {
			return failed(err)
		}
		defer j.close()
		switch {
		case undo:
			return failed(j.undo())
		case dryRun:
			return failed(j.describe())
		}
		return failed(j.move())
	}
	return cmd
}

// joiner moves a data directory into a cluster.
type joiner struct {
	cmd      *cobra.Command
	dir      string
	from, to *engine.Engine
	want     engine.Record
}

func (j *joiner) open() (err error) {
	o := engineOptions(j.cmd)
	j.dir = o.Dir
	if holds, err := engine.HoldsStream(j.dir); err != nil || !holds {
		return errors.Join(err, fmt.Errorf("the data directory %s holds no embedded engine with a stream: name the one of the server with --data", j.dir))
	}
	ctx := j.cmd.Context()
	if j.from, err = engine.Open(ctx, engine.Options{Dir: j.dir, Join: true}); err != nil {
		return err
	}
	o.Dir, o.Join, o.Replicas = "", true, j.want.Replicas
	if j.to, err = engine.Open(ctx, o); err != nil {
		return errors.Join(err, j.from.Close())
	}
	return nil
}

func (j *joiner) close() {
	_ = j.to.Close() // a connection
	if err := j.from.Close(); err != nil {
		j.say("%v\n", err)
	}
}

func (j *joiner) say(format string, args ...any) { fmt.Fprintf(j.cmd.ErrOrStderr(), format, args...) }

// plan finds out what there is to do, and what prevents it.
func (j *joiner) plan() (*engine.Join, error) {
	if err := j.tables(); err != nil {
		return nil, err
	}
	plan, err := engine.PlanJoin(j.cmd.Context(), j.from, j.to, j.want)
	if err != nil {
		return nil, err
	}
	plan.Step = hooks.step
	if plan.State == engine.JoinNew {
		err = j.storage()
	}
	return plan, err
}

// tables finds the identity of the tables, so that no node can load into others.
func (j *joiner) tables() error {
	ctx := j.cmd.Context()
	place, err := placeOfLake(j.cmd)
	if err != nil {
		return err
	}
	beside := lakePlace{dir: filepath.Join(j.dir, "lake")}
	own, err := tablesThere(ctx, beside)
	if err != nil {
		return err
	}
	if place == beside {
		if own == "" {
			return fmt.Errorf("there are no tables in %s: name the place of the server's tables with --lake", place)
		}
		j.want.LakeID = own
		return nil
	}
	there, err := tablesThere(ctx, place)
	switch {
	case err != nil:
		return err
	case there == "":
		return fmt.Errorf("there are no tables at %s: copy them with sluice lake copy --to first, or leave --lake out and copy them later", place)
	case own != "" && own != there:
		return fmt.Errorf("the tables at %s are not a copy of those in %s: make one with sluice lake copy --to, at an empty place", place, beside)
	}
	j.want.LakeID = there
	j.want.Lake, err = place.address()
	return err
}

// tablesThere is the identity of the tables at a place, "" where there are none.
func tablesThere(ctx context.Context, place lakePlace) (string, error) {
	if _, err := os.Stat(place.dir); place.dir != "" && errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	store, err := place.open(ctx)
	if err != nil {
		return "", err
	}
	return lake.Identity(store)
}

// storage rejects an account that cannot hold what is moved.
func (j *joiner) storage() error {
	ctx := j.cmd.Context()
	streams, err := j.from.Streams(ctx)
	if err != nil {
		return err
	}
	used, limit, err := j.to.Storage(ctx)
	if err != nil {
		return err
	}
	need := used
	for _, s := range streams {
		need += int64(s.Bytes)
	}
	if limit > 0 && need > limit {
		return fmt.Errorf("the account at --nats may store %d bytes, and would hold at least %d: raise its limit", limit, need)
	}
	return nil
}

// describe says what would be moved.
func (j *joiner) describe() error {
	plan, err := j.plan()
	if err != nil {
		return err
	}
	if plan.State == engine.JoinFinished {
		j.say("The data directory is in the cluster %s already. Nothing would be moved.\n", plan.Record.Cluster)
		return nil
	}
	streams, err := j.from.Streams(j.cmd.Context())
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(j.cmd.OutOrStdout(), 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "STREAM\tMESSAGES\tBYTES")
	for _, s := range streams {
		if s.Err != nil {
			return s.Err
		}
		fmt.Fprintf(w, "%s\t%d\t%d\n", s.Name, s.Messages, s.Bytes)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	r := plan.Record
	if plan.State == engine.JoinBegun {
		j.say("A move was begun. The same command without --dry-run finishes it.\n")
	}
	j.say("This would become a cluster with %d partitions, %d replicas and a stream retention of %v. Nothing prevents it, and nothing was changed.\n",
		r.Partitions, r.Replicas, r.StreamRetention)
	return nil
}

// undo gives up a move.
func (j *joiner) undo() error {
	ctx := j.cmd.Context()
	if err := engine.UndoJoin(ctx, j.from, j.to, hooks.step); err != nil {
		return err
	}
	log, err := j.openAudit(ctx)
	if err != nil {
		return fmt.Errorf("done, but not in the audit log: %w", err)
	}
	if err := note(ctx, log, "cluster.join.undo", "", nil); err != nil {
		return err
	}
	j.say("The move is given up. Start the directory as before with: sluice serve --data %s\n", j.dir)
	return nil
}

// openAudit opens the audit log of the directory, and takes over what an earlier version wrote into files.
func (j *joiner) openAudit(ctx context.Context) (*audit.Log, error) {
	return audit.Open(ctx, j.from, j.dir, hooks.now())
}

// move does everything that is missing. The comment of engine.Join gives the order of the writes.
func (j *joiner) move() error {
	plan, err := j.plan()
	if err != nil {
		return err
	}
	if plan.State == engine.JoinFinished {
		if err := plan.Finish(j.cmd.Context()); err != nil {
			return err
		}
		j.say("The data directory is in the cluster %s. Start its nodes with --nats.\n", plan.Record.Cluster)
		return nil
	}
	if err := j.begin(plan); err != nil {
		return err
	}
	if err := j.copyAll(plan); err != nil {
		return fmt.Errorf("%w\nThe move is not finished. Run the same command again to go on, or with --undo to give it up", err)
	}
	j.say("The data directory is in the cluster %s now. Start its nodes with --nats. When they run, %s and %s can be deleted: they hold events.\n",
		plan.Record.Cluster, filepath.Join(j.dir, "engine"), filepath.Join(j.dir, "keys"))
	return nil
}

// begin brings what earlier versions wrote into files to the engine, notes the move in the audit log, which is copied, and
// makes it the one that runs.
func (j *joiner) begin(plan *engine.Join) error {
	ctx := j.cmd.Context()
	if _, err := console.OpenAccess(ctx, j.from, j.dir); err != nil {
		return err
	}
	log, err := j.openAudit(ctx)
	if err != nil {
		return err
	}
	detail := map[string]string{"replicas": strconv.Itoa(plan.Record.Replicas), "partitions": strconv.Itoa(plan.Record.Partitions)}
	if err := log.Append(ctx, audit.Entry{Time: hooks.now().UTC(), Actor: actor(), Action: "cluster.join", Detail: detail}); err != nil {
		return err
	}
	return plan.Begin(ctx)
}

func (j *joiner) copyAll(plan *engine.Join) error {
	ctx := j.cmd.Context()
	entries, err := plan.CopyBuckets(ctx)
	if err != nil {
		return err
	}
	audited, err := plan.CopyJournal(ctx)
	if err != nil {
		return err
	}
	j.say("%d entries of datasets, keys, readers and settings and %d of the audit log are copied.\n", entries, audited)
	r := plan.Record
	m, err := stream.OpenMove(ctx, stream.MoveOptions{
		From: j.from, To: j.to, Step: hooks.step, Progress: j.progress(),
		Limits: engine.PartitionOptions{Count: r.Partitions, MaxAge: r.StreamRetention, MaxBytes: r.MaxStream, Origin: &plan.Origin},
	})
	if err != nil {
		return err
	}
	defer m.Close()
	frames, err := m.Frames(ctx)
	if err != nil {
		return err
	}
	keys, err := m.Keys(ctx)
	if err != nil {
		return err
	}
	j.say("%d frames and %d idempotency keys are copied.\n", frames, keys)
	return plan.Finish(ctx)
}

// progress says how far the stream is copied, every two seconds at the most.
func (j *joiner) progress() func(done, total uint64) {
	last := time.Now()
	return func(done, total uint64) {
		if now := time.Now(); now.Sub(last) > 2*time.Second {
			last = now
			if total == 0 {
				j.say("%d idempotency keys copied\n", done)
				return
			}
			j.say("%d of %d frames copied\n", done, total)
		}
	}
}
