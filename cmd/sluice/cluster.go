package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/cluster"
	"sluice/internal/engine"
)

func newCluster() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Show, check and change what the nodes of a cluster share; move a data directory into one",
		Long: `Nodes that share NATS servers agree on one configuration, which is recorded there: replicas, partitions,
retention and size of the stream, and where the tables are. docs/cluster.md explains how to run a cluster.`,
		Args: cobra.NoArgs, RunE: needsSubcommand,
	}
	cmd.AddCommand(newClusterStatus(), newClusterCheck(), newClusterSet(), newClusterJoin())
	return cmd
}

// clusterStatus is what sluice cluster status prints.
type clusterStatus struct {
	Engine     string            `json:"engine"`
	Record     *recordStatus     `json:"configuration,omitempty"` // none for an embedded engine
	Streams    []streamStatus    `json:"streams"`
	Partitions []partitionStatus `json:"partitions"`
	Leases     []leaseStatus     `json:"leases"`
	Nodes      []nodeStatus      `json:"nodes"`
	Problems   []string          `json:"problems"`
}

type recordStatus struct {
	Cluster         string `json:"cluster"`
	Stream          string `json:"stream"`
	Replicas        int    `json:"replicas"`
	Partitions      int    `json:"partitions"`
	StreamRetention string `json:"stream_retention"`
	MaxStream       int64  `json:"max_stream"` // -1 is no limit
	Lake            string `json:"lake"`
	LakeID          string `json:"lake_id"`
}

type streamStatus struct {
	Name     string   `json:"name"`
	Leader   string   `json:"leader"`
	Replicas int      `json:"replicas"`
	InStep   int      `json:"replicas_in_step"`
	Behind   []string `json:"behind,omitempty"`
	Messages uint64   `json:"messages"`
	Bytes    uint64   `json:"bytes"`
	Drift    []string `json:"changed_settings,omitempty"`
	Error    string   `json:"error,omitempty"`
}

type partitionStatus struct {
	Partition  int     `json:"partition"`
	Last       uint64  `json:"last"`
	Watermark  uint64  `json:"watermark"`
	LagSeconds float64 `json:"lag_seconds"` // as its loader says; 0 when there is none
	Loader     string  `json:"loader"`      // the node that loads it
}

type leaseStatus struct {
	Name    string    `json:"name"`
	Node    string    `json:"node"`
	NodeID  string    `json:"node_id"` // hosts may have the same name
	Renewed time.Time `json:"renewed"`
}

type nodeStatus struct {
	ID        string    `json:"id"`
	Host      string    `json:"host"`
	Version   string    `json:"version"`
	API       string    `json:"api"`
	Started   time.Time `json:"started"`
	Heartbeat time.Time `json:"heartbeat"`
	Loading   bool      `json:"loading"`
	Draining  bool      `json:"draining"`
}

func newClusterStatus() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show streams, leaders, replicas, leases, watermarks and nodes",
		Long: `Shows what is stored in the engine and how many replicas have all of it, how far each partition is loaded
and which node loads it, the leases, and the nodes with their versions and last heartbeats. The exit code is 1
when there are problems. It works for an embedded engine, too.`,
		Args: cobra.NoArgs,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		e, err := openEngine(cmd)
		if err != nil {
			return failed(err)
		}
		defer e.Close()
		st, err := readStatus(cmd.Context(), e)
		if err != nil {
			return failed(err)
		}
		if *asJSON {
			err = printJSON(cmd.OutOrStdout(), st)
		} else {
			err = st.print(cmd.OutOrStdout(), time.Now())
		}
		if err == nil && len(st.Problems) > 0 {
			err = fmt.Errorf("%d problems", len(st.Problems))
		}
		return failed(err)
	}
	return cmd
}

// readStatus asks the engine for everything that sluice cluster status shows.
func readStatus(ctx context.Context, e *engine.Engine) (*clusterStatus, error) {
	st := &clusterStatus{Engine: e.Mode().String(), Problems: []string{}, Partitions: []partitionStatus{}, Leases: []leaseStatus{}, Nodes: []nodeStatus{}}
	r, err := e.Record(ctx)
	if err == nil {
		st.Record = &recordStatus{r.Cluster, r.Stream, r.Replicas, r.Partitions, r.StreamRetention.String(), r.MaxStream, r.Lake, r.LakeID}
	} else if !errors.Is(err, engine.ErrNotFound) {
		return nil, err
	}
	streams, err := e.Streams(ctx)
	if err != nil {
		return nil, err
	}
	view, err := cluster.Read(ctx, e)
	if err != nil {
		return nil, err
	}
	leases, err := e.Leases(ctx)
	if err != nil {
		return nil, err
	}
	st.addStreams(streams, view, r.Replicas)
	hosts := map[string]string{}
	versions := map[string]bool{}
	for _, n := range view.Nodes {
		hosts[n.ID] = n.Host
		versions[n.Version] = true
		st.Nodes = append(st.Nodes, nodeStatus{n.ID, n.Host, n.Version, n.API, n.Started, n.Seen, n.Loading, n.Draining})
	}
	for _, l := range leases {
		node := hosts[l.Owner]
		if node == "" {
			node = "unknown " + l.Owner
		}
		st.Leases = append(st.Leases, leaseStatus{l.Name, node, l.Owner, l.Renewed})
	}
	if len(versions) > 1 {
		st.problem("the nodes run %d versions", len(versions))
	}
	if len(st.Nodes) == 0 && e.Mode() != engine.Embedded {
		st.problem("no node runs")
	}
	return st, nil
}

