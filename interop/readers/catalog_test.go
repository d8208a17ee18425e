package readers

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go/catalog/rest"
	"github.com/apache/iceberg-go/table"

	"sluice/interop/readers/sent"
)

// site is a service with a reader that may use catalog and feed.
type site struct {
	*sent.Service
	t             *testing.T
	bin, dir      string
	key, token    string
	gen           *sent.Generator
	round, events int
}

func startSite(t *testing.T, args ...string) *site {
	t.Helper()
	s := &site{t: t, bin: program(t), dir: filepath.Join(t.TempDir(), "data"), gen: sent.New(setting(t, "SEED", 14))}
	var err error
	if s.key, err = sent.CreateDataset(s.bin, s.dir, "shop"); err != nil {
		t.Fatal(err)
	}
	if s.Service, err = sent.Start(s.bin, s.dir, args...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	out, err := exec.Command(s.bin, "reader", "create", "analyst", "--data", s.dir).Output()
	if err != nil {
		t.Fatal(err)
	}
	s.token = strings.TrimSpace(string(out))
	return s
}

// send sends some events, and returns what was accepted.
func (s *site) send(n int) (lines []sent.Line) {
	s.t.Helper()
	s.round++
	events := append(s.gen.Events("shop", n, s.round, time.Now()), s.gen.Rejected("shop", time.Now()))
	lines, err := s.Send(s.key, events, "")
	if err != nil {
		s.t.Fatal(err)
	}
	return lines
}

// awaitRows waits until a table has rows.
func (s *site) awaitRows(t *testing.T, table string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; <-time.After(50 * time.Millisecond) {
		out, err := exec.Command(s.bin, "lake", "files", table, "--data", s.dir).Output()
		if err == nil && len(out) > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("got no rows of %s in time: %v", table, err)
		}
	}
}

// Clients of the protocol attach to the catalog, find the tables, and read the rows that were sent.
func TestCatalogClients(t *testing.T) {
	s := startSite(t, "--commit-every", "200ms")
	var want []Row
	for range 5 {
		lines := s.send(30)
		for _, l := range lines {
			if l.Row != nil {
				want = append(want, l.Row)
			}
		}
		if err := s.AwaitProcessed(s.key, lines[0].SubmissionID); err != nil {
			t.Fatal(err)
		}
	}
	s.awaitRows(t, "rejections") // the small tables follow their events
	s.awaitRows(t, "hours")
	address := s.Ops() + "/iceberg"
	for name, options := range map[string][]rest.Option{
		"loopback":           nil,
		"a warehouse":        {rest.WithWarehouseLocation("sluice")},
		"a token":            {rest.WithOAuthToken(s.token)},
		"client credentials": {rest.WithCredential("analyst:" + s.token)},
		"the token alone":    {rest.WithCredential(s.token)},
	} {
		t.Run("iceberg-go, "+name, func(t *testing.T) {
			c, err := rest.NewCatalog(t.Context(), "sluice", address, options...)
			if err != nil {
				t.Fatal(err)
			}
			namespaces, err := c.ListNamespaces(t.Context(), nil)
			if err != nil || len(namespaces) != 1 || namespaces[0][0] != "sluice" {
				t.Fatalf("namespaces: got %v, %v", namespaces, err)
			}
			if ok, err := c.CheckNamespaceExists(t.Context(), namespaces[0]); err != nil || !ok {
				t.Errorf("the namespace: got %v, %v", ok, err)
			}
			var names []string
			for id, err := range c.ListTables(t.Context(), namespaces[0]) {
				if err != nil {
					t.Fatal(err)
				}
				names = append(names, id[1])
			}
			if !slices.Equal(names, []string{"events", "rejections", "hours", "days"}) {
				t.Errorf("tables: got %v", names)
			}
			for name, want := range map[string]bool{"events": true, "nothing": false} {
				if ok, err := c.CheckTableExists(t.Context(), table.Identifier{"sluice", name}); err != nil || ok != want {
					t.Errorf("table %s: got %v, %v", name, ok, err)
				}
			}
			tbl, err := c.LoadTable(t.Context(), table.Identifier{"sluice", "events"})
			if err != nil {
				t.Fatal(err)
			}
			rows, err := scanTable(t.Context(), Events, tbl)
			if err != nil {
				t.Fatal(err)
			}
			report := &Report{}
			Compare(report, "iceberg-go", Events, rows, want)
			if !report.Empty() {
				t.Errorf("rows:\n%s", report)
			}
		})
	}
	if _, err := rest.NewCatalog(t.Context(), "sluice", address, rest.WithOAuthToken(s.key)); err == nil {
		t.Error("a sender's key attaches")
	}

	for name, token := range map[string]string{"loopback": "", "a token": s.token} {
		t.Run("iceberg-js and icebird, "+name, func(t *testing.T) {
			base, stop, err := serveFiles()
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			in := nodeInput{Base: base, Catalog: &nodeCatalog{URL: address, Token: token}, found: &nodeFound{}}
			reads, err := runNode(t.Context(), Source{}, in)
			if err != nil {
				t.Fatal(err)
			}
			f := in.found
			if !slices.Equal(f.Namespaces, []string{"sluice"}) || !slices.Equal(f.Tables, []string{"events", "rejections", "hours", "days"}) || !f.Exists || f.Missing {
				t.Errorf("got %+v", f)
			}
			if fmt.Sprint(f.Rejected) != "406" {
				t.Errorf("a write: got %v, want 406", f.Rejected)
			}
			report := &Report{}
			Compare(report, "icebird", Events, reads["events"].Rows, want)
			if !report.Empty() || len(reads["events"].Errors) > 0 {
				t.Errorf("rows: %v\n%s", reads["events"].Errors, report)
			}
			if len(reads["hours"].Rows) == 0 || len(reads["rejections"].Rows) == 0 {
				t.Error("no rows of hours or rejections")
			}
		})
	}
}

