package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/dataset"
	"sluice/internal/engine"
)

func newDataset() *cobra.Command {
	return group(
		&cobra.Command{Use: "dataset", Short: "Make, change, list, disable, enable and delete datasets"},
		newDatasetCreate(), newDatasetSet(), newDatasetList(), newDatasetDelete(),
		newDatasetSwitch("disable", "Close a dataset to all its keys", (*dataset.Registry).Disable),
		newDatasetSwitch("enable", "Open a dataset to its live keys again", (*dataset.Registry).Enable))
}

// group makes a command that only holds others. Called without one of them it shows what there is: a usage error.
func group(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		fmt.Fprint(cmd.ErrOrStderr(), cmd.UsageString())
		return errors.New("say what to do: " + cmd.CommandPath() + " COMMAND")
	}
	cmd.AddCommand(commands...)
	return cmd
}

func newDatasetCreate() *cobra.Command {
	var spec dataset.Spec
	var optOut string
	cmd := &cobra.Command{
		Use: "create ID", Short: "Make a dataset and its first key; the key is shown once", Args: cobra.ExactArgs(1),
		Example: `  sluice dataset create shop --name "Web shop"
  SLUICE_API_KEY=$(sluice dataset create shop)`,
	}
	asJSON := jsonFlag(cmd)
	specFlags(cmd, &spec, &optOut)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		spec.ID = args[0]
		if spec.SuppressOptOut, err = suppresses(optOut); err != nil {
			return err
		}
		if err := spec.Validate(); err != nil {
			return err
		}
		return withRegistry(cmd, func(ctx context.Context, p *provision) error {
			if err := unbound(ctx, p, spec.ID); err != nil {
				return err
			}
			_, keyID, key, err := p.Create(ctx, spec)
			if errors.Is(err, dataset.ErrExists) {
				return fmt.Errorf("%w; give it another key with: sluice key issue %s", err, spec.ID)
			}
			if err != nil {
				return err
			}
			return p.showKey("dataset.create", spec.ID, keyID, key, *asJSON)
		})
	}
	return cmd
}

// specFlags are the flags for what can be said of a dataset when it is made, and changed later.
func specFlags(cmd *cobra.Command, spec *dataset.Spec, optOut *string) {
	cmd.Flags().StringVar(&spec.Name, "name", "", "a name for people")
	cmd.Flags().StringVar(optOut, "opt-out", "measurement_only",
		"what a person's opt-out does: measurement_only or suppress")
	cmd.Flags().Float64Var(&spec.RequestsPerSecond, "requests-per-second", 0, "limit of requests; 0 is none")
	cmd.Flags().Float64Var(&spec.EventsPerSecond, "events-per-second", 0, "limit of events; 0 is none")
}

// suppresses reads --opt-out.
func suppresses(optOut string) (bool, error) {
	if optOut != "suppress" && optOut != "measurement_only" {
		return false, errors.New("--opt-out is measurement_only or suppress")
	}
	return optOut == "suppress", nil
}

func newDatasetSet() *cobra.Command {
	var spec dataset.Spec
	var optOut string
	var retention int
	var dryRun bool
	cmd := &cobra.Command{
		Use: "set ID", Short: "Change a dataset; running servers follow within 5 s", Args: cobra.ExactArgs(1),
		Long: "Changes a dataset. With --retention its rows are kept for that many days, " +
			`at most as long as the tables keep rows
(--table-retention): older ones go from all tables with compaction, at most 24 h later, and with the snapshots that
still list them. If there are such rows it says how many, and asks; without a terminal to ask on it needs --yes.`,
		Example: `  sluice dataset set shop --events-per-second 500 --opt-out suppress
  sluice dataset set shop --retention 90 --dry-run`,
	}
	asJSON := jsonFlag(cmd)
	specFlags(cmd, &spec, &optOut)
	cmd.Flags().IntVar(&retention, "retention", 0, "keep rows for this many days; 0 is as long as the tables")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "count the rows that --retention would delete, and change nothing")
	cmd.Flags().Bool("yes", false, "do not ask")
	cmd.MarkFlagsOneRequired("name", "opt-out", "requests-per-second", "events-per-second", "retention")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if spec.SuppressOptOut, err = suppresses(optOut); err != nil {
			return err
		}
		edits := map[string]func(*dataset.Dataset){
			"name":                func(d *dataset.Dataset) { d.Name = spec.Name },
			"opt-out":             func(d *dataset.Dataset) { d.SuppressOptOut = spec.SuppressOptOut },
			"requests-per-second": func(d *dataset.Dataset) { d.RequestsPerSecond = spec.RequestsPerSecond },
			"events-per-second":   func(d *dataset.Dataset) { d.EventsPerSecond = spec.EventsPerSecond },
			"retention":           func(d *dataset.Dataset) { d.RetentionDays = retention },
		}
		detail := map[string]string{}
		for flag := range edits {
			if f := cmd.Flags().Lookup(flag); f.Changed {
				detail[flag] = f.Value.String()
			}
		}
		if cmd.Flags().Changed("retention") || dryRun {
			if err := retentionAgreed(cmd, args[0], retention, dryRun, *asJSON); err != nil || dryRun {
				return err
			}
		}
		return withRegistry(cmd, func(ctx context.Context, p *provision) error {
			d, err := p.Set(ctx, args[0], func(d *dataset.Dataset) {
				for flag := range detail {
					edits[flag](d)
				}
			})
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "%s is changed; a running server follows within 5 s.\n", d.ID)
			if *asJSON {
				err = printDatasets(cmd, []*dataset.Dataset{d})
			}
			return errors.Join(err, p.note("dataset.set", d.ID, detail))
		})
	}
	return cmd
}

