package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
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
	"sluice/internal/loader"
	"sluice/internal/stream"
	"sluice/internal/suppression"
)

func newErase() *cobra.Command {
	var p lake.Predicate
	var dryRun, suppress bool
	var file string
	cmd := &cobra.Command{
		Use:   "erase",
		Short: "Delete every stored event that carries an identifier",
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
		Args: cobra.NoArgs,
	}
	asJSON := jsonFlag(cmd)
	identifierFlags(cmd, &p)
	cmd.Flags().StringVar(&p.Dataset, "dataset", "", "only events of this dataset")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "count the events, and delete nothing")
	cmd.Flags().Bool("yes", false, "do not ask")
	cmd.Flags().StringVar(&file, "file", "", "erase the identifiers of a file; - is standard input")
	cmd.Flags().BoolVar(&suppress, "and-suppress", false, "suppress later events that carry them, too")
	cmd.MarkFlagsOneRequired(append([]string{"file"}, identifierNames...)...)
	for _, name := range identifierNames {
		cmd.MarkFlagsMutuallyExclusive("file", name)
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var j erasing
		if file == "" {
			k, id, err := oneIdentifier(&p)
			if err != nil {
				return err
			}
			j = &eraseOne{Predicate: p, kind: k, id: id}
		} else {
			j = &eraseList{dataset: p.Dataset, file: file}
		}
		if err := dataExists(cmd); err != nil {
			return failed(err)
		}
		if p.Dataset != "" {
			if err := datasetExists(cmd, p.Dataset); err != nil {
				return err
			}
		}
		if err := j.read(cmd, suppress); err != nil {
			return failed(fmt.Errorf("nothing was erased: %w", err))
		}
		span := "This spans the dataset " + p.Dataset + "."
		if p.Dataset == "" {
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

// identifierFlags are the flags that name an identifier.
func identifierFlags(cmd *cobra.Command, p *lake.Predicate) {
	cmd.Flags().StringVar(&p.EmailSHA256, "email-sha256", "", "SHA-256 of the e-mail address, 64 hex digits")
	cmd.Flags().StringVar(&p.IFA, "ifa", "", "advertising id; a UUID or a hash in any case")
	cmd.Flags().StringVar(&p.IPSHA256, "ip", "", "SHA-256 of the IPv4 address, 64 hex digits")
	cmd.Flags().StringVar(&p.PartnerID, "partner-id", "", "partner id")
	cmd.MarkFlagsMutuallyExclusive(identifierNames...)
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

// erasing is what is to be erased: an identifier, or a list.
type erasing interface {
	scope() string // the dataset; "" is all
	// read reads what there is to read, and what is to be suppressed, before anything is done.
	read(cmd *cobra.Command, suppress bool) error
	suppress(cmd *cobra.Command) error
	// latest is the last second in which a row was received that carries one, or now.
	latest(ctx context.Context, t *erasure.Tombstones, l *lake.Lake, now time.Time) (time.Time, error)
	// count counts the rows that tombstones of a time would cover.
	count(ctx context.Context, t *erasure.Tombstones, l *lake.Lake, at time.Time) (rows int64, err error)
	// note writes the tombstones.
	note(ctx context.Context, t *erasure.Tombstones, at time.Time, retention time.Duration) ([]erasure.Tombstone, error)
	// witness tells w of the rows that a pass deletes.
	witness(t *erasure.Tombstones, w *erasure.Writer, stones []erasure.Tombstone) deletion.Witness
	// remove deletes the rows that the tombstones cover, and no others.
	remove(ctx context.Context, t *erasure.Tombstones, l *lake.Lake, w deletion.Witness, stones []erasure.Tombstone) (
		lake.Erased, error)
	detail() map[string]string // for the audit log
	// lines are what became of each kind of identifier; nil of one identifier.
	lines() []kindLine
	// leftovers are where else the identifier occurs; nil of a list.
	leftovers(cmd *cobra.Command, l *lake.Lake) (*leftover, error)
}

// countErasure says what an erasure would do.
func countErasure(cmd *cobra.Command, j erasing, asJSON bool) error {
	l, err := openSettled(cmd, false, lakeToRead)
	if err != nil {
		return notErased(err)
	}
	var rows int64
	err = withTombstones(cmd, func(t *erasure.Tombstones, _ time.Duration) error {
		at, err := j.latest(cmd.Context(), t, l, hooks.now())
		if err == nil {
			rows, err = j.count(cmd.Context(), t, l, at)
		}
		return err
	})
	if err != nil {
		return err
	}
	left, err := j.leftovers(cmd, l)
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

// latest is the last second in which a row of a query was received that carries an identifier, or now. Times of receipt
// are those of the nodes. The clock of this command decides what is erased, unless that of a node is ahead: then what
// was acknowledged before the command has a later time, and the erasure reaches to it. Between an event too many and
// one that stays, the erasure wins.
func latest(ctx context.Context, l *lake.Lake, q lake.Query, carries func(*event.Row) bool, now time.Time) (
	time.Time, error,
) {
	at := now.UTC().Truncate(time.Second)
	q.From, q.Columns = at.Add(time.Second), lake.Carried
	for row, err := range l.Scan(ctx, q) {
		if err != nil && !errors.Is(err, lake.ErrDamaged) { // that the erasure itself tells
			return at, err
		}
		if err == nil && row.ReceivedAt > at.Unix() && carries(row) {
			at = time.Unix(row.ReceivedAt, 0).UTC()
		}
	}
	return at, nil
}

// erase deletes every event with an identifier. The order: everything that was acknowledged is loaded, so that it is
// counted; the identifiers are suppressed, if that is wanted; the audit log says who begins, so that it does whoever
// finishes; the tombstones are written; what was acknowledged meanwhile is loaded; the rows are deleted that the
// tombstones cover, and none that was received later; the tombstones say so. From the tombstones on nothing of the
// stream gets into the tables again. A crash after them leaves rows in the tables: the same command again deletes them,
// and so does a server when it starts.
func erase(cmd *cobra.Command, j erasing, asJSON bool) error {
	ctx := cmd.Context()
	loaded, err := openSettled(cmd, false, lakeToRead)
	if err != nil {
		return notErased(err)
	}
	if err := j.suppress(cmd); err != nil {
		return fmt.Errorf("nothing was erased: %w", err)
	}
	begins := entry("erase.begin", j.scope(), j.detail())
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
		stones, err = j.note(ctx, t, at, retention)
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
			witness := j.witness(t, w, stones)
			if w.Pending() {
				if before, err = deletion.Finish(ctx, t, l, witness, (*erasure.Tombstone).Unfinished); err != nil {
					return err
				}
			}
			if done, err = j.remove(ctx, t, l, witness, stones); err != nil {
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
	if err := errors.Join(err, noteAlone(cmd, "erase", j.scope(), detail)); err != nil {
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

// eraseOne erases one identifier.
type eraseOne struct {
	lake.Predicate
	suppressing
	kind identifier.Kind
	id   string // as Parse spells it
}

// suppressing is what an erasure suppresses, too; without an addition nothing.
type suppressing struct{ a *suppression.Addition }

// begin begins the addition to the suppression list.
func (s *suppressing) begin(cmd *cobra.Command, name, dataset string) error {
	return withSuppression(cmd, dataset, func(ctx context.Context, _ *provision, l *suppression.List) (err error) {
		s.a, err = l.Add(ctx, name, dataset)
		return err
	})
}

func (s *suppressing) suppress(cmd *cobra.Command) error {
	if s.a == nil {
		return nil
	}
	return withSuppression(cmd, "", func(ctx context.Context, p *provision, l *suppression.List) error {
		lines, err := commitSuppressed(ctx, p, l, s.a, "suppression.import")
		for _, one := range lines {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: %d entries added to %s of the suppression list\n", one.Kind, one.Added, one.Name)
		}
		return err
	})
}

func (j *eraseOne) scope() string { return j.Dataset }

func (j *eraseOne) detail() map[string]string { return map[string]string{"identifier": j.kind.Name()} }

func (j *eraseOne) read(cmd *cobra.Command, suppress bool) error {
	if !suppress {
		return nil
	}
	if err := j.begin(cmd, addedName, j.Dataset); err != nil {
		return err
	}
	return j.a.Put(j.kind, j.id)
}

func (j *eraseOne) latest(ctx context.Context, _ *erasure.Tombstones, l *lake.Lake, now time.Time) (time.Time, error) {
	return latest(ctx, l, lake.Query{Identifier: j.Predicate}, func(*event.Row) bool { return true }, now)
}

func (j *eraseOne) note(ctx context.Context, t *erasure.Tombstones, at time.Time, retention time.Duration) (
	[]erasure.Tombstone, error,
) {
	s, err := t.Add(ctx, j.kind, j.id, j.Dataset, at, retention)
	return []erasure.Tombstone{s}, err
}

// covered are the rows that a tombstone of a time covers.
func (j *eraseOne) covered(at time.Time) lake.Predicate {
	p := j.Predicate
	p.ReceivedUntil = at
	return p
}

func (j *eraseOne) witness(_ *erasure.Tombstones, w *erasure.Writer, _ []erasure.Tombstone) deletion.Witness {
	return w
}

func (j *eraseOne) remove(ctx context.Context, _ *erasure.Tombstones, l *lake.Lake, w deletion.Witness,
	stones []erasure.Tombstone,
) (lake.Erased, error) {
	return l.Erase(ctx, j.covered(stones[0].Before), w)
}

func (j *eraseOne) count(ctx context.Context, _ *erasure.Tombstones, l *lake.Lake, at time.Time) (int64, error) {
	return l.Count(ctx, j.covered(at))
}

func (j *eraseOne) lines() []kindLine { return nil }

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

// leftover is where else an identifier occurs.
type leftover struct {
	Mentions    map[string]int64 `json:"also_in"`     // rows by column
	Quarantined []string         `json:"quarantined"` // files
	Searched    int              `json:"quarantine_searched"`
}

// leftovers looks for the identifier where an erasure does not delete it.
func (j *eraseOne) leftovers(cmd *cobra.Command, l *lake.Lake) (out *leftover, err error) {
	out = &leftover{}
	if out.Mentions, err = l.Mentions(cmd.Context(), j.Predicate); err != nil {
		return nil, err
	}
	quarantine := filepath.Join(flagText(cmd, "data"), "quarantine")
	text := j.EmailSHA256 + j.IFA + j.IPSHA256 + j.PartnerID
	out.Quarantined, out.Searched, err = loader.SearchQuarantine(quarantine, text)
	if out.Quarantined == nil {
		out.Quarantined = []string{}
	}
	return out, err
}

func (o *leftover) print(cmd *cobra.Command) {
	if o == nil {
		return
	}
	w := cmd.OutOrStdout()
	for _, name := range slices.Sorted(maps.Keys(o.Mentions)) {
		fmt.Fprintf(w, "%d other rows hold the same text in %s. They are not erased.\n", o.Mentions[name], name)
	}
	for _, name := range o.Quarantined {
		fmt.Fprintf(w, "quarantine/%s holds it. Delete the file when it is no longer needed.\n", name)
	}
	if rest := o.Searched - len(o.Quarantined); rest > 0 {
		fmt.Fprintf(w,
			"%d other files in quarantine/ do not hold it in a readable form. They are damaged, so they may hold "+
				"parts of it.\n", rest)
	}
}

// printErased says what was done.
func printErased(
	cmd *cobra.Command, j erasing, l *lake.Lake, done lake.Erased, until time.Time, asJSON bool,
) error {
	left, err := j.leftovers(cmd, l)
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
