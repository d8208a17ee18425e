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
// ten times while events come and people are erased: what it has then is what iceberg-go reads in the table, each row once, and
// each erased row is told once. FEED_EVENTS is how many events are sent; make followers sends 100,000.
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
	read, err := eligible(t.Context(), tbl, table.WithSnapshotID(snapshot.SnapshotID)) // an erasure ends it
	if err != nil {
		t.Fatalf("read the snapshot: %v", err)
	}
	f := s.newFollower(snapshot.SnapshotID, int(total)/30) // it writes all that it has counted after each answer
	f.start(t)
	defer func() { f.kill() }()
	n := 0
	for range sent {
		if n++; n%(int(total)/batch*3/4/kills) == 0 {
			f.kill()
			if n%2 == 0 { // it is told whether or not it runs
				f.start(t)
			}
			out, err := exec.Command(s.bin, "erase", "--partner-id", person(n), "--yes", "--data", s.dir).CombinedOutput()
			if err != nil {
				t.Fatalf("erase: %v\n%s", err, out)
			}
			if n%2 != 0 {
				f.start(t)
			}
		}
	}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		want, err := eligible(t.Context(), load())
		if err != nil {
			t.Fatal(err)
		}
		has, told := f.ids(t)
		rest := 0 // of the snapshot
		for id := range read {
			if told[id] == 0 {
				rest++
				has[id]++
			}
		}
		if len(want)+len(told) == int(total)*4/5 && len(has) == len(want) {
			for id, n := range has {
				if n != 1 || want[id] != 1 {
					t.Fatalf("event %s: the follower has it %d times, the table %d times", id, n, want[id])
				}
			}
			for id, n := range told {
				if n != 1 || want[id] != 0 {
					t.Fatalf("event %s: told %d times, and %d times in the table", id, n, want[id])
				}
			}
			if rest == 0 || rest == len(want) || len(told) < int(total)/100 {
				t.Fatalf("%d rows of the snapshot, %d in the table, %d erased: this shows nothing", rest, len(want), len(told))
			}
			t.Logf("%d rows: %d of the snapshot, the others of the feed; %d erased", len(has), rest, len(told))
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the follower has %d rows and was told of %d erased ones; the table has %d of %d", len(has), len(told), len(want), total*4/5)
		}
	}
}

// person is the partner id of one event of ten of a batch with a number.
func person(number int) string { return fmt.Sprint("person-", number%5) }

// mixture is a batch of which four of five events are eligible for optimization.
func mixture(number, n int) []byte {
	var b bytes.Buffer
	for i := range n {
		more := ""
		if i%5 == 0 {
			more = `,"mmt_only":true`
		}
		partner := ""
		if i%10 == 1 {
			partner = `,"partner_id":"` + person(number) + `"`
		}
		fmt.Fprintf(&b, `%c{"data_set_id":"shop","timestamp":%d,"event_type":"purchase","value":1.5,"currency_code":"EUR","identifiers":{"email_sha256":"%064x"%s}%s}`,
			"[,"[min(i, 1)], time.Now().Unix(), number*n+i+1, partner, more)
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

// ids are how often the follower got each row that it has, and how often it was told that one was erased.
func (f *follower) ids(t *testing.T) (has, told map[string]int) {
	t.Helper()
	b, err := os.ReadFile(f.state)
	if os.IsNotExist(err) {
		return map[string]int{}, nil
	}
	var s struct {
		IDs    map[string]int `json:"ids"`
		Erased map[string]int `json:"erased"`
	}
	s.IDs = map[string]int{}
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s.IDs, s.Erased
}

// holdsRows says whether a snapshot has rows. The first one may come before the first event: it notes where the stream begins.
func holdsRows(s *table.Snapshot) bool {
	if s == nil || s.Summary == nil {
		return false
	}
	n := s.Summary.Properties["total-records"]
	return n != "" && n != "0"
}
