//go:build faults

package cluster

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice/internal/enginetest"
	"sluice/internal/servicetest"
)

// Three nodes fill a small account: they stop accepting, say that it is the account and no disk, and load what they have
// acknowledged. When the account may store more, they accept again.
func TestFullAccount(t *testing.T) {
	w := prepare(t, plan{login: login{config: account(450), user: "u:p"}})
	for i := range w.servers { // one that runs on a random port cannot read its configuration again
		w.restart(i)
	}
	w.startNodes()
	w.endure(t, []fault{
		{"NATS account too small for another node", true, smallAccount},
		{"NATS account full", false, fillAccount},
	})
}

// account is the configuration of an account that may store so many megabytes, of all copies together.
func account(megabytes uint64) string {
	return fmt.Sprintf("accounts: {A: {users: [{user: u, password: p}], jetstream: {max_file: %dMB}}}", megabytes)
}

// limit lets the account store so many megabytes more than it does.
func (w *world) limit(t *testing.T, more uint64) {
	t.Helper()
	info, err := w.connect(t).AccountInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range w.servers {
		s.Reload(strings.Replace(w.configs[i], account(450), account(max(450, info.Store>>20+more)), 1))
	}
}

// smallAccount leaves an account as large as three nodes need, and starts a fourth one: it says how large the account must be.
func smallAccount(t *testing.T, w *world, _ *ledger) {
	for i, s := range w.servers {
		s.Reload(strings.Replace(w.configs[i], account(450), account(400), 1)) // three need 338 MB, four 440
	}
	w.doesNotStart(t, "the NATS account may store 400 MiB, and 440 MiB are needed")
	w.limit(t, 0)
}

func fillAccount(t *testing.T, w *world, _ *ledger) {
	w.limit(t, 250) // of which 170 are for leases and the registry
	id := fmt.Sprint("bulk-", time.Now().UnixNano())
	key, _, err := w.program.CreateDataset(t.Context(), w.operator(), id, w.flags...)
	if err != nil {
		t.Fatal(err)
	}
	one := fmt.Sprintf(`{"data_set_id":%q,"event_type":"sign_up","timestamp":%d,"identifiers":{"email_sha256":"%064x"},"page_url":%q,"referer":%q}`,
		id, time.Now().Unix(), 7, "https://example.com/"+strings.Repeat("p", 8000), "https://example.com/"+strings.Repeat("r", 8000))
	body := "[" + strings.TrimSuffix(strings.Repeat(one+",", 60), ",") + "]"
	acknowledged := make([][]string, nodes)
	var wg sync.WaitGroup
	for i := range w.nodes {
		wg.Go(func() {
			for begun := time.Now(); time.Since(begun) < 3*time.Minute && !w.says(i, "/readyz", 503, "NATS account"); {
				a, err := w.node(i).Call(http.MethodPost, key, "/v1/events/batch", body)
				var receipt struct {
					ID string `json:"submission_id"`
				}
				if err == nil && a.Status == http.StatusOK && json.Unmarshal(a.Body, &receipt) == nil {
					acknowledged[i] = append(acknowledged[i], receipt.ID)
				} else {
					time.Sleep(100 * time.Millisecond) // a node that waits is the fault itself
				}
			}
		})
	}
	wg.Wait()
	for i := range w.nodes {
		servicetest.Eventually(t, 30*time.Second, "a node that names the account", func() error {
			if !w.says(i, "/readyz", 503, "NATS account") || !w.says(i, "/", 200, "The NATS account has nearly reached") ||
				!w.says(i, "/metrics", 200, `sluice_alarm{alarm="SluiceEngineFull",dataset=""} 1`) || w.says(i, "/", 200, "disk is") {
				return fmt.Errorf("node %d says something else", i)
			}
			return nil
		})
	}
	if st, err := w.status(); err == nil || !strings.Contains(strings.Join(st.Problems, " "), "NATS account") {
		t.Errorf("got %q %v, want the account", st.Problems, err)
	}
	all := slices.Concat(acknowledged...)
	t.Logf("%d batches of 60 events were acknowledged until the account was full", len(all))
	for n, submission := range all { // leases and watermarks are written, though the account is full
		servicetest.Eventually(t, 90*time.Second, "an acknowledged batch in the table", func() error {
			a, err := w.node(n).Call(http.MethodGet, key, "/v1/submissions/"+submission, "")
			if err != nil || !strings.Contains(string(a.Body), `"status":"PROCESSED"`) {
				return fmt.Errorf("%d %s %v", a.Status, a.Body, err)
			}
			return nil
		})
	}
	if _, _, err := w.program.CreateDataset(t.Context(), w.operator(), id+"-2", w.flags...); err != nil {
		t.Errorf("the registry cannot be written: %v", err)
	}
	time.Sleep(15 * time.Second) // the fault itself
	w.limit(t, 2000)
}

// Credentials that run out on every node stop it, and a renewed file lets it go on without a restart.
func TestRenewedCredentials(t *testing.T) {
	operator, dir := enginetest.NewOperator(t), t.TempDir()
	nodesFile, commands := filepath.Join(dir, "nodes.creds"), filepath.Join(dir, "commands.creds")
	day := time.Now().Add(24 * time.Hour)
	operator.Write(nodesFile, day)
	operator.Write(commands, day)
	w := prepare(t, plan{login: login{
		config: operator.Config, nodes: []string{"--nats-credentials", nodesFile},
		command: []string{"--nats-credentials", commands}, file: commands,
	}})
	w.startNodes()
	w.endure(t, []fault{{"NATS credentials run out and are renewed", false, func(t *testing.T, w *world, _ *ledger) {
		operator.Write(nodesFile, time.Now().Add(30*time.Second))
		for i := range w.nodes {
			w.node(i).Stop(syscall.SIGTERM)
			w.startNode(i)
		}
		for i := range w.nodes {
			servicetest.Eventually(t, 90*time.Second, "a node that names the cause", func() error {
				if !w.says(i, "/readyz", 503, "credentials") {
					return fmt.Errorf("node %d says something else", i)
				}
				return nil
			})
		}
		time.Sleep(15 * time.Second) // the fault itself
		operator.Write(nodesFile, day)
		for i := range w.nodes {
			servicetest.Eventually(t, 30*time.Second, "a node that is ready again", func() error {
				if !w.says(i, "/readyz", 200, "") {
					return fmt.Errorf("node %d is not", i)
				}
				return nil
			})
		}
	}}})
}
