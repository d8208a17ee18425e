package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/audit"
	"sluice/internal/durable"
	"sluice/internal/engine"
	"sluice/internal/erasure"
	"sluice/internal/objectstore"
)

// A backup is a directory:
//
//	backup.json      what it is; written last, so that half a backup is not taken for one
//	registry.ndjson  datasets, readers, tombstones of erased identifiers and what all nodes share, an entry a line
//	lake/            the tables, where they are in a directory
//	stream/          the partitions of the stream, a description and a copy of each
//	audit.*          the audit log
//
// The stream is copied after the tables: everything that the tables have not is in it, and idempotency keys are known for
// as long as it retains them. A restored loader goes on from the watermark of the tables.
const (
	backupName   = "backup.json"
	registryName = "registry.ndjson"
	backupFormat = 2 // 1 had no stream
)

// backupFiles are the files of a data directory that are copied as they are. The head of the audit log comes before the
// log, which may grow meanwhile: a head that is behind is right, one that is ahead is not.
var backupFiles = []string{"audit.head", "audit.jsonl", "console.json", "used.json"}

// backupBuckets are what is kept of the engine.
var backupBuckets = map[string]engine.Kind{
	"datasets": engine.Datasets, "readers": engine.Readers, "settings": engine.Settings, "key_use": engine.KeyUse, "erasures": engine.Erasures,
}

// backupInfo is the content of backup.json.
type backupInfo struct {
	Format  int       `json:"format"`
	Program string    `json:"program"`
	Made    time.Time `json:"made"`
	Tables  string    `json:"tables"`     // "copied", or where they are
	Stream  int       `json:"partitions"` // copied; 0 in format 1, which had none
}

// backupEntry is a line of registry.ndjson.
type backupEntry struct {
	Bucket string `json:"bucket"`
	Key    string `json:"key"`
	Value  []byte `json:"value"`
}

func newBackup() *cobra.Command {
	return &cobra.Command{
		Use:   "backup DIR",
		Short: "Copy registry, stream, tables and audit log into a directory while the server runs",
		Long: `Waits until what was acknowledged up to now is in the tables, for at most 15 s. Then copies datasets, keys (their
hashes), readers, the audit log, the tables (where they are in a directory) and the stream into DIR, which
must not exist or be empty. Everything that was acknowledged when the command began is in the backup, and so
are the Idempotency-Keys that the stream knows. Tables in a bucket stay there: use the bucket's own versions
and copies.

The backup holds personal data and the secret of submission ids: only its owner can read it.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return failed(backUp(cmd, args[0])) },
	}
}

func backUp(cmd *cobra.Command, to string) error {
	ctx := cmd.Context()
	dir, _ := cmd.Flags().GetString("data")
	if err := emptyDir(to); err != nil {
		return err
	}
	place, err := placeOfLake(cmd)
	if err != nil {
		return err
	}
	l, _, err := openSettled(cmd, true)
	if err != nil && !errors.Is(err, errNotSettled) { // what the tables do not have yet is in the stream
		return fmt.Errorf("nothing was backed up: %w", err)
	}
	err = withAudit(cmd, func(e *engine.Engine, log *audit.Log) error {
		if err := note(ctx, log, "backup", "", nil); err != nil {
			return err
		}
		return errors.Join(log.Save(ctx, to), saveRegistry(ctx, e, filepath.Join(to, registryName)))
	})
	if err != nil {
		return err
	}
	info := backupInfo{Format: backupFormat, Program: programVersion(), Made: time.Now().UTC(), Tables: place.String()}
	if place.dir != "" {
		info.Tables = "copied"
		store, err := objectstore.OpenDir(filepath.Join(to, "lake"))
		if err != nil {
			return err
		}
		if err := l.CopyTo(ctx, store, progress(cmd, "copied")); err != nil {
			return err
		}
	}
	if info.Stream, err = saveStream(cmd, filepath.Join(to, "stream")); err != nil {
		return err
	}
	for _, name := range backupFiles {
		if err := copyFile(filepath.Join(dir, name), filepath.Join(to, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	b, err := json.MarshalIndent(info, "", "  ")
	if err != nil {
		return err
	}
	if err := durable.WriteFile(filepath.Join(to, backupName), b); err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "The backup is in %s. Restore it with: sluice restore %s --data NEW_DIRECTORY\n", to, to)
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

func saveRegistry(ctx context.Context, e *engine.Engine, path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(f)
	lines := json.NewEncoder(out)
	for name, kind := range backupBuckets {
		b, err := e.Bucket(ctx, kind)
		if err != nil {
			return errors.Join(err, f.Close())
		}
		all, err := b.All(ctx)
		if err != nil {
			return errors.Join(err, f.Close())
		}
		for _, entry := range all {
			if kind == engine.Settings && !keptSetting(entry.Key) {
				continue
			}
			if err := lines.Encode(backupEntry{name, entry.Key, entry.Value}); err != nil {
				return errors.Join(err, f.Close())
			}
		}
	}
	return errors.Join(out.Flush(), f.Sync(), f.Close())
}

// keptSetting says whether a setting belongs into another engine. The configuration of a cluster and the head of the
// audit log do not: they describe this one.
func keptSetting(key string) bool { return key != "cluster" && key != "audit.head" }

func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return durable.WriteFile(to, b)
}

func newRestore() *cobra.Command {
	var newer string
	cmd := &cobra.Command{
		Use:   "restore DIR",
		Short: "Make a data directory from a backup",
		Long: `Makes the data directory --data, which must not exist or be empty, from the backup in DIR. Keys, readers and
submission ids go on working. The tables hold what they held, the stream holds what was not loaded yet, and a
server that is started on it stores nothing twice: a retry with an Idempotency-Key gets the first answer.
With --lake the tables are copied there instead.

What was erased after the backup is in it still. Name a newer backup of the same service with --erasures:
what was erased until that was made is erased from the restored tables, too.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return failed(restore(cmd, args[0], newer)) },
	}
	cmd.Flags().StringVar(&newer, "erasures", "", "a newer backup; what was erased until then stays erased")
	return cmd
}

