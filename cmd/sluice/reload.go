package main

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"sluice/cmd/sluice/internal/service"
	"sluice/cmd/sluice/internal/tables"
	"sluice/internal/dataset"
	"sluice/internal/engine"
	"sluice/internal/erasure"
	"sluice/internal/lake"
	"sluice/internal/loader"
	"sluice/internal/stream"
)

func newLakeReload() *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use: "reload", Short: "Load again what the stream holds and the tables lack", Args: cobra.NoArgs,
		Long: `Compares the events that the stream holds with the table of events, and loads those again that the table
lacks, each once: of files that are missing or damaged, or that somebody deleted. It loads nothing that was
erased or is past its retention. Files that are missing or damaged leave the table, and with them its older
snapshots; the rows of them that can be read are kept. Do not put such a file back afterwards: its events
would not be seen.

It can run beside servers, and can be interrupted and run again: no event is lost or stored twice. Events
that are older than the stream come from a backup alone. Where a missing or damaged file may hold such
events, put it back first; to give them up the command asks, and without a terminal needs --yes.

It reads every file of the days that the stream holds. The counts in the tables rejections and hours stay
as they are. Where all tables are lost and there is no copy, it makes new ones.`,
		Example: `  sluice lake reload --dry-run
  sluice lake reload --yes`,
	}
	asJSON := jsonFlag(cmd)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "count, and change nothing")
	cmd.Flags().Bool("yes", false, "give up what the stream no longer holds, without a question")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return failed(reloadLake(cmd, dryRun, *asJSON))
	}
	return cmd
}

// reloadLake loads again what the table of events lacks. Without a server it first loads what the stream holds behind
// the watermarks, as a server would.
func reloadLake(cmd *cobra.Command, dryRun, asJSON bool) error {
	e, err := openService(cmd)
	if err != nil {
		return err
	}
	defer func() { e.Close() }()
	place, err := commandTables(cmd, e)
	if err != nil {
		return err
	}
	if err := remakeTables(cmd, e, place, dryRun); err != nil {
		return err
	}
	if e.Mode() == engine.Embedded && !dryRun { // nobody else loads
		if err := e.Close(); err != nil {
			return err
		}
		if _, err := openSettled(cmd, true, lakeOf); err != nil {
			return err
		}
		if e, err = openEngine(cmd); err != nil {
			return err
		}
	}
	var out loader.Reloaded
	err = onStream(cmd, e, func(s *stream.Stream) error {
		out, err = reloadFrom(cmd, e, s, place, dryRun)
		return err
	})
	if err != nil {
		return err
	}
	if !dryRun {
		detail := map[string]string{"events": strconv.FormatInt(out.Loaded, 10), "damaged_files": strconv.Itoa(out.Files)}
		if err := noteIn(cmd, e, "lake reload", place.String(), detail); err != nil {
			return err
		}
	}
	return printReload(cmd, out, dryRun, asJSON)
}

// reloadFrom reloads from the stream of an engine.
func reloadFrom(
	cmd *cobra.Command, e *engine.Engine, s *stream.Stream, place tables.Location, dryRun bool,
) (out loader.Reloaded, err error) {
	ctx := cmd.Context()
	open := lakeOf
	if dryRun {
		open = lakeToRead
	}
	l, err := open(ctx, place, s.ID())
	if err != nil {
		return out, err
	}
	_, ids, err := service.OpenSecret(ctx, e)
	if err != nil {
		return out, err
	}
	tombstones, err := erasure.Open(ctx, e)
	if err != nil {
		return out, err
	}
	reg, err := dataset.Open(ctx, e, dataset.Options{Now: hooks.now})
	if err != nil {
		return out, err
	}
	keep, err := e.TableRetention(ctx)
	if err != nil {
		return out, err
	}
	return loader.Reload(ctx, loader.ReloadOptions{
		Stream: s, Lake: l, IDs: ids, Erasures: tombstones, DryRun: dryRun, Progress: progress(cmd, "read"),
		Retention: lake.Retention{Keep: max(0, keep), Datasets: reg.Retentions()},
		GiveUp:    func(lost []lake.Lost) error { return giveUp(cmd, lost) },
	})
}

