package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// clusterName is the file by which a data directory remembers the cluster that its node belongs to. Without it, a
// command that is run without an address would open an empty engine beside the cluster.
const clusterName = "cluster.json"

type membership struct {
	Cluster string `json:"cluster"`
}

// KeepDir makes the data directory one of this cluster: from now on it opens no other engine. The node that uses it
// calls this after Agree; commands do not.
func (e *Engine) KeepDir() error {
	r := e.record.Load()
	if r == nil {
		return nil
	}
	return rememberCluster(e.o.Dir, r.Cluster, true)
}

// belongsToCluster returns an error if the directory is one of a cluster's node.
func belongsToCluster(dir string) error {
	m, err := readMembership(dir)
	if err != nil || m.Cluster == "" {
		return err
	}
	return fmt.Errorf("the data directory %s belongs to a node of the cluster %s: name its NATS servers with --nats or "+
		"SLUICE_NATS", dir, m.Cluster)
}

// rememberCluster holds the directory against the cluster. With join it writes the cluster's name down where there is
// none.
func rememberCluster(dir, cluster string, join bool) error {
	if dir == "" {
		return nil
	}
	m, err := readMembership(dir)
	if err != nil {
		return err
	}
	switch {
	case m.Cluster == "" && join:
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		return writeJSON(dir, clusterName, membership{Cluster: cluster})
	case m.Cluster != "" && m.Cluster != cluster:
		return fmt.Errorf("the data directory %s belongs to a node of the cluster %s, and --nats names the cluster %s", dir,
			m.Cluster, cluster)
	}
	return nil
}

func readMembership(dir string) (m membership, err error) {
	if err = readJSON(dir, clusterName, &m); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return m, err
}