func restore(cmd *cobra.Command, from, newer string) error {
	ctx := cmd.Context()
	var info backupInfo
	b, err := os.ReadFile(filepath.Join(from, backupName))
	if err == nil {
		err = json.Unmarshal(b, &info)
	}
	if err != nil || info.Format < 1 || info.Format > backupFormat {
		return fmt.Errorf("%s is not a whole backup that this program knows", from)
	}
	if url, _ := cmd.Flags().GetString("nats"); url != "" {
		return errors.New("restore makes a data directory with an embedded engine; it does not write to --nats")
	}
	dir, _ := cmd.Flags().GetString("data")
	if err := emptyDir(dir); err != nil {
		return err
	}
	if info.Tables == "copied" {
		place, err := placeOfLake(cmd)
		if err != nil {
			return err
		}
		l, err := lakeAt(ctx, lakePlace{dir: filepath.Join(from, "lake")})
		if err != nil {
			return err
		}
		store, err := place.open(ctx)
		if err != nil {
			return err
		}
		if err := l.CopyTo(ctx, store, progress(cmd, "copied")); err != nil {
			return err
		}
	}
	for _, name := range backupFiles {
		if err := copyFile(filepath.Join(from, name), filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := loadRegistry(ctx, cmd, filepath.Join(from, registryName)); err != nil {
		return err
	}
	if err := loadStream(cmd, filepath.Join(from, "stream"), info.Stream); err != nil {
		return err
	}
	if err := restoreErasures(ctx, cmd, newer, info.Tables == "copied"); err != nil {
		return fmt.Errorf("erase again what was erased: %w", err)
	}
	if err := noteAlone(cmd, "restore", "", map[string]string{"made": info.Made.Format(time.RFC3339)}); err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "The backup of %s is restored. Start it with: sluice serve --data %s\n", info.Made.Format(time.RFC3339), dir)
	return nil
}

func loadRegistry(ctx context.Context, cmd *cobra.Command, path string) error {
	entries, err := readRegistry(path)
	if err != nil {
		return err
	}
	e, err := openEngine(cmd)
	if err != nil {
		return err
	}
	defer e.Close()
	return putEntries(ctx, e, entries)
}

func putEntries(ctx context.Context, e *engine.Engine, entries []backupEntry) error {
	for _, entry := range entries {
		b, err := e.Bucket(ctx, backupBuckets[entry.Bucket])
		if err != nil {
			return err
		}
		if _, err := b.Put(ctx, entry.Key, entry.Value); err != nil {
			return err
		}
	}
	return nil
}

// readRegistry reads the engine's part of a backup.
func readRegistry(path string) (out []backupEntry, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for lines := json.NewDecoder(bufio.NewReader(f)); lines.More(); {
		var entry backupEntry
		if err := lines.Decode(&entry); err != nil {
			return nil, err
		}
		if _, ok := backupBuckets[entry.Bucket]; !ok {
			return nil, fmt.Errorf("the backup has a bucket %q that this program does not know", entry.Bucket)
		}
		out = append(out, entry)
	}
	return out, nil
}

// erasureSecret is the entry of the settings with which the digests of tombstones are made.
const erasureSecret = "secret.erasures"

// restoreErasures adds the tombstones of a newer backup, if there is one, and erases from restored tables what the
// tombstones say.
func restoreErasures(ctx context.Context, cmd *cobra.Command, newer string, tables bool) error {
	e, err := openEngine(cmd)
	if err != nil {
		return err
	}
	defer e.Close()
	if newer != "" {
		if err := adoptErasures(ctx, e, filepath.Join(newer, registryName)); err != nil {
			return fmt.Errorf("--erasures: %w", err)
		}
	}
	if !tables {
		return nil // the server looks after those that are elsewhere
	}
	place, err := placeOfLake(cmd)
	if err != nil {
		return err
	}
	l, err := lakeAt(ctx, place)
	if err != nil {
		return err
	}
	t, err := erasure.Open(ctx, e)
	if err != nil {
		return err
	}
	rows, err := applyErasures(ctx, t, l, hooks.now())
	if rows > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "%d rows of the backup were erased after it was made. They are erased again.\n", rows)
	}
	return err
}

// adoptErasures takes the tombstones of another backup over, as ones that are not applied yet.
func adoptErasures(ctx context.Context, e *engine.Engine, path string) error {
	entries, err := readRegistry(path)
	if err != nil {
		return err
	}
	settings, err := e.Bucket(ctx, engine.Settings)
	if err != nil {
		return err
	}
	var stones []erasure.Tombstone
	for _, entry := range entries {
		switch {
		case entry.Bucket == "settings" && entry.Key == erasureSecret:
			ours, err := settings.Get(ctx, erasureSecret)
			if err == nil && !bytes.Equal(ours.Value, entry.Value) {
				return errors.New("it is a backup of another service")
			}
			if errors.Is(err, engine.ErrNotFound) { // the older backup is of an earlier version
				_, err = settings.Put(ctx, erasureSecret, entry.Value)
			}
			if err != nil {
				return err
			}
		case entry.Bucket == "erasures":
			var s erasure.Tombstone
			if err := json.Unmarshal(entry.Value, &s); err != nil {
				return err
			}
			stones = append(stones, s)
		}
	}
	t, err := erasure.Open(ctx, e)
	if err != nil {
		return err
	}
	return t.Adopt(ctx, stones)
}