// feed reads the feed from a cursor to the end of what there is.
func (s *site) feed(cursor string) (rows []Row, end string) {
	s.t.Helper()
	for {
		body := s.ask("/feed/v1/events?purpose=measurement&limit=500&cursor=" + cursor)
		at := bytes.LastIndexByte(bytes.TrimSuffix(body, []byte("\n")), '\n') + 1
		some, err := ReadNDJSON(body[:at])
		if err != nil {
			s.t.Fatal(err)
		}
		rows = append(rows, some...)
		var last struct {
			Cursor   string `json:"cursor"`
			CaughtUp bool   `json:"caught_up"`
		}
		if err := json.Unmarshal(body[at:], &last); err != nil {
			s.t.Fatal(err)
		}
		if cursor = last.Cursor; last.CaughtUp {
			return rows, cursor
		}
	}
}

func (s *site) ask(path string) []byte {
	s.t.Helper()
	r, err := http.NewRequest(http.MethodGet, s.Ops()+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(bufio.NewReader(answer.Body))
	if err != nil || answer.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: got %s %s %v", path, answer.Status, body, err)
	}
	return body
}

// A reader takes the table at a snapshot, then follows the feed from the cursor of that snapshot, while events come: each
// row is in one of the two, once. Suppressed rows are in the table alone.
func TestSnapshotThenFeed(t *testing.T) {
	s := startSite(t, "--commit-every", "100ms", "--partitions", "3")
	c, err := rest.NewCatalog(t.Context(), "sluice", s.Ops()+"/iceberg", rest.WithOAuthToken(s.token))
	if err != nil {
		t.Fatal(err)
	}
	var want []Row
	snapshots := map[int64]bool{}
	send := func() {
		for _, l := range s.send(20) {
			if l.Row != nil && l.Row["privacy"] != "suppressed" {
				want = append(want, l.Row)
			}
		}
	}
	load := func() *table.Table {
		tbl, err := c.LoadTable(t.Context(), table.Identifier{"sluice", "events"})
		if err != nil {
			t.Fatal(err)
		}
		return tbl
	}
	for deadline := time.Now().Add(time.Minute); len(snapshots) < 5 && time.Now().Before(deadline); {
		send()
		for _, snap := range load().Metadata().Snapshots() {
			snapshots[snap.SnapshotID] = true
		}
	}
	if len(snapshots) < 5 {
		t.Fatalf("got %d snapshots", len(snapshots))
	}
	send()
	for id := range snapshots {
		tbl := load()
		rows, err := scanTable(t.Context(), Events, tbl, table.WithSnapshotID(id))
		if err != nil {
			t.Fatal(err)
		}
		rows = slices.DeleteFunc(rows, func(r Row) bool { return r["privacy"] == "suppressed" })
		var at struct {
			Cursor string `json:"cursor"`
		}
		if err := json.Unmarshal(s.ask(fmt.Sprintf("/feed/v1/cursor?snapshot=%d", id)), &at); err != nil {
			t.Fatal(err)
		}
		followed, _ := s.feed(at.Cursor)
		report := &Report{}
		Compare(report, fmt.Sprintf("snapshot with %d rows and feed with %d", len(rows), len(followed)), Events, append(rows, followed...), want)
		if !report.Empty() {
			t.Errorf("%s", report)
		}
	}
}
