package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/dataset"
	"sluice/internal/deletion"
	"sluice/internal/engine"
	"sluice/internal/erasure"
	"sluice/internal/humanize"
	"sluice/internal/lake"
)

func newDatasetDelete() *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use: "delete ID", Short: "Delete a dataset with its keys, events and numbers", Args: cobra.ExactArgs(1),
		Long: `Deletes a dataset: its keys end at once, on every node within 5 s, and its rows go from all tables, with every
older snapshot that holds some. What the stream holds of it is neither loaded nor fed any more, also after
"sluice lake reload" or a restore. Followers of the feed get a line for each deleted event.

It says what it deletes, and asks for the id; without a terminal to ask on it needs --yes. If it is killed, the same
command again finishes it, and so does a server. The id can be used again when the stream holds nothing of the
dataset any more; from when on is printed.

A bucket that keeps versions, or has an object lock, keeps what is deleted. Then the exit code is 4.`,
		Example: `  sluice dataset delete shop --dry-run
  sluice dataset delete shop --yes`,
	}
	asJSON := jsonFlag(cmd)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "count what would be deleted, and delete nothing")
	cmd.Flags().Bool("yes", false, "do not ask")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id := args[0]
		keys, has, err := datasetSpan(cmd, id)
		if err != nil {
			return err
		}
		if dryRun {
			return failed(printSpan(cmd, id, keys, has, *asJSON))
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "This deletes the dataset %s: %s.\n", id, spanText(keys, has))
		err = ask(cmd, "Type the id of the dataset to delete it:", func(answer string) bool { return answer == id })
		if err != nil {
			return err
		}
		return deleteDataset(cmd, id, keys, *asJSON)
	}
	return cmd
}

// datasetSpan is what a deletion deletes: live keys, and rows of what was acknowledged by then.
func datasetSpan(cmd *cobra.Command, id string) (keys int, has lake.Contents, err error) {
	if err := dataExists(cmd); err != nil {
		return 0, has, failed(err)
	}
	err = withRegistry(cmd, func(ctx context.Context, p *provision) error {
		d, err := p.Read(ctx, id)
		if errors.Is(err, dataset.ErrNotFound) {
			deleted, err := p.Deleted(ctx)
			if _, begun := deleted[id]; err == nil && !begun {
				err = dataset.ErrNotFound
			}
			return err
		}
		if err == nil {
			keys = liveKeys(d)
		}
		return err
	})
	if err != nil {
		return 0, has, err
	}
	l, err := openSettled(cmd, true, lakeToRead)
	if err == nil {
		has, err = l.Contents(cmd.Context(), id, time.Time{})
	}
	if err != nil {
		return 0, has, failed(fmt.Errorf("nothing was deleted: %w", err))
	}
	return keys, has, nil
}