// giveUp asks whether events may be lost that only files hold which are missing or damaged.
func giveUp(cmd *cobra.Command, lost []lake.Lost) error {
	rows := int64(0)
	for _, l := range lost {
		fmt.Fprintln(cmd.ErrOrStderr(), l.File)
		rows += l.Rows
	}
	fmt.Fprintf(cmd.ErrOrStderr(),
		"These %d files are missing or damaged, and of their %d events the stream may not hold all. "+
			"If you have a backup, put the files back first, under the same names.\n", len(lost), rows)
	return confirm(cmd, "Load again what the stream holds, and give up the rest?")
}

// remakeTables makes new tables where a service has none left, if that is agreed to, and lets a cluster know them. A
// crash in between leaves tables that the cluster does not know, and the next call says what to do.
func remakeTables(cmd *cobra.Command, e *engine.Engine, place tables.Location, dryRun bool) error {
	ctx, stderr, inCluster := cmd.Context(), cmd.ErrOrStderr(), e.Mode() == engine.External
	id, _, err := tables.There(ctx, place)
	if err == nil && inCluster {
		var r engine.Record
		if r, err = e.Record(ctx); err == nil && id != "" && r.LakeID != "" && r.LakeID != id {
			err = fmt.Errorf("the tables at %s are others than those of the cluster: put those back, or use these with: sluice "+
				"cluster set --tables", place)
		}
	}
	switch {
	case err != nil || id != "":
		return err
	case e.Mode() == engine.Attached:
		return fmt.Errorf("there are no tables at %s: put them back, or stop the server and repeat the command, which makes "+
			"new ones", place)
	}
	fmt.Fprintf(stderr, "There are no tables at %s. If you have a copy of them, put it back first.\n", place)
	if dryRun {
		return errors.New("nothing was changed: without --dry-run new tables are made, into which the nodes load what the " +
			"stream holds")
	}
	if err := confirm(cmd, "Make new tables, and give up what the stream no longer holds?"); err != nil {
		return err
	}
	if err := newTables(cmd, e, place); err != nil {
		return err
	}
	if inCluster {
		if id, _, err = tables.There(ctx, place); err == nil {
			_, err = e.Change(ctx, func(r *engine.Record) error {
				r.LakeID = id
				return nil
			})
		}
		if err != nil {
			return err
		}
	}
	fmt.Fprintln(stderr, "New tables are made. Restart the nodes of a cluster: they load what the stream holds.")
	return nil
}

// newTables makes tables for the stream of an engine where there are none.
func newTables(cmd *cobra.Command, e *engine.Engine, place tables.Location) error {
	return onStream(cmd, e, func(s *stream.Stream) error {
		_, err := lakeOf(cmd.Context(), place, s.ID())
		return err
	})
}

func printReload(cmd *cobra.Command, out loader.Reloaded, dryRun, asJSON bool) error {
	if asJSON {
		return printJSON(cmd.OutOrStdout(), struct {
			loader.Reloaded
			DryRun bool `json:"dry_run"`
		}{out, dryRun})
	}
	w := cmd.OutOrStdout()
	fmt.Fprintf(w, "The stream holds %d frames with %d events.\n%d of these events are in the tables.\n", out.Frames,
		out.Events, out.Stored)
	if out.Waiting > 0 {
		fmt.Fprintf(w, "%d wait for the server, which loads them.\n", out.Waiting)
	}
	if out.Erased > 0 {
		fmt.Fprintf(w, "%d were erased and stay so.\n", out.Erased)
	}
	if out.Expired > 0 {
		fmt.Fprintf(w, "%d are past their retention and stay away.\n", out.Expired)
	}
	if out.Damaged > 0 {
		fmt.Fprintf(w, "%d frames or records of the stream cannot be read.\n", out.Damaged)
	}
	if dryRun {
		fmt.Fprintf(w, "%d would be loaded again, and %d missing or damaged files would leave the tables. Nothing was "+
			"changed.\n", out.Loaded, out.Files)
		return nil
	}
	fmt.Fprintf(w, "%d were loaded again. %d missing or damaged files left the tables.\n", out.Loaded, out.Files)
	return nil
}
