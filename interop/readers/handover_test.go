package readers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go/catalog/rest"
	"github.com/apache/iceberg-go/table"
)

// A program reads the table at a snapshot with iceberg-go, begins to follow the feed at the cursor of that snapshot, and is killed
// ten times while events come: each eligible row of the table is in one of the two, once. FEED_EVENTS is how many events are
// sent; make followers sends 100,000.
func TestHandOverUnderLoad(t *testing.T) {
	const batch, kills = 100, 10
	total := setting(t, "FEED_EVENTS", 10_000)
	s := startSite(t, "--commit-every", "300ms", "--partitions", "3")
	c, err := rest.NewCatalog(t.Context(), "sluice", s.Ops()+"/iceberg", rest.WithOAuthToken(s.token))
	if err != nil {
		t.Fatal(err)
	}
	load := func() *table.Table {
		t.Helper()
		tbl, err := c.LoadTable(t.Context(), table.Identifier{"sluice", "events"})
		if err != nil {
			t.Fatal(err)
		}
		return tbl
	}
	sent := make(chan struct{}) // a batch that nobody waits for holds the sender up
	go func() {
		defer close(sent)
		for i := range int(total) / batch {
			if err := s.post(mixture(i, batch)); err != nil {
				t.Errorf("batch %d: %v", i, err)
				return
			}
			sent <- struct{}{}
		}
	}()
	// After a fourth of the events the program chooses the newest snapshot. It reads it and follows from it while the others come.
	for range int(total) / batch / 4 {
		<-sent
	}
	tbl := load()
	for deadline := time.Now().Add(time.Minute); !holdsRows(tbl.CurrentSnapshot()); tbl = load() {
		if time.Now().After(deadline) {
			t.Fatal("no snapshot in time")
		}
	}
	snapshot := tbl.CurrentSnapshot()
	reading := make(chan map[string]int)
	go func() {
		ids, err := eligible(t.Context(), tbl, table.WithSnapshotID(snapshot.SnapshotID))
		if err != nil {
			t.Errorf("read the snapshot: %v", err)
		}
		reading <- ids
	}()
	f := s.newFollower(snapshot.SnapshotID, int(total)/30) // it writes all that it has counted after each answer
	f.start(t)
	defer f.kill()
	n := 0
	for range sent {
		if n++; n%(int(total)/batch*3/4/kills) == 0 {
			f.kill()
			f.start(t)
		}
	}

	read := <-reading
	var want map[string]int
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		if want, err = eligible(t.Context(), load()); err != nil {
			t.Fatal(err)
		}
		if len(want) == int(total)*4/5 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the table has %d eligible rows, want %d", len(want), total*4/5)
		}
	}
	if len(read) == 0 || len(read) == len(want) {
		t.Fatalf("the snapshot has %d rows of %d: there is no hand-over", len(read), len(want))
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		followed := f.ids(t)
		for id, n := range followed {
			if n != 1 || want[id] != 1 || read[id] != 0 {
				t.Fatalf("event %s: %d times in the feed, %d in the snapshot, %d in the table", id, n, read[id], want[id])
			}
		}
		if len(read)+len(followed) == len(want) {
			t.Logf("%d rows in the snapshot, %d in the feed", len(read), len(followed))
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("got %d rows in the snapshot and %d in the feed, want %d together", len(read), len(followed), len(want))
		}
	}
}

// mixture is a batch of which four of five events are eligible for optimization.
func mixture(number, n int) []byte {
	var b bytes.Buffer
	for i := range n {
		more := ""
		if i%5 == 0 {
			more = `,"mmt_only":true`
		}
		fmt.Fprintf(&b, `%c{"data_set_id":"shop","timestamp":%d,"event_type":"purchase","value":1.5,"currency_code":"EUR","identifiers":{"email_sha256":"%064x"}%s}`,
			"[,"[min(i, 1)], time.Now().Unix(), number*n+i+1, more)
	}
	b.WriteByte(']')
	return b.Bytes()
}

func (s *site) post(body []byte) error {
	r, err := http.NewRequest(http.MethodPost, s.URL()+"/v1/events/batch", bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+s.key)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("got %s", answer.Status)
	}
	return nil
}

// eligible are the ids of the eligible rows of a table, and how often each is there.
func eligible(ctx context.Context, tbl *table.Table, o ...table.ScanOption) (map[string]int, error) {
	rows, err := scanTable(ctx, Events, tbl, o...)
	ids := map[string]int{}
	for _, r := range rows {
		if r["optimization_eligible"] == true {
			ids[fmt.Sprint(r["event_id"])]++
		}
	}
	return ids, err
}

// follower is the example in Go, which keeps the cursor with what it counts.
type follower struct {
	program, state, token string
	args                  []string
	cmd                   *exec.Cmd
}

func (s *site) newFollower(snapshot int64, limit int) *follower {
	s.t.Helper()
	var at struct {
		Cursor string `json:"cursor"`
	}
	if err := json.Unmarshal(s.ask(fmt.Sprintf("/feed/v1/cursor?snapshot=%d", snapshot)), &at); err != nil {
		s.t.Fatal(err)
	}
	dir := s.t.TempDir()
	f := &follower{program: filepath.Join(dir, "follow"), state: filepath.Join(dir, "totals.json"), token: s.token}
	build := exec.Command("go", "build", "-o", f.program, "./examples/feed")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		s.t.Fatalf("build the example: %v\n%s", err, out)
	}
	f.args = []string{"--url", strings.TrimSuffix(s.Ops(), "/"), "--state", f.state, "--begin", at.Cursor, "--limit", fmt.Sprint(limit), "--ids"}
	return f
}

func (f *follower) start(t *testing.T) {
	t.Helper()
	f.cmd = exec.Command(f.program, f.args...)
	f.cmd.Env = append(os.Environ(), "SLUICE_TOKEN="+f.token)
	if err := f.cmd.Start(); err != nil {
		t.Fatal(err)
	}
}

func (f *follower) kill() {
	_ = f.cmd.Process.Kill()
	_ = f.cmd.Wait()
}

func (f *follower) ids(t *testing.T) map[string]int {
	t.Helper()
	b, err := os.ReadFile(f.state)
	if os.IsNotExist(err) {
		return nil
	}
	var s struct {
		IDs map[string]int `json:"ids"`
	}
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s.IDs
}

// holdsRows says whether a snapshot has rows. The first one may come before the first event: it notes where the stream begins.
func holdsRows(s *table.Snapshot) bool {
	if s == nil || s.Summary == nil {
		return false
	}
	n := s.Summary.Properties["total-records"]
	return n != "" && n != "0"
}
