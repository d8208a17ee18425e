package readers

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/enginetest"
	"sluice/internal/servicetest"
	"sluice/interop/readers/sent"
)

func TestMain(m *testing.M) { os.Exit(enginetest.Main(m)) }

// The whole data directory of the version before is taken over: what was loaded is repaired, what was only in the stream
// is loaded, old submission ids are found, and a request with an idempotency key of then is still answered with its first
// receipt.
func TestDataDirectoryOfTheVersionBefore(t *testing.T) {
	bin, dir := program(t), unpack(t, "data-524a9ec")
	takeOver(t, bin, dir, dir)
}

// The same directory moves into a cluster without being started first, and everything of it is found there.
func TestDataDirectoryOfTheVersionBeforeJoins(t *testing.T) {
	bin, dir := program(t), unpack(t, "data-524a9ec")
	nats := strings.Replace(enginetest.Start(t, "").URL(), "nats://", "nats://"+enginetest.Token+"@", 1)
	join := exec.Command(bin, "cluster", "join", "--data", dir, "--nats", nats, "--replicas", "1", "--partitions", "3")
	if out, err := join.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	takeOver(t, bin, t.TempDir(), dir, "--nats", nats, "--lake", "file://"+filepath.Join(dir, "lake"))
}

// takeOver runs a service with flags that say where everything is, and compares what it has with what was sent to the
// version before. The tables are in the directory lake.
func takeOver(t *testing.T, bin, dir, lake string, flags ...string) {
	t.Helper()
	lines, err := ReadSent(filepath.Join(archives, "data-524a9ec.sent.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	var want []Row
	for _, l := range lines {
		if l.Row != nil {
			want = append(want, l.Row)
		}
	}
	keyed := keyedRequests(t, "shop-a")
	s, err := sent.Start(bin, dir, append([]string{"--table-retention", "0", "--commit-every", "200ms"}, flags...)...)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	out, err := exec.Command(bin, append([]string{"key", "issue", "shop-a", "--data", dir}, flags...)...).Output()
	if err != nil {
		t.Fatalf("a new key for an old dataset: %v", err)
	}
	key := strings.TrimSpace(string(out))
	err = servicetest.Await(60*time.Second, "loaded and repaired", func() error {
		if out, err := exec.Command(bin, append([]string{"lake", "check", "--data", dir}, flags...)...).CombinedOutput(); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		rows, err := ReadNDJSON(export(t, bin, dir, "ndjson", flags...))
		if err == nil && len(rows) != len(want) {
			err = fmt.Errorf("%d events, want %d", len(rows), len(want))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(keyed) == 0 {
		t.Fatal("got no requests with an idempotency key: the test shows nothing")
	}
	for idempotencyKey, r := range keyed {
		path, body := "/v1/events", strings.Join(r.bodies, ",")
		if strings.HasPrefix(r.id, "batch.") {
			path, body = "/v1/events/batch", "["+body+"]"
		}
		again, header, err := s.Again(key, path, body, idempotencyKey)
		if err != nil || again != r.id || header != "true" {
			t.Errorf("%s: got %s, replayed %q, %v, want the first receipt %s", idempotencyKey, again, header, err, r.id)
		}
	}
	s.Stop()
	checkEvents(t, "taken over", lake, want, true)
}

// keyedRequest is a request that was sent with an idempotency key, byte for byte.
type keyedRequest struct {
	id     string
	bodies []string
}

func keyedRequests(t *testing.T, dataset string) map[string]*keyedRequest {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(archives, "data-524a9ec.sent.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*keyedRequest{}
	for line := range strings.Lines(string(content)) {
		var l struct {
			ID   string          `json:"submission_id"`
			Key  string          `json:"idempotency_key"`
			Body json.RawMessage `json:"body"`
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		if l.Key == "" || !strings.Contains(string(l.Body), `"data_set_id":"`+dataset+`"`) {
			continue
		}
		if out[l.Key] == nil {
			out[l.Key] = &keyedRequest{id: l.ID}
		}
		out[l.Key].bodies = append(out[l.Key].bodies, string(l.Body))
	}
	return out
}
