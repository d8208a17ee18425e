package cluster

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/servicetest"
)

// mistakes are faults that operators make.
var mistakes = []fault{
	{"node with a shorter table retention", false, shorterRetention},
	{"NATS servers with another password", true, wrongPassword},
}

// shorterRetention starts a node that would delete rows of all: it does not start, and says both values.
func shorterRetention(t *testing.T, w *world, _ *ledger) {
	args := slices.Concat([]string{"--table-retention", "1d"}, w.flags)
	n, err := servicetest.Launch{Program: w.program, Listen: "127.0.0.1:0", Data: t.TempDir(), Args: args, Within: 60 * time.Second}.Start()
	if err == nil {
		n.Stop(syscall.SIGKILL)
		t.Fatal("got a node that runs, want one that does not start")
	}
	if !strings.Contains(err.Error(), "400d in the cluster and 1d here") {
		t.Errorf("got %v, want both values", err)
	}
}

// wrongPassword lets all servers reject the nodes for a while, and then take them again. Each node says why it accepts nothing,
// and goes on without a restart.
func wrongPassword(t *testing.T, w *world, _ *ledger) {
	for i := range w.servers { // one that runs on a random port cannot read its configuration again
		w.restart(i)
		w.whole()
	}
	for i, s := range w.servers {
		s.Reload(w.configs[i] + "\nauthorization: {token: \"another\"}")
	}
	for i := range w.nodes {
		servicetest.Eventually(t, 60*time.Second, "a node that names the cause", func() error {
			a, err := http.Get(w.node(i).Ops() + "/readyz")
			if err != nil {
				return err
			}
			defer a.Body.Close()
			why, err := io.ReadAll(a.Body)
			if err == nil && (a.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(why), "credentials")) {
				err = fmt.Errorf("got %d %s", a.StatusCode, why)
			}
			return err
		})
	}
	time.Sleep(15 * time.Second) // the fault itself
	for i, s := range w.servers {
		s.Reload(w.configs[i])
	}
}
