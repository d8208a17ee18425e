package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"sluice/event"
	"sluice/internal/audit"
	"sluice/internal/deletion"
	"sluice/internal/engine"
	"sluice/internal/erasure"
	"sluice/internal/identifier"
	"sluice/internal/lake"
	"sluice/internal/stream"
)

func newErase() *cobra.Command {
	j := &erasing{}
	var dryRun, suppress bool
	cmd := &cobra.Command{
		Use: "erase", Short: "Delete every stored event that carries an identifier", Args: cobra.NoArgs,
		Long: `Deletes every stored event that carries the identifier, from every snapshot and file of the table,
whether or not a server runs on the directory. What was acknowledged and not yet loaded is loaded
first, so that it is found. The stream keeps its frames until they age out; until when is printed.
What was erased stays erased, also if frames or an old version of the tables are loaded again: for 90
days, or as long as the stream keeps frames. Events that are received later are not concerned.

A bucket that keeps versions, or has an object lock, keeps what is deleted. Then the exit code is 4: the
identifier is erased from the tables, and stays in the bucket until its noncurrent versions are deleted.

It also says where else the same text occurs: in other columns of other rows, such as partner_id or
page_url, and in quarantined frames. It does not delete those.

With --file it erases a list in one pass over the tables: CSV with a header, or NDJSON, of at most a million
rows, with the columns email_sha256, ifa, ip and partner_id, or some of them. Each value stands for itself.
- reads standard input. It prints a line for each kind. If it is killed, the same command again finishes
it, and so does a server. It does not look for mentions in other columns.

--and-suppress puts the identifiers on the suppression list first: later events that carry one are
accepted as suppressed. See sluice suppression.

Without --dataset it spans all datasets. It says what it spans, and asks; without a terminal to ask on it
needs --yes. An address or an IP is named by its SHA-256, as it is stored. A partner_id of a file, or of
--and-suppress, needs --dataset.`,
		Example: `  sluice erase --email-sha256 $(printf %s jane@example.com | sha256sum | cut -c1-64) --dry-run
  sluice erase --dataset shop --partner-id p-4711 --yes
  sluice erase --file drop-2026-11.csv --and-suppress --yes`,
	}
	asJSON := jsonFlag(cmd)
	named := identifierFlags(cmd)
	cmd.Flags().StringVar(&j.dataset, "dataset", "", "only events of this dataset")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "count the events, and delete nothing")
	cmd.Flags().Bool("yes", false, "do not ask")
	cmd.Flags().StringVar(&j.file, "file", "", "erase the identifiers of a file; - is standard input")
	cmd.Flags().BoolVar(&suppress, "and-suppress", false, "suppress later events that carry them, too")
	cmd.MarkFlagsOneRequired(append([]string{"file"}, identifierNames...)...)
	for _, name := range identifierNames {
		cmd.MarkFlagsMutuallyExclusive("file", name)
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		j.cmd = cmd
		if j.file == "" {
			var err error
			if j.one, err = oneIdentifier(named); err != nil {
				return err
			}
		}
		if err := dataExists(cmd); err != nil {
			return failed(err)
		}
		if j.dataset != "" {
			if err := datasetExists(cmd, j.dataset); err != nil {
				return err
			}
		}
		if err := j.read(suppress); err != nil {
			return failed(fmt.Errorf("nothing was erased: %w", err))
		}
		span := "This spans the dataset " + j.dataset + "."
		if j.dataset == "" {
			span = "Without --dataset this spans all datasets."
		}
		fmt.Fprintln(cmd.ErrOrStderr(), span)
		if !dryRun {
			if err := confirm(cmd, "Erase?"); err != nil {
				return err
			}
		}
		fmt.Fprintln(cmd.ErrOrStderr(), "Looking through all stored events …")
		if dryRun {
			return failed(countErasure(cmd, j, *asJSON))
		}
		return failed(erase(cmd, j, *asJSON))
	}
	return cmd
}

// identifierNames are the flags of identifierFlags.
var identifierNames = []string{"email-sha256", "ifa", "ip", "partner-id"}

// identifierFlags are the flags that name an identifier, and what they are given.
func identifierFlags(cmd *cobra.Command) map[identifier.Kind]*string {
	named := map[identifier.Kind]*string{
		identifier.Email:   cmd.Flags().String("email-sha256", "", "SHA-256 of the e-mail address, 64 hex digits"),
		identifier.IFA:     cmd.Flags().String("ifa", "", "advertising id; a UUID or a hash in any case"),
		identifier.IP:      cmd.Flags().String("ip", "", "SHA-256 of the IPv4 address, 64 hex digits"),
		identifier.Partner: cmd.Flags().String("partner-id", "", "partner id"),
	}
	cmd.MarkFlagsMutuallyExclusive(identifierNames...)
	return named
}

