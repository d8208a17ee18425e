package main

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
)

func newLakeRetain() *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use: "retain", Short: "Drop what retention holds back until somebody confirms it", Args: cobra.NoArgs,
		Long: `A run of retention that would drop more days than have passed since the last run, and two, drops nothing:
a wrong --table-retention or clock looks like that. The alarm SluiceRetentionHeld says so. This command prints which
days of which tables are held back, asks, and drops them. If they should stay, start the server with the right
--table-retention instead; the alarm ends with its next run.

It can run beside a server. In a cluster, "sluice cluster set --table-retention" with --yes does the same.`,
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print what is held back, and drop nothing")
	cmd.Flags().Bool("yes", false, "do not ask")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		l, err := openLake(cmd, lakeOf)
		if err != nil {
			return err
		}
		held := false
		for _, t := range l.Stats().Tables {
			if h := t.Held; h.Days > 0 {
				held = true
				fmt.Fprintf(cmd.OutOrStdout(), "%s: %d rows of %d days before %s\n", t.Name, h.Rows, h.Days,
					h.Before.Format(time.DateOnly))
			}
		}
		if !held {
			fmt.Fprintln(cmd.ErrOrStderr(), "Retention holds nothing back.")
		}
		if !held || dryRun {
			return nil
		}
		if err := confirm(cmd, "Drop these rows?"); err != nil {
			return err
		}
		rows, err := l.Release(cmd.Context())
		noted := noteAlone(cmd, "lake retain", "", map[string]string{"rows": strconv.FormatInt(rows, 10)})
		if err := errors.Join(err, noted); err != nil {
			return failed(err)
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "%d rows are dropped. Their files go when the snapshots that list them end.\n", rows)
		return nil
	}
	return cmd
}
