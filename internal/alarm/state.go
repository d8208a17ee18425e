package alarm

import (
	"fmt"
	"time"

	"sluice/internal/api"
	"sluice/internal/cluster"
	"sluice/internal/dataset"
	"sluice/internal/durable"
	"sluice/internal/engine"
	"sluice/internal/humanize"
	"sluice/internal/lake"
	"sluice/internal/loader"
	"sluice/internal/stream"
)

// State is the numbers of the packages at one moment, as far as alarms are made from them.
type State struct {
	Now       time.Time
	Started   time.Time
	Ready     error // nil when a POST would be taken
	Datasets  []*dataset.Dataset
	Used      map[string]dataset.Use // by key id
	Registry  dataset.Stats
	API       api.Stats
	Stream    stream.Stats
	Engine    engine.Stats
	Lake      lake.Stats
	Loader    loader.Stats
	Backlog   loader.BacklogStats
	Cluster   *cluster.View  // nil when this node knows of no other
	Copies    cluster.Copies // of everything in an external engine
	Damaged   []string       // files of the tables that somebody could not read
	Disk      durable.Disk   // of the data directory
	Retention time.Duration  // of the stream
	Audit     error          // what is wrong with the audit log

	// Watch.Complete fills in the rest.
	found                 findings  // datasets that need somebody
	lasting               []Episode // alarms that lasted when this was last written down
	last5, last10, last60 counters  // what was added in so many minutes
}

// startTime is how long a node may take to take events before that is an alarm. Arbitrary.
const startTime = 15 * time.Second

func (s *State) starting() bool { return s.Now.Sub(s.Started) < startTime }

// Nodes are those of the cluster that this node hears of, itself among them.
func (s *State) Nodes() []cluster.Node {
	if s.Cluster == nil {
		return nil
	}
	return s.Cluster.Nodes
}

// failure says why nothing is loaded, as the nodes report it; "" if none reports anything.
func (s *State) failure() string {
	if s.Cluster == nil {
		return ""
	}
	n := s.Cluster.Failed()
	if n == nil {
		return ""
	}
	return fmt.Sprintf("Node %s %s has not been able to load since %s: %s.", n.Host, n.API, humanize.Time(n.Failure.Since),
		n.Failure.Error)
}
