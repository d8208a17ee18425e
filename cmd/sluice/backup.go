package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"sluice/cmd/sluice/internal/tables"
	"sluice/internal/audit"
	"sluice/internal/backup"
	"sluice/internal/durable"
	"sluice/internal/engine"
	"sluice/internal/objectstore"
	"sluice/internal/version"
)

// A backup is a directory:
//
//	backup.json      what it is; written last, so that half a backup is not taken for one
//	registry.ndjson  datasets, readers, tombstones of erased identifiers and what all nodes share, an entry a line
//	lake/            the tables, where they are in a directory
//	stream/          the partitions of the stream, a description and a copy of each, without rows that were erased
//	erased.log       the log of erased events
//	audit.*          the audit log
//
// The stream is copied after the tables: everything that the tables have not is in it, and idempotency keys are known
// for as long as it retains them. A restored loader goes on from the watermark of the tables.
const (
	backupName   = "backup.json"
	registryName = "registry.ndjson"
	backupFormat = 1
)

// backupInfo is the content of backup.json.
type backupInfo struct {
	Format   int            `json:"format"`
	Program  string         `json:"program"`
	Made     time.Time      `json:"made"`
	Final    bool           `json:"final,omitempty"`   // the service does not go on where it was
	Tables   string         `json:"tables"`            // "copied", or where they are
	TablesID string         `json:"tables_id"`         // tells them from others
	Stream   int            `json:"partitions"`        // copied
	Cluster  *engine.Record `json:"cluster,omitempty"` // what its nodes had agreed on
}

func newBackup() *cobra.Command {
	var final, undo bool
	cmd := &cobra.Command{
		Use:   "backup DIR",
		Short: "Copy registry, stream, tables and audit log into a directory while the server runs",
		Long: "Waits until what was acknowledged up to now is in the tables, for at most 15 s. " +
			`Then copies datasets, keys (their
hashes), readers, the audit log, the tables (where they are in a directory) and the stream into DIR, which
must not exist or be empty. Everything that was acknowledged when the command began is in the backup, and so
are the Idempotency-Keys that the stream knows. What was erased is not in it. Tables in a bucket stay there:
copy the bucket, or use sluice lake copy.

To move a service, stop its server, make the backup with --final, and restore it at the new place. From then on
no server starts on the data directory --data: the service goes on at the new place alone, and cursors of the feed
are valid there. To go on in the old directory after all, run sluice backup --undo-final.

The backup holds personal data and the secret of submission ids: only its owner can read it.`,
		Example: `  sluice backup /backup/2026-11-15
  sluice backup --final /backup/move
  sluice backup --undo-final`,
		Args: cobra.MaximumNArgs(1),
	}
	cmd.Flags().BoolVar(&final, "final", false,
		"the service moves: no server starts on the data directory from now on; stop the server first")
	cmd.Flags().BoolVar(&undo, "undo-final", false,
		"let the data directory of a final backup serve again, and back nothing up")
	cmd.MarkFlagsMutuallyExclusive("final", "undo-final")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case undo && len(args) == 0:
			return failed(undoFinal(cmd))
		case undo || len(args) == 0:
			return errors.New("name the directory of the backup, or nothing but --undo-final")
		case !final:
			return failed(backUp(cmd, args[0], false))
		}
		return failed(backUpFinally(cmd, args[0]))
	}
	return cmd
}

// backUpFinally backs a stopped data directory up that is not used any more. The order: the mark, then the backup. A
// crash or an error in between leaves a directory that refuses to serve, and no whole backup: the same again makes one.
func backUpFinally(cmd *cobra.Command, to string) error {
	dir := flagText(cmd, "data")
	if err := dataExists(cmd); err != nil {
		return err
	}
	if err := emptyDir(to); err != nil {
		return err
	}
	e, err := openEngine(cmd)
	if err != nil {
		return err
	}
	switch e.Mode() {
	case engine.External:
		err = errors.New("--final is for a data directory with an embedded engine: back a cluster up without it")
	case engine.Attached:
		err = fmt.Errorf("a server runs on %s: stop it first", dir)
	default:
		err = durable.WriteFile(filepath.Join(dir, finalMark), []byte("sluice backup --final was begun on this directory.\n"))
	}
	if err := errors.Join(err, e.Close()); err != nil {
		return err
	}
	if err := backUp(cmd, to, true); err != nil {
		return fmt.Errorf("%w\nThe data directory does not serve until sluice backup --undo-final; repeat the backup with "+
			"an empty directory", err)
	}
	return nil
}