func (st *clusterStatus) problem(format string, args ...any) {
	st.Problems = append(st.Problems, fmt.Sprintf(format, args...))
}

func (st *clusterStatus) addStreams(streams []engine.StreamStatus, view *cluster.View, replicas int) {
	for _, s := range streams {
		out := streamStatus{Name: s.Name, Leader: s.Leader, Replicas: s.Replicas, InStep: s.InStep, Messages: s.Messages, Bytes: s.Bytes, Drift: s.Drift}
		for _, p := range s.Behind {
			state := fmt.Sprintf("%d behind", p.Lag)
			if p.Offline {
				state = "offline"
			}
			out.Behind = append(out.Behind, fmt.Sprintf("%s (%s, silent for %v)", p.Name, state, p.Silent.Round(time.Millisecond)))
		}
		switch {
		case s.Err != nil:
			out.Error = s.Err.Error()
			st.problem("%s does not answer: %v", s.Name, s.Err)
		case s.InStep < s.Replicas:
			st.problem("%s has %d of %d replicas in step", s.Name, s.InStep, s.Replicas)
		}
		if s.Err == nil && s.Replicas < replicas {
			st.problem("%s has %d replicas, the cluster's configuration says %d", s.Name, s.Replicas, replicas)
		}
		if len(s.Drift) > 0 {
			st.problem("settings of %s were changed: %s; the next start of a node puts them right", s.Name, strings.Join(s.Drift, ", "))
		}
		st.Streams = append(st.Streams, out)
		if s.Partition >= 0 {
			st.addPartition(s, view)
		}
	}
}

func (st *clusterStatus) addPartition(s engine.StreamStatus, view *cluster.View) {
	p := uint8(s.Partition)
	out := partitionStatus{Partition: s.Partition, Last: s.Last, Watermark: view.Loaded[p]}
	if n, l := view.Loader(p); n != nil {
		out.Loader, out.LagSeconds = n.Host, l.Lag.Seconds()
	} else if s.Err == nil && s.Last > out.Watermark && len(view.Nodes) > 0 {
		st.problem("no node loads partition %d", p)
	}
	st.Partitions = append(st.Partitions, out)
}

func (st *clusterStatus) print(out io.Writer, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintf(w, "engine: %s\n", st.Engine)
	if r := st.Record; r != nil {
		limit := "no limit"
		if r.MaxStream >= 0 {
			limit = new(size(r.MaxStream)).String()
		}
		fmt.Fprintf(w, "cluster: %s, %d replicas, %d partitions, stream retention %s, %s each, tables at %s\n",
			r.Cluster, r.Replicas, r.Partitions, r.StreamRetention, limit, r.Lake)
	}
	fmt.Fprintln(w, "\nSTREAM\tLEADER\tREPLICAS\tIN STEP\tMESSAGES\tBYTES\tBEHIND")
	for _, s := range st.Streams {
		leader := s.Leader
		if leader == "" {
			leader = "-"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%s\n", s.Name, leader, s.Replicas, s.InStep, s.Messages, s.Bytes, strings.Join(s.Behind, ", ")+s.Error)
	}
	fmt.Fprintln(w, "\nPARTITION\tLAST\tWATERMARK\tLAG\tLOADER")
	for _, p := range st.Partitions {
		loader := p.Loader
		if loader == "" {
			loader = "-"
		}
		fmt.Fprintf(w, "%d\t%d\t%d\t%v\t%s\n", p.Partition, p.Last, p.Watermark, (time.Duration(p.LagSeconds * float64(time.Second))).Round(time.Millisecond), loader)
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
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%v ago\t%s\n", n.ID, n.Host, n.Version, n.API, max(0, now.Sub(n.Heartbeat)).Round(100*time.Millisecond), state)
	}
	for _, p := range st.Problems {
		fmt.Fprintf(w, "\nproblem: %s", p)
	}
	if len(st.Problems) > 0 {
		fmt.Fprintln(w)
	}
	return w.Flush()
}
