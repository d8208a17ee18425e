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

	"sluice/internal/erasure"
	"sluice/internal/lake"
	"sluice/internal/loader"
	"sluice/internal/stream"
)

func newErase() *cobra.Command {
	var p lake.Predicate
	var dryRun, yes bool
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

Without --dataset it spans all datasets. It says what it spans, and asks; without a terminal to ask on it
needs --yes. An address or an IP is named by its SHA-256, as it is stored.`,
		Example: `  sluice erase --email-sha256 $(printf %s jane@example.com | sha256sum | cut -c1-64) --dry-run
  sluice erase --dataset shop --partner-id p-4711 --yes`,
		Args: cobra.NoArgs,
	}
	asJSON := jsonFlag(cmd)
	identifierFlags(cmd, &p)
	cmd.Flags().StringVar(&p.Dataset, "dataset", "", "only events of this dataset")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "count the events, and delete nothing")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.MarkFlagsOneRequired(identifierNames...)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		kind, err := identifierKind(&p)
		if err != nil {
			return err
		}
		if err := dataExists(cmd); err != nil {
			return failed(err)
		}
		span := "This spans the dataset " + p.Dataset + "."
		if p.Dataset == "" {
			span = "Without --dataset this spans all datasets."
		}
		fmt.Fprintln(cmd.ErrOrStderr(), span)
		if !dryRun && !yes {
			if err := confirm(cmd, "Erase?"); err != nil {
				return err
			}
		}
		fmt.Fprintln(cmd.ErrOrStderr(), "Looking through all stored events …")
		if dryRun {
			return failed(countErasure(cmd, p, *asJSON))
		}
		return failed(erase(cmd, p, kind, *asJSON))
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

// confirm asks on a terminal. Where nobody can answer, a script must have said with --yes that it wants it.
func confirm(cmd *cobra.Command, question string) error {
	in, ok := cmd.InOrStdin().(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return errors.New("nothing was changed: there is no terminal to ask on; --yes does it without a question, and --dry-run says what it would do")
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s [y/N] ", question)
	answer, _ := bufio.NewReader(in).ReadString('\n')
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return failed(errors.New("nothing was changed"))
	}
	return nil
}

// countErasure says what an erasure would do.
func countErasure(cmd *cobra.Command, p lake.Predicate, asJSON bool) error {
	l, _, err := openSettled(cmd, false, lakeToRead)
	if err != nil {
		return notErased(err)
	}
	rows, err := l.Count(cmd.Context(), p)
	if err != nil {
		return err
	}
	left, err := leftovers(cmd, l, p)
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(cmd.OutOrStdout(), struct {
			Rows   int64 `json:"rows"`
			DryRun bool  `json:"dry_run"`
			leftover
		}{rows, true, left})
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%d rows would be erased. Nothing was changed.\n", rows)
	left.print(cmd)
	return nil
}

// erase deletes every event with an identifier. The order: everything that was acknowledged is loaded, so that it is
// counted; the tombstone is written; what was acknowledged meanwhile is loaded; the rows are deleted; the tombstone
// says so. From the tombstone on nothing of the stream gets into the tables again. A crash after it leaves rows in the
// tables: the same command again deletes them, and so does a server when it starts.
func erase(cmd *cobra.Command, p lake.Predicate, kind string, asJSON bool) error {
	ctx := cmd.Context()
	if _, _, err := openSettled(cmd, false, lakeToRead); err != nil {
		return notErased(err)
	}
	var stone erasure.Tombstone
	err := withTombstones(cmd, func(t *erasure.Tombstones, retention time.Duration) (err error) {
		if err := t.Forget(ctx, hooks.now()); err != nil {
			return err
		}
		stone, err = t.Add(ctx, erasureKind(p), p.EmailSHA256+p.IFA+p.IPSHA256+p.PartnerID, p.Dataset, hooks.now(), retention)
		return err
	})
	if err != nil {
		return fmt.Errorf("nothing was erased: %w", err)
	}
	if err := step("erase.noted"); err != nil {
		return err
	}
	l, age, err := openSettled(cmd, false, lakeOf)
	if err != nil {
		return notErased(err)
	}
	var done lake.Erased
	err = withTombstones(cmd, func(t *erasure.Tombstones, _ time.Duration) error {
		return t.Pass(ctx, l.ErasedMark, func(ctx context.Context, w *erasure.Writer) (err error) {
			var before lake.Erased
			if w.Pending() {
				if before, err = finishTombstones(ctx, t, l, w, (*erasure.Tombstone).Unfinished); err != nil {
					return err
				}
			}
			if done, err = l.Erase(ctx, p, w); err != nil {
				return err
			}
			done.Rows, done.Replaced, done.Files = done.Rows+before.Rows, done.Replaced+before.Replaced, done.Files+before.Files
			if err := step("erase.deleted"); err != nil {
				return err
			}
			return t.Finish(ctx, stone, l.EventsUpdated())
		})
	})
	if errors.Is(err, lake.ErrDamaged) {
		err = fmt.Errorf("%w: some files cannot be read and may hold the identifier still; see the server's log", err)
	}
	if rest := stone.Before.Add(time.Second).Sub(hooks.now()); rest > 0 && rest <= time.Second {
		time.Sleep(rest) // times of receipt are in seconds: what is received after the command must be a later one
	}
	until := time.Now().Add(age).UTC().Truncate(time.Second)
	// The deed is noted, the identifier is not: the log would keep what was to be forgotten.
	noted := noteAlone(cmd, "erase", p.Dataset, map[string]string{"identifier": kind, "rows": strconv.FormatInt(done.Rows, 10)})
	if err := errors.Join(err, noted); err != nil {
		return err
	}
	left, err := leftovers(cmd, l, p)
	if err != nil {
		return fmt.Errorf("%d rows are erased; where else the identifier occurs is not known: %w", done.Rows, err)
	}
	if err := printErased(cmd, done, left, until, l.KeepsVersions(), asJSON); err != nil || !l.KeepsVersions() {
		return err
	}
	return &failure{exitVersions, errors.New("the identifier is erased from the tables, and not from the bucket: it keeps versions of objects that were deleted. " +
		"Delete the noncurrent versions below the prefix of the tables, or let a rule of the bucket do it; docs/operate.md has more about buckets")}
}

// notErased is the error of an erasure that could not begin.
func notErased(err error) error {
	if errors.Is(err, errNotSettled) {
		return fmt.Errorf("nothing was erased: %w, and what is still to be loaded may carry the identifier; try again when the backlog is gone", err)
	}
	return err
}

// step is where tests kill the program.
func step(name string) error {
	if hooks.step == nil {
		return nil
	}
	return hooks.step(name)
}

// erasureKind says which identifier is set.
func erasureKind(p lake.Predicate) erasure.Kind {
	switch {
	case p.EmailSHA256 != "":
		return erasure.Email
	case p.IFA != "":
		return erasure.IFA
	case p.IPSHA256 != "":
		return erasure.IP
	}
	return erasure.Partner
}

// withTombstones opens the engine of --data for do, which also gets how long the stream keeps frames.
func withTombstones(cmd *cobra.Command, do func(*erasure.Tombstones, time.Duration) error) error {
	ctx := cmd.Context()
	if err := dataExists(cmd); err != nil {
		return err
	}
	e, err := openEngine(cmd)
	if err != nil {
		return err
	}
	defer e.Close()
	s, err := stream.Open(ctx, e, stream.Options{Now: time.Now})
	if err != nil {
		return err
	}
	defer s.Close()
	retention, err := s.Retention(ctx)
	if err != nil {
		return err
	}
	t, err := erasure.Open(ctx, e)
	if err != nil {
		return err
	}
	return do(t, retention)
}

// erasureTime is how long an erasure may take until it counts as interrupted. Arbitrary.
const erasureTime = 15 * time.Minute

// applyErasures deletes from the tables what tombstones say was erased, where that is not done: a crash interrupted the
// erasure, or an old version of the tables was put back. Those that began after since are left to the command that
// works on them.
func applyErasures(ctx context.Context, t *erasure.Tombstones, l *lake.Lake, since time.Time) (rows int64, err error) {
	isDue := func(s *erasure.Tombstone) bool { return s.Due(since) }
	all, err := t.All(ctx)
	if err != nil || !slices.ContainsFunc(all, func(s erasure.Tombstone) bool { return isDue(&s) }) {
		return 0, err
	}
	err = t.Pass(ctx, l.ErasedMark, func(ctx context.Context, w *erasure.Writer) error {
		if w.Pending() {
			isDue = (*erasure.Tombstone).Unfinished
		}
		done, err := finishTombstones(ctx, t, l, w, isDue)
		rows = done.Rows
		return err
	})
	return rows, err
}

// finishTombstones deletes the rows of some tombstones: of all that are not finished, if the log of erased events says so.
func finishTombstones(
	ctx context.Context, t *erasure.Tombstones, l *lake.Lake, w *erasure.Writer, choose func(*erasure.Tombstone) bool,
) (done lake.Erased, err error) {
	all, err := t.All(ctx)
	if err != nil {
		return done, err
	}
	if w.Pending() {
		w.Everything()
	}
	some := slices.DeleteFunc(all, func(s erasure.Tombstone) bool { return !choose(&s) })
	if done, err = l.EraseWhere(ctx, t.Set(some).Erased, w); err != nil {
		return done, err
	}
	for _, s := range some {
		if err := t.Finish(ctx, s, l.EventsUpdated()); err != nil {
			return done, err
		}
	}
	return done, nil
}

// leftover is where else an identifier occurs.
type leftover struct {
	Mentions    map[string]int64 `json:"also_in"`     // rows by column
	Quarantined []string         `json:"quarantined"` // files
	Searched    int              `json:"quarantine_searched"`
}

// leftovers looks for an identifier where an erasure does not delete it.
func leftovers(cmd *cobra.Command, l *lake.Lake, p lake.Predicate) (out leftover, err error) {
	if out.Mentions, err = l.Mentions(cmd.Context(), p); err != nil {
		return out, err
	}
	dir, _ := cmd.Flags().GetString("data")
	out.Quarantined, out.Searched, err = loader.SearchQuarantine(filepath.Join(dir, "quarantine"), p.EmailSHA256+p.IFA+p.IPSHA256+p.PartnerID)
	if out.Quarantined == nil {
		out.Quarantined = []string{}
	}
	return out, err
}

func (o leftover) print(cmd *cobra.Command) {
	w := cmd.OutOrStdout()
	for _, name := range slices.Sorted(maps.Keys(o.Mentions)) {
		fmt.Fprintf(w, "%d other rows hold the same text in %s. They are not erased.\n", o.Mentions[name], name)
	}
	for _, name := range o.Quarantined {
		fmt.Fprintf(w, "quarantine/%s holds it. Delete the file when it is no longer needed.\n", name)
	}
	if rest := o.Searched - len(o.Quarantined); rest > 0 {
		fmt.Fprintf(w, "%d other files in quarantine/ do not hold it in a readable form. They are damaged, so they may hold parts of it.\n", rest)
	}
}

// identifierKind checks the one identifier that is set and says which it is.
func identifierKind(p *lake.Predicate) (kind string, err error) {
	for _, id := range []struct {
		kind  string
		value *string
		hash  bool
	}{
		{"email_sha256", &p.EmailSHA256, true},
		{"ifa", &p.IFA, false},
		{"ip", &p.IPSHA256, true},
		{"partner_id", &p.PartnerID, false},
	} {
		if *id.value == "" {
			continue
		}
		if id.hash && !isSHA256(*id.value) {
			return "", fmt.Errorf("the %s is named by its SHA-256: 64 hex digits", id.kind)
		}
		kind = id.kind
	}
	if kind == "" {
		return "", errors.New("the identifier is empty")
	}
	return kind, nil
}

func isSHA256(s string) bool {
	if len(s) != 64 {
		return false
	}
	for i := range len(s) {
		c := s[i] | 0x20
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func printErased(cmd *cobra.Command, done lake.Erased, left leftover, until time.Time, versions, asJSON bool) error {
	if asJSON {
		return printJSON(cmd.OutOrStdout(), struct {
			Rows        int64     `json:"rows"`
			Rewritten   int       `json:"files_rewritten"`
			Deleted     int       `json:"files_deleted"`
			StreamUntil time.Time `json:"stream_until"`
			Versions    bool      `json:"bucket_keeps_versions"`
			leftover
		}{done.Rows, done.Replaced, done.Files, until, versions, left})
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%d rows erased; %d data files rewritten, %d files deleted. The stream holds copies until %s at the latest.\n",
		done.Rows, done.Replaced, done.Files, until.Format(time.RFC3339))
	left.print(cmd)
	return nil
}
