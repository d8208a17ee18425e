package readers

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/servicetest"
	"sluice/interop/readers/sent"
)

// golden is what the program that made it left on disk: see the command in the directory golden. make golden makes it anew,
// which is a decision: what an earlier program wrote is then no longer read by a test.
const golden = "testdata/golden"

// unpackGolden unpacks a part of the golden directory.
func unpackGolden(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("tar", "-xzf", filepath.Join(golden, name+".tar.gz"), "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	return dir
}

// goldenSent reads what was sent to the golden directory, and what opens it.
func goldenSent(t *testing.T) (lines []sent.Line, access *sent.Access) {
	t.Helper()
	lines, err := ReadSent(filepath.Join(golden, "sent.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(golden, "golden.json"))
	if err == nil {
		err = json.Unmarshal(b, &access)
	}
	if err != nil {
		t.Fatal(err)
	}
	n := map[string]int{}
	for _, l := range lines {
		if l.Row != nil {
			n[l.In]++
		}
	}
	if n[sent.InTable] < 50 || n[sent.InStream] == 0 || n[sent.Erased] != 1 {
		t.Fatalf("got %v, want many events in the table, some in the stream and an erased one", n)
	}
	return lines, access
}

// A data directory of the version that made it: a server starts on it and loads the rest; keys, ids, idempotency keys and
// readers go on working; every reader reads the rows that were sent.
func TestGoldenDirectory(t *testing.T) {
	goesOn(t, program(t), unpackGolden(t, "data"))
}

// The same for a backup.
func TestGoldenBackup(t *testing.T) {
	bin, dir := program(t), filepath.Join(t.TempDir(), "data")
	if out, err := exec.Command(bin, "restore", unpackGolden(t, "backup"), "--data", dir).CombinedOutput(); err != nil {
		t.Fatalf("restore: %v\n%s", err, out)
	}
	goesOn(t, bin, dir)
}

// goesOn runs a server on a directory, and holds what it says and stores against what was sent to the golden directory.
func goesOn(t *testing.T, bin, dir string) {
	t.Helper()
	lines, access := goldenSent(t)
	var want []Row
	for _, l := range lines {
		if l.Row != nil && l.In != sent.Erased {
			want = append(want, l.Row)
		}
	}
	s, err := sent.Start(bin, dir, append(sent.ForEver(), "--commit-every", "200ms")...)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Kill()
	last := map[string]string{} // by dataset
	for _, l := range lines {
		if l.Row != nil {
			last[l.Row["data_set_id"].(string)] = l.SubmissionID
		}
	}
	for id, submission := range last {
		if err := s.AwaitProcessed(access.Keys[id], submission); err != nil {
			t.Fatal(err)
		}
	}
	lookUp(t, s, lines, access)
	replay(t, s, access)
	follow(t, s, access)
	suppressed(t, s, access)
	a, err := servicetest.Client.Get(s.Ops() + "/iceberg/v1/namespaces/sluice/views/attributions")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	if view, err := io.ReadAll(a.Body); err != nil || !strings.Contains(string(view), fmt.Sprint(7*24*time.Hour.Microseconds())) {
		t.Errorf("got %v %d, want a view with the window that was saved", err, a.StatusCode)
	}
	s.Stop()
	for _, args := range [][]string{{"lake", "check"}, {"audit", "verify"}} {
		if out, err := exec.Command(bin, append(args, "--data", dir)...).CombinedOutput(); err != nil {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
	if out, err := exec.Command(bin, "dataset", "create", sent.Deleted, "--data", dir).CombinedOutput(); err == nil {
		t.Errorf("got %s, want the id of a deleted dataset to be taken", out)
	}
	if out, err := exec.Command(bin, "dataset", "list", "--json", "--data", dir).CombinedOutput(); err != nil || !strings.Contains(string(out), `"retention_days":36000`) {
		t.Errorf("dataset list: got %v %s, want a retention", err, out)
	}
	tables := filepath.Join(dir, "lake")
	l, err := openLake(t.Context(), settings{dir: tables, now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	src := source(t, l, tables)
	src.Tables = []*Table{Events}
	if report, err := Check(t.Context(), src, map[string][]Row{"events": want}); err != nil || !report.Empty() {
		t.Errorf("%v\n%s", err, report)
	}
}

// lookUp asks for every submission.
func lookUp(t *testing.T, s *sent.Service, lines []sent.Line, access *sent.Access) {
	t.Helper()
	asked := map[string]bool{}
	for _, l := range lines {
		if l.Row == nil || asked[l.SubmissionID] {
			continue
		}
		asked[l.SubmissionID] = true
		a, err := s.Call(http.MethodGet, access.Keys[l.Row["data_set_id"].(string)], "/v1/submissions/"+l.SubmissionID, "")
		if err != nil || a.Status != http.StatusOK || !strings.Contains(string(a.Body), `"status":"PROCESSED"`) {
			t.Errorf("%s: got %d %s, %v, want it as processed", l.SubmissionID, a.Status, a.Body, err)
		}
	}
}

// replay sends the requests with an idempotency key again: some were loaded, some were not.
func replay(t *testing.T, s *sent.Service, access *sent.Access) {
	t.Helper()
	in := map[string]int{}
	for _, r := range access.Requests {
		a, err := s.Call(http.MethodPost, access.Keys[r.Dataset], r.Path, r.Body, "Idempotency-Key", r.IdempotencyKey)
		if err != nil || a.Status != http.StatusOK || !strings.Contains(string(a.Body), `"`+r.SubmissionID+`"`) {
			t.Errorf("%s again: got %d %s, %v, want the receipt of %s", r.IdempotencyKey, a.Status, a.Body, err, r.SubmissionID)
		}
		in[r.In]++
	}
	if in[sent.InTable] == 0 || in[sent.InStream] == 0 {
		t.Errorf("got keys in %v, want some that were loaded and some that were not", in)
	}
}

// suppressed asks what would become of an event of a person on the suppression list.
func suppressed(t *testing.T, s *sent.Service, access *sent.Access) {
	t.Helper()
	body := fmt.Sprintf(`{"data_set_id":"shop-a","event_type":"purchase","timestamp":%d,"identifiers":{"email_sha256":%q}}`,
		time.Now().Unix(), access.Suppressed)
	a, err := s.Call(http.MethodPost, access.Keys["shop-a"], "/v1/events/validate", body)
	if err != nil || !strings.Contains(string(a.Body), `"privacy_reasons":["operator.suppression_list"]`) {
		t.Errorf("got %d %s, %v, want it suppressed by the list", a.Status, a.Body, err)
	}
}

// follow reads the feed from the beginning, as the reader of the directory.
func follow(t *testing.T, s *sent.Service, access *sent.Access) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.Ops()+"/feed/v1/events?purpose=measurement&cursor=earliest", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+access.Reader)
	a, err := servicetest.Client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode != http.StatusOK || !strings.Contains(string(body), `"event_id"`) {
		t.Errorf("got %d %s, %v, want rows", a.StatusCode, body, err)
	}
}