// finalMark is in a data directory whose service goes on elsewhere, from a final backup.
const finalMark = "backup.final"

// undoFinal lets a data directory serve again.
func undoFinal(cmd *cobra.Command) error {
	dir := flagText(cmd, "data")
	if err := os.Remove(filepath.Join(dir, finalMark)); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no final backup of %s was made", dir)
	} else if err != nil {
		return err
	}
	if err := errors.Join(durable.Sync(dir), noteAlone(cmd, "backup.undo-final", "", nil)); err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(),
		"The data directory %s serves again. Do not use what was restored from its final backup.\n", dir)
	return nil
}

func backUp(cmd *cobra.Command, to string, final bool) error {
	ctx := cmd.Context()
	if err := dataExists(cmd); err != nil {
		return fmt.Errorf("nothing was backed up: %w", err)
	}
	if err := emptyDir(to); err != nil {
		return err
	}
	place, err := placeOfLake(cmd)
	if err != nil {
		return err
	}
	l, err := openSettled(cmd, true, lakeToRead)
	if err != nil && !errors.Is(err, errNotSettled) { // what the tables do not have yet is in the stream
		return fmt.Errorf("nothing was backed up: %w", err)
	}
	info := backupInfo{
		Format: backupFormat, Program: version.Number, Made: time.Now().UTC(), Final: final, Tables: place.String(),
	}
	if info.TablesID, _, err = tables.There(ctx, place); err != nil {
		return err
	}
	err = withAudit(cmd, func(e *engine.Engine, log *audit.Log) error {
		if err := note(ctx, log, "backup", "", map[string]string{"final": strconv.FormatBool(final)}); err != nil {
			return err
		}
		if r, err := e.Record(ctx); err == nil {
			info.Cluster = &r
		}
		if err := backup.SaveErased(ctx, e, to, final); err != nil {
			return err
		}
		return errors.Join(log.Save(ctx, to), backup.SaveRegistry(ctx, e, filepath.Join(to, registryName)))
	})
	if err != nil {
		return err
	}
	if place.Dir != "" {
		info.Tables = "copied"
		store, err := objectstore.OpenDir(filepath.Join(to, "lake"))
		if err != nil {
			return err
		}
		if err := l.CopyTo(ctx, store, progress(cmd, "copied")); err != nil {
			return err
		}
	}
	if info.Stream, err = saveStream(cmd, filepath.Join(to, "stream"), final); err != nil {
		return err
	}
	b, err := json.MarshalIndent(info, "", "  ")
	if err != nil {
		return err
	}
	if err := durable.WriteFile(filepath.Join(to, backupName), b); err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(),
		"The backup is in %[1]s. Restore it with: sluice restore %[1]s --data NEW_DIRECTORY\n", to)
	return nil
}

// emptyDir makes a directory for its owner alone, or takes an empty one.
func emptyDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s is not empty: name a new directory", dir)
	}
	return os.Chmod(dir, 0o700)
}

// saveStream copies the stream into a new directory. With final no server may run.
func saveStream(cmd *cobra.Command, dir string, final bool) (int, error) {
	e, err := openEngine(cmd)
	if err != nil {
		return 0, err
	}
	defer e.Close()
	if final && e.Mode() != engine.Embedded {
		return 0, errors.New("a server was started meanwhile: stop it")
	}
	return backup.SaveStream(cmd.Context(), e, dir, final)
}