func newDatasetList() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List the datasets, by id", Args: cobra.NoArgs,
		Long: `Lists the datasets in the order of their ids. Where there are thousands, --search finds some of them, and
--limit with --after lists them page by page: give the last id of a page to --after for the next one.`,
		Example: `  sluice dataset list --search shop
  sluice dataset list --limit 100 --after shop-0099 --json`,
	}
	asJSON := jsonFlag(cmd)
	var page datasetPage
	cmd.Flags().IntVar(&page.limit, "limit", 0, "list at most this many; 0 is all")
	cmd.Flags().StringVar(&page.after, "after", "", "list only ids after this one")
	cmd.Flags().StringVar(&page.search, "search", "",
		"list only datasets whose id or name contains this text, in any case")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if page.limit < 0 {
			return errors.New("--limit is 0 or more")
		}
		return withRegistry(cmd, func(ctx context.Context, p *provision) error {
			all, err := p.List(ctx)
			if err != nil {
				return err
			}
			some := len(all) > 0
			all = page.of(all)
			if *asJSON {
				return printDatasets(cmd, all)
			}
			if !some {
				fmt.Fprintln(cmd.ErrOrStderr(), "There is no dataset yet. Make one with: sluice dataset create ID")
				return nil
			}
			w := table(cmd, "ID\tNAME\tSTATE\tLIVE KEYS\tOPT-OUT\tREQUESTS/S\tEVENTS/S\tRETENTION\tCREATED")
			for _, d := range all {
				fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\n", d.ID, d.Name, state(d), liveKeys(d),
					optOutName(d), limitText(d.RequestsPerSecond), limitText(d.EventsPerSecond), retentionText(d),
					d.Created.UTC().Format(time.RFC3339))
			}
			return w.Flush()
		})
	}
	return cmd
}

// datasetPage is a part of the list of datasets. The zero value is all of it.
type datasetPage struct {
	limit         int
	after, search string
}

// of are the datasets of the page, by id.
func (p datasetPage) of(all []*dataset.Dataset) []*dataset.Dataset {
	slices.SortFunc(all, func(a, b *dataset.Dataset) int { return strings.Compare(a.ID, b.ID) })
	search := strings.ToLower(p.search)
	out := slices.DeleteFunc(all, func(d *dataset.Dataset) bool {
		return d.ID <= p.after || !strings.Contains(strings.ToLower(d.ID), search) &&
			!strings.Contains(strings.ToLower(d.Name), search)
	})
	if p.limit > 0 {
		out = out[:min(p.limit, len(out))]
	}
	return out
}

// printDatasets prints one object a dataset, in an array.
func printDatasets(cmd *cobra.Command, all []*dataset.Dataset) error {
	type shown struct {
		ID                string    `json:"data_set_id"`
		Name              string    `json:"name"`
		State             string    `json:"state"`
		LiveKeys          int       `json:"live_keys"`
		OptOut            string    `json:"opt_out"`
		RequestsPerSecond float64   `json:"requests_per_second"`
		EventsPerSecond   float64   `json:"events_per_second"`
		RetentionDays     int       `json:"retention_days"` // 0 is as long as the tables
		Created           time.Time `json:"created"`
	}
	list := make([]shown, 0, len(all))
	for _, d := range all {
		list = append(list, shown{
			d.ID, d.Name, state(d), liveKeys(d), optOutName(d), d.RequestsPerSecond, d.EventsPerSecond,
			d.RetentionDays, d.Created.UTC(),
		})
	}
	return printJSON(cmd.OutOrStdout(), list)
}

func newDatasetSwitch(
	use, short string, apply func(*dataset.Registry, context.Context, string) error,
) *cobra.Command {
	cmd := &cobra.Command{Use: use + " ID", Short: short, Args: cobra.ExactArgs(1)}
	return onRegistry(cmd, func(ctx context.Context, p *provision, args []string) error {
		if err := apply(p.Registry, ctx, args[0]); err != nil {
			return err
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "Dataset %s is %sd; a running server sees it within 5 s.\n", args[0], use)
		return p.note("dataset."+use, args[0], nil)
	})
}

func state(d *dataset.Dataset) string {
	if d.Disabled {
		return "disabled"
	}
	return "enabled"
}

func optOutName(d *dataset.Dataset) string {
	if d.SuppressOptOut {
		return "suppress"
	}
	return "measurement_only"
}

func liveKeys(d *dataset.Dataset) int {
	n := 0
	for i := range d.Keys {
		if d.Keys[i].Live(time.Now()) {
			n++
		}
	}
	return n
}

func retentionText(d *dataset.Dataset) string {
	if d.RetentionDays == 0 {
		return "tables"
	}
	return engine.AgeText(d.Retention())
}

func limitText(v float64) string {
	if v == 0 {
		return "none"
	}
	return fmt.Sprint(v)
}
