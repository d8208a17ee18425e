package engine

import (
	"testing"

	"github.com/nats-io/nats-server/v2/server"
)

// The configuration that we give to others for a NATS server syncs every message and makes a cluster.
func TestDeployedConfiguration(t *testing.T) {
	t.Setenv("SERVER_NAME", "nats-2")
	o, err := server.ProcessConfigFile("../../deploy/nats.conf")
	if err != nil {
		t.Fatal(err)
	}
	if !o.SyncAlways || !o.JetStream || o.StoreDir != "/data" || o.ServerName != "nats-2" || o.Cluster.Name != "sluice" || len(o.Routes) != 3 {
		t.Errorf("got sync always %v, JetStream %v in %q, server %q of %q, %d routes", o.SyncAlways, o.JetStream, o.StoreDir, o.ServerName, o.Cluster.Name, len(o.Routes))
	}
}
