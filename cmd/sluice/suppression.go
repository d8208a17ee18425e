package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/identifier"
	"sluice/internal/suppression"
)

func newSuppression() *cobra.Command {
	return group(&cobra.Command{
		Use: "suppression", Short: "Keep the list of people whose events are suppressed",
		Long: `Events that carry an identifier of the list are accepted as suppressed, from the moment of the command on and
on every node within 5 s: every identifier and every other text is removed before anything is stored. The
list has keyed digests alone. Nobody can read an identifier from it. It is in backups.

An entry holds for all datasets, or for one with --dataset. A partner_id needs --dataset.`,
	}, newSuppressionImport(), newSuppressionAdd(), newSuppressionRemove(), newSuppressionList(), newSuppressionKey())
}

// withSuppression runs work on the suppression list of --data or --nats. A dataset that is named must be there.
func withSuppression(cmd *cobra.Command, dataset string,
	work func(context.Context, *provision, *suppression.List) error,
) error {
	return withRegistry(cmd, func(ctx context.Context, p *provision) error {
		if dataset != "" {
			if _, err := p.Read(ctx, dataset); err != nil {
				return err
			}
		}
		l, err := suppression.Open(ctx, p.engine, time.Now, slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		if err = work(ctx, p, l); errors.Is(err, suppression.ErrNotListed) {
			err = &failure{exitNotFound, err}
		}
		return err
	})
}

func newSuppressionImport() *cobra.Command {
	var name, dataset string
	cmd := &cobra.Command{
		Use: "import FILE", Short: "Add the identifiers of a file", Args: cobra.ExactArgs(1),
		Long: `Adds the identifiers of a file: CSV with a header, or NDJSON, with the columns email_sha256, ifa, ip and
partner_id, or some of them. Each value stands for itself. - reads standard input. The same file again under
the same name adds what is new in it.`,
		Example: `  sluice suppression import drop-2026-11.csv
  gpg --decrypt list.csv.gpg | sluice suppression import - --name drop-2026-11`,
	}
	asJSON := jsonFlag(cmd)
	cmd.Flags().StringVar(&name, "name", "", "name of the import, for list and remove; default: the name of the file")
	cmd.Flags().StringVar(&dataset, "dataset", "", "only events of this dataset")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if name == "" && args[0] == "-" {
			return errors.New("give the import a name: --name NAME")
		}
		return withSuppression(cmd, dataset, func(ctx context.Context, p *provision, l *suppression.List) error {
			a, err := l.Add(ctx, cmp.Or(name, filepath.Base(args[0])), dataset)
			if errors.Is(err, suppression.ErrName) && name == "" {
				err = fmt.Errorf("%w, and that of the file is not: name the import with --name", err)
			}
			if err != nil {
				return err
			}
			if err := readIdentifiers(cmd, args[0], suppression.MaxEntries, a.Put); err != nil {
				return fmt.Errorf("nothing was added: %w", err)
			}
			return addSuppressed(ctx, p, l, a, "suppression.import", *asJSON)
		})
	}
	return cmd
}

// readIdentifiers reads a file of identifiers, or standard input. What is in it is kept nowhere but with yield.
func readIdentifiers(cmd *cobra.Command, file string, maxRows int, yield func(identifier.Kind, string) error) error {
	in := cmd.InOrStdin()
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer f.Close()
		in = io.Reader(f)
	}
	_, err := identifier.Read(in, maxRows, yield)
	return err
}

// suppressedLine is what an addition did with one kind.
type suppressedLine struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"`
	Dataset string `json:"dataset"`
	Added   int    `json:"added"`
}

// commitSuppressed commits an addition and notes it.
func commitSuppressed(
	ctx context.Context, p *provision, l *suppression.List, a *suppression.Addition, action string,
) (lines []suppressedLine, err error) {
	added, err := l.Commit(ctx, a)
	if err != nil {
		return nil, err
	}
	detail := map[string]string{"name": a.Name}
	for _, k := range identifier.Kinds {
		if n, ok := added[k]; ok {
			lines = append(lines, suppressedLine{a.Name, k.Name(), a.Dataset, n})
			detail[k.Name()] = strconv.Itoa(n)
		}
	}
	return lines, p.note(action, a.Dataset, detail)
}

// addSuppressed commits an addition, notes it and says what it did.
func addSuppressed(
	ctx context.Context, p *provision, l *suppression.List, a *suppression.Addition, action string, asJSON bool,
) error {
	lines, err := commitSuppressed(ctx, p, l, a, action)
	if err != nil && len(lines) == 0 {
		return err
	}
	if asJSON { // also where it is done and not in the audit log
		return errors.Join(err, printJSON(p.cmd.OutOrStdout(), lines))
	}
	for _, one := range lines {
		fmt.Fprintf(p.cmd.OutOrStdout(), "%s: %d entries added to %s\n", one.Kind, one.Added, one.Name)
	}
	fmt.Fprintln(p.cmd.ErrOrStderr(),
		"Running servers follow within 5 s. Events that are stored already stay: sluice erase deletes them.")
	return err
}

