package main

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/engine"
)

func newClusterSet() *cobra.Command {
	var replicas, partitions int
	var retention days
	var maxStream size
	var unlimited bool
	var tables string
	cmd := &cobra.Command{
		Use:   "set",
		Short: "Change what the nodes of a cluster have agreed on",
		Long: `Changes the configuration that all nodes share, in the record and in every stream and bucket. Nodes that run go
on with what they know; restart them one by one. A node that names another value with a flag does not start.

The number of partitions can only grow. Fewer replicas, a shorter retention or a smaller size take effect at once:
events that are then too old are gone from the stream.`,
		Example: `  sluice cluster set --nats nats://10.0.0.1:4222 --replicas 3
  sluice cluster set --nats nats://10.0.0.1:4222 --tables s3://bucket/lake --s3-region eu-central-1`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.IntVar(&replicas, "replicas", 0, "copies of everything in the engine")
	f.IntVar(&partitions, "partitions", 0, "partitions of the stream; may grow, never shrink")
	f.Var(&retention, "stream-retention", "how long the stream retains accepted events, at least 48h")
	f.Var(&maxStream, "max-stream", "bytes each partition may hold")
	f.BoolVar(&unlimited, "no-max-stream", false, "let a partition fill the disks")
	f.StringVar(&tables, "tables", "", "where the tables are from now on; they must be there: see sluice lake copy")
	cmd.MarkFlagsOneRequired("replicas", "partitions", "stream-retention", "max-stream", "no-max-stream", "tables")
	cmd.MarkFlagsMutuallyExclusive("max-stream", "no-max-stream")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var want engine.Record
		detail := map[string]string{}
		changed := func(name, value string) bool {
			if f.Changed(name) {
				detail[name] = value
			}
			return f.Changed(name)
		}
		if changed("replicas", strconv.Itoa(replicas)) && (replicas < 1 || replicas > 5) {
			return errors.New("--replicas is 1 to 5")
		}
		if changed("partitions", strconv.Itoa(partitions)) && partitions < 1 {
			return errors.New("--partitions is 1 to " + strconv.Itoa(engine.MaxPartitions))
		}
		if changed("stream-retention", retention.String()) && time.Duration(retention) < 48*time.Hour {
			return errors.New("--stream-retention must be at least 48h: that long an Idempotency-Key is promised to be known")
		}
		if changed("max-stream", maxStream.String()) && maxStream == 0 {
			return errors.New("--max-stream is a number of bytes; for none use --no-max-stream")
		}
		changed("no-max-stream", "true")
		if changed("tables", tables) {
			var err error
			if want.Lake, want.LakeID, err = tablesAt(cmd, tables); err != nil {
				return err
			}
		}
		e, err := openEngine(cmd)
		if err != nil {
			return failed(err)
		}
		defer e.Close()
		r, err := e.Change(cmd.Context(), func(r *engine.Record) error {
			if replicas != 0 {
				r.Replicas = replicas
			}
			if partitions != 0 {
				r.Partitions = partitions
			}
			if retention != 0 {
				r.StreamRetention = time.Duration(retention)
			}
			if maxStream != 0 {
				r.MaxStream = int64(maxStream)
			}
			if unlimited {
				r.MaxStream = -1
			}
			if want.Lake != "" {
				r.Lake, r.LakeID = want.Lake, want.LakeID
			}
			return nil
		})
		if err != nil {
			return failed(err)
		}
		fmt.Fprintln(cmd.ErrOrStderr(), "The cluster is changed. Restart its nodes one by one.")
		log, err := openAudit(cmd, e)
		if err != nil {
			return failed(err)
		}
		return failed(note(cmd.Context(), log, "cluster.set", r.Cluster, detail))
	}
	return cmd
}

// tablesAt returns the address and the identity of tables that must be there.
func tablesAt(cmd *cobra.Command, url string) (address, id string, err error) {
	place, err := parsePlace(cmd, "--tables", url)
	if err != nil {
		return "", "", err
	}
	if address, err = place.address(); err != nil {
		return "", "", err
	}
	id, err = tablesThere(cmd.Context(), place)
	if err == nil && id == "" {
		err = fmt.Errorf("there are no tables at %s: copy them with sluice lake copy --to first", place)
	}
	return address, id, failed(err)
}
