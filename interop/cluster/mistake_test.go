package cluster

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/enginetest"
	"sluice/internal/servicetest"
	s3 "sluice/interop/gateway"
)

// mistakes are faults that operators make.
var mistakes = []fault{
	{"node with a shorter table retention", false, shorterRetention},
	{"node without the file of its certificate authority", true, missingAuthority},
	{"node with another bucket, which is empty", true, emptyBucket},
	{"status of NATS servers without a cluster", true, statusOfNothing},
	{"NATS servers with another password", true, wrongPassword},
}

// shorterRetention starts a node that would delete rows of all: it does not start, and says both values.
func shorterRetention(t *testing.T, w *world, _ *ledger) {
	w.doesNotStart(t, "400d in the cluster and 1d here", "--table-retention", "1d")
}

// doesNotStart starts one more node with other flags, and wants it to end at once and say why.
func (w *world) doesNotStart(t *testing.T, why string, flags ...string) {
	t.Helper()
	begun := time.Now()
	args := slices.Concat(w.flags, flags) // the last one counts
	n, err := servicetest.Launch{Program: w.program, Data: t.TempDir(), Args: args, Within: 60 * time.Second}.Start()
	if err == nil {
		n.Stop(syscall.SIGKILL)
		t.Fatal("got a node that runs, want one that does not start")
	}
	if took := time.Since(begun); !strings.Contains(err.Error(), why) || took > 15*time.Second {
		t.Errorf("got %v after %v, want %q within 15 s", err, took, why)
	} else {
		t.Logf("it ended after %v", took.Round(100*time.Millisecond))
	}
}

// missingAuthority names a file that is not there, to a node and to a command: neither waits for it.
func missingAuthority(t *testing.T, w *world, _ *ledger) {
	file := filepath.Join(t.TempDir(), "ca.crt")
	w.doesNotStart(t, file+": no such file", "--nats-ca", file)
	args := slices.Concat([]string{"cluster", "status", "--data", w.operator(), "--nats-ca", file}, w.flags)
	if _, err := w.program.Run(t.Context(), args...); err == nil || !strings.Contains(err.Error(), file+": no such file") {
		t.Errorf("got %v, want the name of the file", err)
	}
}

// emptyBucket starts a node with a bucket of the same name at another server. Nothing is written to it.
func emptyBucket(t *testing.T, w *world, _ *ledger) {
	path, err := gateway()
	if err != nil {
		t.Fatal(err)
	}
	other, err := s3.Start(path, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Stop()
	w.doesNotStart(t, "holds no tables, and the identity of the tables in the cluster is", "--s3-endpoint", other.URL)
	if found, err := os.ReadDir(other.Dir); err != nil || len(found) > 0 {
		t.Errorf("got %v %v in the other bucket, want nothing", found, err)
	}
}

// statusOfNothing asks for the status of servers that are empty, by mistake. It makes nothing there.
func statusOfNothing(t *testing.T, w *world, _ *ledger) {
	empty := enginetest.Start(t, "")
	defer empty.Kill()
	servers := "nats://" + enginetest.Token + "@" + strings.TrimPrefix(empty.URL(), "nats://")
	out, err := w.program.Run(t.Context(), "cluster", "status", "--json", "--data", w.operator(), "--nats", servers)
	if err == nil || !strings.Contains(out, "hold nothing") {
		t.Errorf("got %v %s, want that the servers hold nothing", err, out)
	}
	names := empty.JetStream().StreamNames(t.Context())
	for name := range names.Name() {
		t.Errorf("got a stream %s, want none", name)
	}
	if err := names.Err(); err != nil {
		t.Error(err)
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