// oneIdentifier is the identifier that the flags name. Its kind is "" where none is named.
func oneIdentifier(named map[identifier.Kind]*string) (id identifier.ID, err error) {
	for k, value := range named {
		if *value != "" {
			id.Kind = k
			id.Value, err = k.Parse(*value)
			return id, err
		}
	}
	return id, errors.New("the identifier is empty")
}

// confirm asks on a terminal, unless --yes is given. Where nobody can answer, a script must have said with --yes that
// it wants it.
func confirm(cmd *cobra.Command, question string) error {
	return ask(cmd, question+" [y/N]", func(answer string) bool {
		return strings.EqualFold(answer, "y") || strings.EqualFold(answer, "yes")
	})
}

// ask is confirm with any answer.
func ask(cmd *cobra.Command, question string, agrees func(answer string) bool) error {
	if yes, _ := cmd.Flags().GetBool("yes"); yes {
		return nil
	}
	in, ok := cmd.InOrStdin().(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		remedy := "--yes does it without a question"
		if cmd.Flags().Lookup("dry-run") != nil {
			remedy += ", and --dry-run says what it would do"
		}
		return errors.New("nothing was changed: there is no terminal to ask on; " + remedy)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s ", question)
	answer, _ := bufio.NewReader(in).ReadString('\n')
	if !agrees(strings.TrimSpace(answer)) {
		return failed(errors.New("nothing was changed"))
	}
	return nil
}

// countErasure says what an erasure would do.
func countErasure(cmd *cobra.Command, j *erasing, asJSON bool) error {
	l, err := openSettled(cmd, false, lakeToRead)
	if err != nil {
		return notErased(err)
	}
	var rows int64
	err = withTombstones(cmd, func(t *erasure.Tombstones, _ time.Duration) error {
		at, err := j.latest(cmd.Context(), t, l, hooks.now())
		if err == nil {
			set := t.Set(j.ids.Tombstones(j.dataset, at, 0))
			rows, err = l.Count(cmd.Context(), j.choice(set), func(r *event.Row) { j.tell(set, r) })
		}
		return err
	})
	if err != nil {
		return err
	}
	left, err := j.leftovers(l)
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(cmd.OutOrStdout(), struct {
			Rows   int64      `json:"rows"`
			Kinds  []kindLine `json:"kinds,omitzero"`
			DryRun bool       `json:"dry_run"`
			*leftover
		}{rows, j.lines(), true, left})
	}
	printLines(cmd, j.lines(), "would be erased")
	fmt.Fprintf(cmd.OutOrStdout(), "%d rows would be erased. Nothing was changed.\n", rows)
	left.print(cmd)
	return nil
}

// erase deletes every event with an identifier. The order: everything that was acknowledged is loaded, so that it is
// counted; the identifiers are suppressed, if that is wanted; the audit log says who begins, so that it does whoever
// finishes; the tombstones are written; what was acknowledged meanwhile is loaded; the rows are deleted that the
// tombstones cover, and none that was received later; the tombstones say so. From the tombstones on nothing of the
// stream gets into the tables again. A crash after them leaves rows in the tables: the same command again deletes them,
// and so does a server when it starts.
func erase(cmd *cobra.Command, j *erasing, asJSON bool) error {
	ctx := cmd.Context()
	loaded, err := openSettled(cmd, false, lakeToRead)
	if err != nil {
		return notErased(err)
	}
	if err := j.suppress(); err != nil {
		return fmt.Errorf("nothing was erased: %w", err)
	}
	begins := entry("erase.begin", j.dataset, j.detail())
	err = withAudit(cmd, func(_ *engine.Engine, log *audit.Log) error { return log.Append(ctx, begins) })
	if err != nil {
		return fmt.Errorf("nothing was erased: %w", err)
	}
	var stones []erasure.Tombstone
	began := false
	err = withTombstones(cmd, func(t *erasure.Tombstones, retention time.Duration) error {
		now := hooks.now()
		if err := t.Forget(ctx, now); err != nil {
			return err
		}
		at, err := j.latest(ctx, t, loaded, now)
		if err != nil {
			return err
		}
		if at.After(now) {
			fmt.Fprintf(cmd.ErrOrStderr(), "The clock of a node is ahead: what is received until %s is erased, too.\n",
				at.Format(time.RFC3339))
		}
		began = true // after an error nobody knows which tombstones are there
		stones, err = t.Add(ctx, j.ids, j.dataset, at, retention)
		return err
	})
	switch {
	case err != nil && began:
		return unfinishedErasure(err)
	case err != nil:
		return fmt.Errorf("nothing was erased: %w", err)
	}
	fmt.Fprintln(cmd.ErrOrStderr(), "The tombstones are written. In a second the feed hands none of the rows out.")
	if err := step("erase.noted"); err != nil {
		return unfinishedErasure(err)
	}
	l, err := openSettled(cmd, false, lakeOf)
	if err != nil {
		return unfinishedErasure(err)
	}
	var done lake.Erased
	var before deletion.Done
	var copies time.Duration // how long the stream keeps them
	err = withTombstones(cmd, func(t *erasure.Tombstones, retention time.Duration) error {
		copies = retention
		return t.Pass(ctx, l.ErasedMark, func(ctx context.Context, w *erasure.Writer) (err error) {
			set := t.Set(stones)
			witness := &tally{w, func(r *event.Row) { j.tell(set, r) }}
			if w.Pending() {
				if before, err = deletion.Finish(ctx, t, l, witness, (*erasure.Tombstone).Unfinished); err != nil {
					return err
				}
			}
			if done, err = l.Erase(ctx, j.choice(set), witness); err != nil {
				return err
			}
			done.Rows, done.Replaced, done.Files = done.Rows+before.Rows, done.Replaced+before.Replaced, done.Files+before.Files
			if err := step("erase.deleted"); err != nil {
				return err
			}
			for _, s := range stones {
				if err := t.Finish(ctx, s, l.EventsUpdated()); err != nil {
					return err
				}
			}
			return nil
		})
	})
	switch {
	case errors.Is(err, lake.ErrDamaged):
		err = fmt.Errorf("%w: some files cannot be read and may hold the identifier still; see the server's log", err)
	case err != nil:
		err = unfinishedErasure(err)
	}
	for _, s := range stones[:min(1, len(stones))] {
		if rest := s.Before.Add(time.Second).Sub(hooks.now()); rest > 0 && rest <= time.Second {
			time.Sleep(rest) // times of receipt are in seconds: what is received after the command must be a later one
		}
	}
	until := time.Now().Add(copies).UTC().Truncate(time.Second)
	// The deed is noted, the identifier is not: the log would keep what was to be forgotten.
	detail := j.detail()
	detail["rows"] = strconv.FormatInt(done.Rows, 10)
	if err := errors.Join(err, noteAlone(cmd, "erase", j.dataset, detail)); err != nil {
		return err
	}
	if before.Rows > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "%d of the rows are those of an erasure that had not finished.\n", before.Rows)
	}
	if err := printErased(cmd, j, l, done, until, asJSON); err != nil {
		return err
	}
	return keptVersions(l, "the identifier is erased")
}

