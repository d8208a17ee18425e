package cluster

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/servicetest"
)

// people is what an operator does for people who asked to be forgotten.
var people = []fault{{"deletion list", false, deletionList}, {"dataset deleted", false, datasetDeleted}}

// deletionList erases the events of a person by a file, and suppresses those that come later: on every node, and after a kill.
func deletionList(t *testing.T, w *world, _ *ledger) {
	person := somebody()
	event := signUp("shop", person, time.Now())
	w.storedByEach(t, w.key, event)
	file := filepath.Join(t.TempDir(), "people.csv")
	if err := os.WriteFile(file, []byte("email_sha256\n"+person+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"erase", "--file", file, "--and-suppress", "--yes", "--data", w.operator()}, w.flags...)
	out, err := w.program.Run(t.Context(), args...)
	if want := fmt.Sprintf("%d rows erased", nodes); err != nil || !strings.Contains(out, want) {
		t.Fatalf("got %v %s, want %s", err, out, want)
	}
	suppressed := func(i int) error {
		a, err := w.node(i).Call(http.MethodPost, w.key, "/v1/events/validate", event)
		if err == nil && !strings.Contains(string(a.Body), `"operator.suppression_list"`) {
			err = fmt.Errorf("got %d %s", a.Status, a.Body)
		}
		return err
	}
	for i := range w.nodes {
		servicetest.Eventually(t, 5*time.Second, "a node that has the list", func() error { return suppressed(i) })
	}
	w.node(1).Stop(syscall.SIGKILL)
	w.startNode(1)
	if err := suppressed(1); err != nil {
		t.Errorf("after a kill: %v", err)
	}
}

// somebody is the hash of a new person's e-mail address.
func somebody() string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(fmt.Sprint(time.Now().UnixNano()))))
}

// signUp is an event of a person.
func signUp(dataset, person string, at time.Time) string {
	return fmt.Sprintf(`{"data_set_id":%q,"event_type":"sign_up","timestamp":%d,"identifiers":{"email_sha256":%q}}`,
		dataset, at.Unix(), person)
}

// storedByEach sends an event to every node, and waits until it is in the table.
func (w *world) storedByEach(t *testing.T, key, event string) {
	t.Helper()
	for i := range w.nodes {
		var receipt struct {
			ID string `json:"submission_id"`
		}
		servicetest.Eventually(t, 30*time.Second, "an event accepted", func() error {
			a, err := w.node(i).Call(http.MethodPost, key, "/v1/events", event)
			if err == nil && a.Status != http.StatusOK {
				err = fmt.Errorf("got %d", a.Status)
			}
			if err != nil {
				return err
			}
			return json.Unmarshal(a.Body, &receipt)
		})
		servicetest.Eventually(t, 90*time.Second, "an event in the table", func() error {
			a, err := w.node(i).Call(http.MethodGet, key, "/v1/submissions/"+receipt.ID, "")
			if err != nil || !strings.Contains(string(a.Body), `"status":"PROCESSED"`) {
				return fmt.Errorf("%d %s %v", a.Status, a.Body, err)
			}
			return nil
		})
	}
}

// datasetDeleted deletes a dataset whose events every node accepted: its key ends on each of them, and no row of it is left.
func datasetDeleted(t *testing.T, w *world, _ *ledger) {
	id := fmt.Sprint("gone-", time.Now().UnixNano())
	key, _, err := w.program.CreateDataset(t.Context(), w.operator(), id, w.flags...)
	if err != nil {
		t.Fatal(err)
	}
	event := signUp(id, fmt.Sprintf("%064x", 7), time.Now())
	w.storedByEach(t, key, event)
	out := w.run(t, "dataset", "delete", id, "--yes")
	if want := fmt.Sprintf("%d events", nodes); !strings.Contains(out, want) {
		t.Errorf("got %s, want %s", out, want)
	}
	for i := range w.nodes {
		servicetest.Eventually(t, 5*time.Second, "a node that rejects the key", func() error {
			a, err := w.node(i).Call(http.MethodPost, key, "/v1/events", event)
			if err == nil && a.Status != http.StatusForbidden {
				err = fmt.Errorf("got %d", a.Status)
			}
			return err
		})
	}
	if out := w.run(t, "export", "--type", "sign_up"); strings.Contains(out, id) {
		t.Errorf("got rows of a deleted dataset: %s", out)
	}
}
