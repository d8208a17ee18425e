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
var people = []fault{{"deletion list", false, deletionList}}

// deletionList erases the events of a person by a file, and suppresses those that come later: on every node, and after a kill.
func deletionList(t *testing.T, w *world, _ *ledger) {
	person := fmt.Sprintf("%x", sha256.Sum256([]byte(fmt.Sprint(time.Now().UnixNano()))))
	event := fmt.Sprintf(`{"data_set_id":"shop","event_type":"sign_up","timestamp":%d,"identifiers":{"email_sha256":%q}}`,
		time.Now().Unix(), person)
	for i := range w.nodes {
		var receipt struct {
			ID string `json:"submission_id"`
		}
		servicetest.Eventually(t, 30*time.Second, "an event accepted", func() error {
			a, err := w.node(i).Call(http.MethodPost, w.key, "/v1/events", event)
			if err == nil && a.Status != http.StatusOK {
				err = fmt.Errorf("got %d", a.Status)
			}
			if err != nil {
				return err
			}
			return json.Unmarshal(a.Body, &receipt)
		})
		servicetest.Eventually(t, 90*time.Second, "an event in the table", func() error {
			a, err := w.node(i).Call(http.MethodGet, w.key, "/v1/submissions/"+receipt.ID, "")
			if err != nil || !strings.Contains(string(a.Body), `"status":"PROCESSED"`) {
				return fmt.Errorf("%d %s %v", a.Status, a.Body, err)
			}
			return nil
		})
	}
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
