package main

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice/cmd/sluice/internal/tables"
	"sluice/internal/engine"
)

func newClusterSet() *cobra.Command {
	var replicas, partitions, maxKeys int
	var retention, tableRetention, snapshots days
	var maxStream size
	var unlimited, yes bool
	var tables, lakeID string
	cmd := &cobra.Command{
		Use: "set", Short: "Change what the nodes of a cluster have agreed on", Args: cobra.NoArgs,
		Long: `Changes the configuration that all nodes share, in the record and in every stream and bucket. Nodes that run go
on with what they know; restart them one by one. A node that names another value with a flag does not start.

The number of partitions can only grow. A shorter --stream-retention or a smaller --max-stream takes effect at once:
events that are then too old, or too many, are gone from the stream. The command asks before that; without a terminal
it needs --yes.

Nodes that run take another --table-retention over within five minutes. If it would drop more days of the tables
than have passed since retention last ran, and two, nothing is dropped, and the alarm SluiceRetentionHeld says so:
correct the value, or repeat it with --yes.`,
		Example: `  sluice cluster set --replicas 3
  sluice cluster set --table-retention 90d --yes
  sluice cluster set --tables s3://bucket/lake --s3-region eu-central-1`,
	}
	f := cmd.Flags()
	f.IntVar(&replicas, "replicas", 0, "copies of everything in the engine")
	f.IntVar(&partitions, "partitions", 0, "partitions of the stream; may grow, never shrink")
	f.Var(&retention, "stream-retention", "how long the stream retains accepted events, at least 48h")
	f.Var(&tableRetention, "table-retention", "how long the tables retain events; 0 is for ever")
	f.BoolVar(&yes, "yes", false,
		"do not ask; all rows that are older than --table-retention may go, however many they are")
	f.Var(&snapshots, "snapshot-retention",
		"how long a snapshot of a table, with its files, stays readable after the next one has come, at least 1m")
	f.Var(&maxStream, "max-stream", "bytes each partition may hold")
	f.BoolVar(&unlimited, "no-max-stream", false, "let a partition fill the disks")
	f.IntVar(&maxKeys, "max-idempotency-keys-total", 0,
		"idempotency keys that all datasets may have in use, some 170 bytes of memory each in every NATS server that "+
			"holds them")
	f.StringVar(&tables, "tables", "", "where the tables are from now on; they must be there: see sluice lake copy")
	cmd.MarkFlagsOneRequired("replicas", "partitions", "stream-retention", "table-retention", "snapshot-retention",
		"max-stream", "no-max-stream", "max-idempotency-keys-total", "tables")
	cmd.MarkFlagsMutuallyExclusive("max-stream", "no-max-stream")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		detail := map[string]string{}
		cmd.LocalNonPersistentFlags().VisitAll(func(one *pflag.Flag) {
			if one.Changed {
				detail[one.Name] = one.Value.String()
			}
		})
		switch {
		case f.Changed("replicas") && (replicas < 1 || replicas > 5):
			return errors.New("--replicas is 1 to 5")
		case f.Changed("partitions") && partitions < 1:
			return errors.New("--partitions is 1 to " + strconv.Itoa(engine.MaxPartitions))
		case f.Changed("stream-retention") && time.Duration(retention) < 48*time.Hour:
			return errStreamRetention
		case f.Changed("snapshot-retention") && time.Duration(snapshots) < leastSnapshots:
			return errSnapshots
		case f.Changed("max-stream") && maxStream == 0:
			return errors.New("--max-stream is a number of bytes; for none use --no-max-stream")
		case f.Changed("max-idempotency-keys-total") && maxKeys < 1:
			return errors.New("--max-idempotency-keys-total is at least 1")
		case f.Changed("tables"):
			var err error
			if tables, lakeID, err = tablesAt(cmd, tables); err != nil {
				return err
			}
		}
		e, err := openEngine(cmd)
		if err != nil {
			return failed(err)
		}
		defer e.Close()
		if is, err := e.Record(cmd.Context()); err == nil && !yes {
			if loss := streamLoss(&is, time.Duration(retention), int64(maxStream)); loss != "" {
				fmt.Fprintln(cmd.ErrOrStderr(), loss)
				if err := confirm(cmd, "Change the cluster?"); err != nil {
					return err
				}
			}
		}
		r, err := e.Change(cmd.Context(), func(r *engine.Record) error {
			r.Replicas, r.Partitions = cmp.Or(replicas, r.Replicas), cmp.Or(partitions, r.Partitions)
			r.StreamRetention = cmp.Or(time.Duration(retention), r.StreamRetention)
			if f.Changed("table-retention") {
				r.TableRetention, r.RetentionConfirmed = cmp.Or(time.Duration(tableRetention), -1), time.Time{}
			}
			if yes && f.Changed("table-retention") {
				r.RetentionConfirmed = hooks.now().UTC()
			}
			r.SnapshotRetention = cmp.Or(time.Duration(snapshots), r.SnapshotRetention)
			r.MaxStream = cmp.Or(int64(maxStream), r.MaxStream)
			if unlimited {
				r.MaxStream = -1
			}
			r.MaxKeys = cmp.Or(maxKeys, r.MaxKeys)
			if tables != "" {
				r.Lake, r.LakeID = tables, lakeID
			}
			return nil
		})
		if err != nil {
			return failed(err)
		}
		fmt.Fprintln(cmd.ErrOrStderr(), "The cluster is changed. Restart its nodes one by one.")
		return failed(noteIn(cmd, e, "cluster.set", r.Cluster, detail))
	}
	return cmd
}

// streamLoss says what of the stream is gone once a cluster retains less; "" if nothing.
func streamLoss(is *engine.Record, retention time.Duration, maxStream int64) string {
	switch {
	case retention != 0 && retention < is.StreamRetention:
		return fmt.Sprintf("The stream of all datasets retains events %s now. Those that are older than %s are gone from it "+
			"at once, stored or not.", engine.AgeText(is.StreamRetention), engine.AgeText(retention))
	case maxStream != 0 && (is.MaxStream < 0 || maxStream < is.MaxStream):
		limit := size(maxStream)
		return fmt.Sprintf("Of each partition of the stream of all datasets the oldest events beyond %s are gone at once, "+
			"stored or not.", limit.String())
	}
	return ""
}

// tablesAt returns the address and the identity of tables that must be there.
func tablesAt(cmd *cobra.Command, url string) (address, id string, err error) {
	place, err := parsePlace(cmd, "--tables", url)
	if err != nil {
		return "", "", err
	}
	if address, err = place.Address(); err != nil {
		return "", "", err
	}
	id, _, err = tables.There(cmd.Context(), place)
	if err == nil && id == "" {
		err = fmt.Errorf("there are no tables at %s: copy them with sluice lake copy --to first", place)
	}
	return address, id, failed(err)
}