// addedName is the import of identifiers that are added one by one.
const addedName = "added"

func newSuppressionAdd() *cobra.Command {
	var dataset, name string
	cmd := &cobra.Command{
		Use: "add", Short: "Add one identifier", Args: cobra.NoArgs,
		Long:    `Adds one identifier. A shell keeps its commands: import with - for FILE leaves no trace there.`,
		Example: `  sluice suppression add --email-sha256 $(printf %s jane@example.com | sha256sum | cut -c1-64)`,
	}
	asJSON := jsonFlag(cmd)
	named := identifierFlags(cmd)
	cmd.MarkFlagsOneRequired(identifierNames...)
	cmd.Flags().StringVar(&name, "name", addedName, "name of the import that it is added to")
	cmd.Flags().StringVar(&dataset, "dataset", "", "only events of this dataset")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		id, err := oneIdentifier(named)
		if err != nil {
			return err
		}
		return withSuppression(cmd, dataset, func(ctx context.Context, prov *provision, l *suppression.List) error {
			a, err := l.Add(ctx, name, dataset)
			if err == nil {
				err = a.Put(id.Kind, id.Value)
			}
			if err != nil {
				return err
			}
			return addSuppressed(ctx, prov, l, a, "suppression.add", *asJSON)
		})
	}
	return cmd
}

func newSuppressionRemove() *cobra.Command {
	var dataset string
	cmd := &cobra.Command{
		Use: "remove [NAME]", Short: "Remove an identifier, or an import", Args: cobra.MaximumNArgs(1),
		Long: `Removes one identifier from every import, or everything that was added under a NAME. With --dataset it removes
an identifier of that dataset alone. What was accepted as suppressed stays so. It says what it spans, and
asks; without a terminal to ask on it needs --yes.`,
		Example: `  sluice suppression remove drop-2026-11.csv --yes`,
	}
	named := identifierFlags(cmd)
	cmd.Flags().StringVar(&dataset, "dataset", "", "only entries of this dataset")
	cmd.Flags().Bool("yes", false, "do not ask")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := oneIdentifier(named)
		span := "This spans everything that was added as " + cmp.Or(append(args, "")...) + "."
		switch {
		case err != nil && (id.Kind != "" || len(args) == 0):
			return fmt.Errorf("name an import, or an identifier: %w", err)
		case len(args) == 1 && (id.Kind != "" || dataset != ""):
			return errors.New("name an import, or an identifier and its dataset, not both")
		case len(args) == 0 && dataset == "":
			span = "This spans the entries of all datasets."
		case len(args) == 0:
			span = "This spans the entries of the dataset " + dataset + "."
		}
		fmt.Fprintln(cmd.ErrOrStderr(), span)
		if err := confirm(cmd, "Remove?"); err != nil {
			return err
		}
		return withSuppression(cmd, "", func(ctx context.Context, prov *provision, l *suppression.List) error {
			var n int
			detail := map[string]string{}
			if len(args) == 1 {
				detail["name"] = args[0]
				n, err = l.RemoveImport(ctx, args[0])
			} else {
				detail["identifier"] = id.Kind.Name()
				n, err = l.Remove(ctx, id.Kind, id.Value, dataset)
			}
			if err != nil {
				return err
			}
			detail["entries"] = strconv.Itoa(n)
			fmt.Fprintf(cmd.OutOrStdout(), "%d entries removed; running servers follow within 5 s.\n", n)
			return prov.note("suppression.remove", dataset, detail)
		})
	}
	return cmd
}

func newSuppressionList() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List the imports; entries cannot be read", Args: cobra.NoArgs}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return withSuppression(cmd, "", func(ctx context.Context, _ *provision, l *suppression.List) error {
			all, err := l.Imports(ctx)
			if err != nil {
				return err
			}
			if *asJSON {
				return printJSON(cmd.OutOrStdout(), all)
			}
			w := table(cmd, "NAME\tTIME\tKIND\tDATASET\tCOUNT\tDIGEST KEY")
			for _, i := range all {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\n", i.Name, i.Time.Format(time.RFC3339), i.Kind, cmp.Or(i.Dataset, "(all)"),
					i.Count, i.Key)
			}
			return w.Flush()
		})
	}
	return cmd
}

func newSuppressionKey() *cobra.Command {
	return &cobra.Command{
		Use: "new-key", Short: "Make a new digest key, for entries that are added from then on", Args: cobra.NoArgs,
		Long: `Makes a new digest key, for entries that are added from then on. Older entries keep theirs, and a look-up tries
every key that has entries: at most four. To end an old key, remove the imports that were made with it and
import them again.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withSuppression(cmd, "", func(ctx context.Context, p *provision, l *suppression.List) error {
				n, err := l.NewKey(ctx)
				if err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "Digest key %d is used for new entries.\n", n)
				return p.note("suppression.new-key", "", map[string]string{"digest_key": strconv.Itoa(n)})
			})
		},
	}
}
