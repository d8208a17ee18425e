package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/dataset"
)

func newReader() *cobra.Command {
	return group(&cobra.Command{
		Use: "reader", Short: "Give programs a token to read with: the catalog of tables, the feed of events",
	}, newReaderCreate(), newReaderList(), newReaderRevoke())
}

// readers are the readers of --data or --nats.
func (p *provision) readers(ctx context.Context) (*dataset.Readers, error) {
	return dataset.OpenReaders(ctx, p.engine, dataset.Options{Now: hooks.now})
}

func newReaderCreate() *cobra.Command {
	var s dataset.ReaderSpec
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Make a reader and print its token, once", Args: cobra.ExactArgs(1),
		Long: `Makes a reader and prints its token, once: only a hash of it is stored.

catalog lets it list and load the tables through /iceberg/. feed lets it follow events through /feed/.
Without --allow it may use both. A reader that is bound to a dataset by --dataset sees the events of that
dataset alone in the feed, and may not use the catalog: the tables hold the events of every dataset.`,
		Example: `  sluice reader create warehouse --allow catalog
  sluice reader create optimizer --allow feed --dataset shop`,
	}
	cmd.Flags().StringSliceVar(&s.Allow, "allow", nil,
		"what it may use: catalog, feed; default: both, or feed with --dataset")
	cmd.Flags().StringVar(&s.DatasetID, "dataset", "", "the only dataset whose events it sees")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s.Name = args[0]
		if len(s.Allow) == 0 {
			s.Allow = []string{dataset.AllowFeed}
			if s.DatasetID == "" {
				s.Allow = append(s.Allow, dataset.AllowCatalog)
			}
		}
		if err := s.Validate(); err != nil {
			return err
		}
		return withRegistry(cmd, func(ctx context.Context, p *provision) error {
			readers, err := p.readers(ctx)
			if err != nil {
				return err
			}
			if s.DatasetID != "" {
				if _, err := p.Read(ctx, s.DatasetID); err != nil {
					return err
				}
			}
			r, token, err := readers.Create(ctx, s)
			if errors.Is(err, dataset.ErrReaderExists) {
				return fmt.Errorf("%w; end it with: sluice reader revoke %s", err, s.Name)
			}
			if err != nil {
				return err
			}
			detail := map[string]string{"token": r.TokenID, "allow": strings.Join(r.Allow, ",")}
			if r.DatasetID != "" {
				detail["dataset"] = r.DatasetID
			}
			return errors.Join(showToken(cmd, r, token, *asJSON), p.note("reader.create", r.Name, detail))
		})
	}
	return cmd
}

// showToken prints a new token: alone on stdout, the words on stderr. It is the only time the token is shown.
func showToken(cmd *cobra.Command, r *dataset.Reader, token dataset.Key, asJSON bool) error {
	stderr := cmd.ErrOrStderr()
	if r.DatasetID != "" && slices.Contains(r.Allow, dataset.AllowCatalog) {
		fmt.Fprintln(stderr,
			"The catalog will reject this reader: it is bound to a dataset, and the tables hold the events of every dataset.")
	}
	if asJSON {
		return printJSON(cmd.OutOrStdout(), struct {
			Name      string   `json:"name"`
			Token     string   `json:"token"`
			Allow     []string `json:"allow"`
			DatasetID string   `json:"data_set_id,omitempty"`
		}{r.Name, token.Reveal(), r.Allow, r.DatasetID})
	}
	fmt.Fprintf(stderr,
		"Token of reader %s. Keep it now: it is not shown again. Send it as: Authorization: Bearer TOKEN\n", r.Name)
	_, err := fmt.Fprintln(cmd.OutOrStdout(), token.Reveal())
	return err
}

func newReaderList() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List the readers, revoked ones too", Args: cobra.NoArgs}
	asJSON := jsonFlag(cmd)
	return onRegistry(cmd, func(ctx context.Context, p *provision, _ []string) error {
		readers, err := p.readers(ctx)
		if err != nil {
			return err
		}
		all, err := readers.All(ctx)
		if err != nil {
			return err
		}
		if *asJSON {
			return printReaders(cmd, all)
		}
		if len(all) == 0 {
			fmt.Fprintln(cmd.ErrOrStderr(), "There is no reader yet. Make one with: sluice reader create NAME")
			return nil
		}
		w := table(cmd, "NAME\tSTATE\tALLOW\tDATASET\tCREATED")
		for _, r := range all {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.Name, readerState(r), strings.Join(r.Allow, ","),
				cmp.Or(r.DatasetID, "all"), r.Created.UTC().Format(time.RFC3339))
		}
		return w.Flush()
	})
}

func readerState(r *dataset.Reader) string {
	if r.Live() {
		return "live"
	}
	return "revoked"
}

func printReaders(cmd *cobra.Command, all []*dataset.Reader) error {
	type shown struct {
		Name      string    `json:"name"`
		State     string    `json:"state"`
		Allow     []string  `json:"allow"`
		DatasetID string    `json:"data_set_id,omitempty"`
		Created   time.Time `json:"created"`
		Revoked   time.Time `json:"revoked,omitzero"`
	}
	list := make([]shown, 0, len(all))
	for _, r := range all {
		list = append(list, shown{r.Name, readerState(r), r.Allow, r.DatasetID, r.Created.UTC(), r.Revoked.UTC()})
	}
	return printJSON(cmd.OutOrStdout(), list)
}

func newReaderRevoke() *cobra.Command {
	cmd := &cobra.Command{Use: "revoke NAME", Short: "End a reader's token at once", Args: cobra.ExactArgs(1)}
	return onRegistry(cmd, func(ctx context.Context, p *provision, args []string) error {
		readers, err := p.readers(ctx)
		if err == nil {
			err = readers.Revoke(ctx, args[0])
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "Reader %s is revoked; a running server rejects its token within 5 s.\n", args[0])
		return p.note("reader.revoke", args[0], nil)
	})
}