// keptVersions is the error of a bucket that keeps what was deleted from it.
func keptVersions(l *lake.Lake, done string) error {
	if !l.KeepsVersions() {
		return nil
	}
	return &failure{exitVersions, errors.New(done +
		" from the tables, and not from the bucket: it keeps versions of objects that were deleted. " +
		"Delete the noncurrent versions below the prefix of the tables, or let a rule of the bucket do it; docs/operate.md " +
		"has more about buckets")}
}

// notErased is the error of an erasure that could not begin.
func notErased(err error) error {
	if errors.Is(err, errNotSettled) {
		return fmt.Errorf("nothing was erased: %w, and what is still to be loaded may carry the identifier; try again when "+
			"the backlog is gone", err)
	}
	return err
}

// unfinishedErasure is the error of an erasure whose tombstones may be written.
func unfinishedErasure(err error) error {
	return fmt.Errorf("the erasure may have begun, and is not finished: run the same command again, or let a server "+
		"finish it, which does so at its start and every hour: %w", err)
}

// step is where tests kill the program.
func step(name string) error {
	if hooks.Step == nil {
		return nil
	}
	return hooks.Step(name)
}

// withTombstones opens the engine of --data for do, which also gets how long the stream keeps frames.
func withTombstones(cmd *cobra.Command, do func(*erasure.Tombstones, time.Duration) error) error {
	return withStream(cmd, func(e *engine.Engine, s *stream.Stream) error {
		retention, err := s.Retention(cmd.Context())
		if err != nil {
			return err
		}
		t, err := erasure.Open(cmd.Context(), e)
		if err != nil {
			return err
		}
		return do(t, retention)
	})
}

// printErased says what was done.
func printErased(
	cmd *cobra.Command, j *erasing, l *lake.Lake, done lake.Erased, until time.Time, asJSON bool,
) error {
	left, err := j.leftovers(l)
	if err != nil {
		return fmt.Errorf("%d rows are erased; where else the identifier occurs is not known: %w", done.Rows, err)
	}
	if asJSON {
		return printJSON(cmd.OutOrStdout(), struct {
			Rows        int64      `json:"rows"`
			Kinds       []kindLine `json:"kinds,omitzero"`
			Rewritten   int        `json:"files_rewritten"`
			Deleted     int        `json:"files_deleted"`
			StreamUntil time.Time  `json:"stream_until"`
			Versions    bool       `json:"bucket_keeps_versions"`
			*leftover
		}{done.Rows, j.lines(), done.Replaced, done.Files, until, l.KeepsVersions(), left})
	}
	printLines(cmd, j.lines(), "erased")
	fmt.Fprintf(cmd.OutOrStdout(),
		"%d rows erased; %d data files rewritten, %d files deleted. The stream holds copies until %s at the latest.\n",
		done.Rows, done.Replaced, done.Files, until.Format(time.RFC3339))
	left.print(cmd)
	return nil
}
