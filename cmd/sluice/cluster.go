package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/clusterstatus"
)

func newCluster() *cobra.Command {
	return group(&cobra.Command{
		Use: "cluster", Short: "Show, check and change what the nodes of a cluster share",
		Long: `Nodes that share NATS servers agree on one configuration, which is recorded there: replicas, partitions,
retention and size of the stream, and where the tables are. docs/cluster.md explains how to run a cluster.`,
	}, newClusterStatus(), newClusterCheck(), newClusterSet())
}

func newClusterStatus() *cobra.Command {
	cmd := &cobra.Command{
		Use: "status", Short: "Show streams, leaders, replicas, leases, watermarks and nodes", Args: cobra.NoArgs,
		Long: `Shows what is stored in the engine and how many replicas have all of it, how far each partition is loaded
and which node loads it, the leases, and the nodes with their versions and last heartbeats. The exit code is 1
when there are problems. It works for an embedded engine, too.`,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		e, err := openService(cmd) // this command only looks: it makes nothing
		if err != nil {
			return failed(err)
		}
		defer e.Close()
		st, err := clusterstatus.Read(cmd.Context(), e)
		if err != nil {
			return failed(err)
		}
		if *asJSON {
			err = printJSON(cmd.OutOrStdout(), st)
		} else {
			err = printStatus(cmd.OutOrStdout(), st, time.Now())
		}
		if err == nil && len(st.Problems) > 0 {
			err = fmt.Errorf("%d problems", len(st.Problems))
		}
		return failed(err)
	}
	return cmd
}

func printStatus(out io.Writer, st *clusterstatus.Status, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintf(w, "engine: %s\n", st.Engine)
	if r := st.Record; r != nil {
		limit := "no limit"
		if r.MaxStream >= 0 {
			limit = new(size(r.MaxStream)).String()
		}
		fmt.Fprintf(w, "cluster: %s, %d replicas, %d partitions, stream retention %s, %s each, %d idempotency keys, tables "+
			"at %s, table retention %s, snapshot retention %s\n",
			r.Cluster, r.Replicas, r.Partitions, r.StreamRetention, limit, r.MaxKeys, r.Lake, r.TableRetention, r.Snapshots)
	}
	fmt.Fprintln(w, "\nSTREAM\tLEADER\tREPLICAS\tIN STEP\tMESSAGES\tBYTES\tBEHIND")
	for _, s := range st.Streams {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%s\n", s.Name, cmp.Or(s.Leader, "-"), s.Replicas, s.InStep, s.Messages,
			s.Bytes, strings.Join(s.Behind, ", ")+s.Error)
	}
	fmt.Fprintln(w, "\nPARTITION\tLAST\tWATERMARK\tLAG\tLOADER")
	for _, p := range st.Partitions {
		lag := time.Duration(p.LagSeconds * float64(time.Second)).Round(time.Millisecond).String()
		if !p.LagKnown {
			lag = "unknown"
		}
		fmt.Fprintf(w, "%d\t%d\t%d\t%v\t%s\n", p.Partition, p.Last, p.Watermark, lag, cmp.Or(p.Loader, "-"))
	}
	fmt.Fprintln(w, "\nLEASE\tNODE\tRENEWED")
	for _, l := range st.Leases {
		fmt.Fprintf(w, "%s\t%s\t%v ago\n", l.Name, l.Node, max(0, now.Sub(l.Renewed)).Round(100*time.Millisecond))
	}
	fmt.Fprintln(w, "\nNODE\tHOST\tVERSION\tAPI\tHEARTBEAT\tSTATE")
	for _, n := range st.Nodes {
		state := "accepts"
		if n.Loading {
			state = "accepts and loads"
		}
		if n.Draining {
			state = "draining"
		}
		if n.Failure != "" {
			state = n.Failure
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%v ago\t%s\n", n.ID, n.Host, n.Version, n.API,
			max(0, now.Sub(n.Heartbeat)).Round(100*time.Millisecond), state)
	}
	for _, p := range st.Problems {
		fmt.Fprintf(w, "\nproblem: %s", p)
	}
	if len(st.Problems) > 0 {
		fmt.Fprintln(w)
	}
	return w.Flush()
}

func newClusterCheck() *cobra.Command {
	cmd := &cobra.Command{
		Use: "check", Short: "Check what durability needs of the NATS servers", Args: cobra.NoArgs,
		Long: `Checks versions, message size, credentials, TLS, replicas, storage limits and, with the addresses of the
servers' monitoring ports, that each of them syncs every write. A client cannot see that without them: then the
result is "unknown". The exit code is 1 when a check failed.

No check sees whether the servers' disks keep what they say is written, whether two servers share a disk or a
machine, or whether a file on a server's disk has rotted.`,
		Example: `  sluice cluster check --monitor http://127.0.0.1:8222`,
	}
	monitors := cmd.Flags().StringSlice("monitor", nil, "addresses of the monitoring ports of all NATS servers")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		e, err := openEngine(cmd)
		if err != nil {
			return failed(err)
		}
		defer e.Close()
		found, err := clusterstatus.Check(cmd.Context(), e, *monitors)
		if err != nil {
			return failed(err)
		}
		bad := 0
		for _, f := range found {
			if f.Result == "failed" {
				bad++
			}
			if !*asJSON {
				fmt.Fprintf(cmd.OutOrStdout(), "%-8s %s: %s\n", f.Result, f.Check, f.Detail)
			}
		}
		if *asJSON {
			err = printJSON(cmd.OutOrStdout(), found)
		}
		if err == nil && bad > 0 {
			err = fmt.Errorf("%d checks failed", bad)
		}
		return failed(err)
	}
	return cmd
}