func printSpan(cmd *cobra.Command, id string, keys int, has lake.Contents, asJSON bool) error {
	if asJSON {
		return printJSON(cmd.OutOrStdout(), struct {
			ID   string `json:"data_set_id"`
			Keys int    `json:"live_keys"`
			lake.Contents
			DryRun bool `json:"dry_run"`
		}{id, keys, has, true})
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s of %s would be deleted. Nothing was changed.\n", spanText(keys, has), id)
	return err
}

func spanText(keys int, has lake.Contents) string {
	return fmt.Sprintf("%s, %s, %s and %s", humanize.Plural(keys, "live key", "live keys"),
		humanize.Plural(has.Events, "event", "events"), humanize.Plural(has.Rejections, "rejection", "rejections"),
		humanize.Plural(has.Numbers, "number", "numbers"))
}

// deleteDataset deletes a dataset. The order: the keys end; the tombstone is written; what was acknowledged meanwhile
// is loaded, without what is of the dataset; the rows are deleted; the tombstone says so. A crash leaves rows in the
// tables: the same command again deletes them, and so does a server when it starts.
func deleteDataset(cmd *cobra.Command, id string, keys int, asJSON bool) error {
	var left dataset.Deletion
	err := withRegistry(cmd, func(ctx context.Context, p *provision) error {
		t, err := erasure.Open(ctx, p.engine)
		if err != nil {
			return err
		}
		if err := t.Forget(ctx, hooks.now()); err != nil {
			return err
		}
		if left, err = deletion.Dataset(ctx, p.Registry, t, id); err != nil {
			return err
		}
		return p.note("dataset.delete", id, map[string]string{"keys": strconv.Itoa(keys)})
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(cmd.ErrOrStderr(), "Its keys have ended. Its rows are being deleted …")
	if err := step("delete.noted"); err != nil {
		return failed(err)
	}
	unfinished := func(err error) error {
		return failed(fmt.Errorf("the keys of %s have ended, and its rows are not all deleted; run the command again, or "+
			"let a server finish it: %w", id, err))
	}
	l, err := openSettled(cmd, true, lakeOf)
	if err != nil {
		return unfinished(err)
	}
	var done deletion.Done
	before := false // somebody has deleted rows of it
	err = withTombstones(cmd, func(t *erasure.Tombstones, _ time.Duration) error {
		return t.Pass(cmd.Context(), l.ErasedMark, func(ctx context.Context, w *erasure.Writer) (err error) {
			done, err = deletion.Finish(ctx, t, l, w, func(s *erasure.Tombstone) bool {
				// Also if somebody has finished it: that may have been before the last batch was committed.
				its := s.Whole && s.Dataset == id
				before = before || its && !s.Unfinished()
				return its || w.Pending() && s.Unfinished()
			})
			return err
		})
	})
	if err != nil {
		return unfinished(err)
	}
	if before {
		fmt.Fprintln(cmd.ErrOrStderr(), "A server, or this command before, has deleted rows of it. These are the rest.")
	}
	detail := map[string]string{"events": strconv.FormatInt(done.Rows, 10), "counts": strconv.FormatInt(done.Counts, 10)}
	if err := noteAlone(cmd, "dataset.deleted", id, detail); err != nil {
		return failed(err)
	}
	if asJSON {
		err = printJSON(cmd.OutOrStdout(), struct {
			ID       string    `json:"data_set_id"`
			Events   int64     `json:"events"`
			Counts   int64     `json:"counts"` // rows of rejections, hours and days
			Deleted  time.Time `json:"deleted"`
			Free     time.Time `json:"free_from"`
			Versions bool      `json:"bucket_keeps_versions"`
		}{id, done.Rows, done.Counts, left.At, left.Free, l.KeepsVersions()})
	} else {
		fmt.Fprintf(cmd.OutOrStdout(), "%s is deleted: %d events, and %d rows of rejections and numbers. The stream holds "+
			"copies; the id can be used again from %s on.\n", id, done.Rows, done.Counts, left.Free.Format(time.RFC3339))
	}
	if err != nil {
		return failed(err)
	}
	return keptVersions(l, "the dataset is deleted")
}

// mendDatasets lets a registry know of datasets that tombstones say were deleted.
func mendDatasets(ctx context.Context, e *engine.Engine) error {
	reg, err := dataset.Open(ctx, e, dataset.Options{Now: hooks.now})
	if err != nil {
		return err
	}
	t, err := erasure.Open(ctx, e)
	if err != nil {
		return err
	}
	return deletion.Mend(ctx, reg, t, hooks.now())
}

// unbound is an error for an id to which readers of a deleted dataset are bound: they would see the new one.
func unbound(ctx context.Context, p *provision, id string) error {
	deleted, err := p.Deleted(ctx)
	if _, was := deleted[id]; err != nil || !was {
		return err
	}
	readers, err := p.readers(ctx)
	if err != nil {
		return err
	}
	all, err := readers.All(ctx)
	for _, r := range all {
		if r.Live() && r.DatasetID == id {
			return fmt.Errorf("the reader %s is bound to the dataset %s that was deleted; revoke it first: sluice reader "+
				"revoke %s", r.Name, id, r.Name)
		}
	}
	return err
}

// retentionAgreed says what a shorter retention of a dataset deletes, and asks. With dryRun it only says it.
func retentionAgreed(cmd *cobra.Command, id string, keepDays int, dryRun, asJSON bool) error {
	if keepDays < 0 || keepDays > 100_000 {
		return errors.New("--retention is a number of days, or 0 for as long as the tables")
	}
	if err := dataExists(cmd); err != nil {
		return failed(err)
	}
	keep, shorter := time.Duration(keepDays)*24*time.Hour, false
	err := withRegistry(cmd, func(ctx context.Context, p *provision) error {
		d, err := p.Read(ctx, id)
		if err != nil {
			return err
		}
		tables, err := p.engine.TableRetention(ctx)
		if err == nil && tables > 0 && keep > tables {
			err = fmt.Errorf("--retention is %s, and the tables retain rows for %s: a dataset can have at most that",
				engine.AgeText(keep), engine.AgeText(tables))
		}
		shorter = keepDays > 0 && (d.RetentionDays == 0 || keepDays < d.RetentionDays)
		return err
	})
	if err != nil {
		return err
	}
	var has lake.Contents
	switch {
	case !shorter && !dryRun:
		return nil
	case !shorter:
		fmt.Fprintln(cmd.ErrOrStderr(), "This deletes nothing.")
	default:
		l, err := openSettled(cmd, false, lakeToRead)
		if err == nil {
			has, err = l.Contents(cmd.Context(), id, l.Cutoff(keep))
		}
		if err != nil {
			return failed(err)
		}
		fmt.Fprintf(cmd.ErrOrStderr(),
			"This deletes %d events, %d rejections and %d numbers of %s: those of %d days, within 24 h.\n",
			has.Events, has.Rejections, has.Numbers, id, has.Days)
	}
	if dryRun {
		fmt.Fprintln(cmd.ErrOrStderr(), "Nothing was changed.")
		if asJSON {
			return printJSON(cmd.OutOrStdout(), struct {
				ID string `json:"data_set_id"`
				lake.Contents
				DryRun bool `json:"dry_run"`
			}{id, has, true})
		}
		return nil
	}
	return confirm(cmd, "Keep its rows for a shorter time?")
}
