package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/servicetest"
)

// reader makes a reader and returns its token.
func reader(t testing.TB, dir, name string, args ...string) string {
	t.Helper()
	return strings.TrimSpace(sluice(t, append([]string{"reader", "create", name, "--data", dir}, args...)...))
}

// ask asks the operators' listener.
func (s *server) ask(t *testing.T, token, path string) answer {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, strings.TrimSuffix(s.ops, "/")+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	a, err := servicetest.Client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{a.StatusCode, a.Header, body}
}

// mixed is a batch of events of which a part may be used for optimization, a part for measurement alone, and a part is
// suppressed in a dataset that suppresses.
func mixed(id string, batch, n int) string {
	var b strings.Builder
	for i := range n {
		number := batch*n + i
		consent := ""
		switch number % 5 {
		case 0:
			consent = `,"privacy":{"us_privacy_string":"1YYN"}`
		case 1:
			consent = `,"mmt_only":true`
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"data_set_id":%q,"timestamp":%d,"event_type":"purchase","value":1.5,"currency_code":"EUR","identifiers":{"email_sha256":"%064x","partner_id":"p-%d"}%s}`,
			id, time.Now().Unix(), number+1, number, consent)
	}
	return "[" + b.String() + "]"
}

// Nobody gets anything but with the right credential at the right place.
func TestReadersGetTheirOwn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key, _ := provisioned(t, dir, "shop")
	other, _ := provisioned(t, dir, "other", "--opt-out", "suppress")
	s := start(t, dir, "--commit-every", "200ms")
	all := reader(t, dir, "all")
	bound := reader(t, dir, "bound", "--allow", "catalog,feed", "--dataset", "shop")
	revoked := reader(t, dir, "revoked")
	for id, key := range map[string]string{"shop": key, "other": other} {
		if a, err := s.post(key, "/v1/events/batch", mixed(id, 0, 10)); err != nil || a.status != 200 {
			t.Fatalf("send to %s: %d %s %v", id, a.status, a.body, err)
		}
	}
	const events, table = "/feed/v1/events?purpose=measurement&cursor=earliest", "/iceberg/v1/namespaces/sluice/tables/events"

	if a := s.ask(t, revoked, events); a.status != 200 {
		t.Fatalf("before it was revoked: got %d", a.status)
	}
	sluice(t, "reader", "revoke", "revoked", "--data", dir)
	eventually(t, 5*time.Second, "revoked", func() error {
		for _, path := range []string{events, table} {
			if a := s.ask(t, revoked, path); a.status != 401 {
				return fmt.Errorf("%s: got %d", path, a.status)
			}
		}
		return nil
	})
	for name, c := range map[string]struct {
		token, path string
		want        int
	}{
		"catalog, loopback":                  {"", table, 200},
		"catalog, a reader":                  {all, table, 200},
		"catalog, a bound reader":            {bound, table, 403},
		"catalog, a sender's key":            {key, table, 401},
		"feed, nobody":                       {"", events, 401},
		"feed, a sender's key":               {key, events, 401},
		"feed, a bound reader, another":      {bound, events + "&dataset=other", 403},
		"feed, the cursor of a snapshot":     {key, "/feed/v1/cursor?snapshot=1", 401},
		"a page of the console is no matter": {"", "/system", 200},
	} {
		if a := s.ask(t, c.token, c.path); a.status != c.want {
			t.Errorf("%s: got %d, want %d", name, a.status, c.want)
		}
	}
	for name, c := range map[string]struct {
		token string
		rows  int
	}{"all": {all, 18}, "bound": {bound, 10}} { // of the other dataset 2 of 10 are suppressed
		a := s.ask(t, c.token, events)
		if rows := bytes.Count(a.body, []byte("\n")) - 1; a.status != 200 || rows != c.rows {
			t.Errorf("%s: got %d with %d rows, want %d", name, a.status, rows, c.rows)
		}
		if bytes.Contains(a.body, []byte(`"suppressed"`)) || name == "bound" && bytes.Contains(a.body, []byte(`"other"`)) {
			t.Errorf("%s: a row that it may not have", name)
		}
		for _, n := range []int{0, 5} { // suppressed in the other dataset, restricted in this one
			if got := bytes.Count(a.body, fmt.Appendf(nil, `"p-%d"`, n)); got != 1 {
				t.Errorf("%s: partner p-%d is in %d lines, want that of shop alone", name, n, got)
			}
		}
	}
	for _, path := range []string{"/v1/events", "/v1/events/batch", "/v1/events/validate"} {
		if a, err := s.post(all, path, mixed("shop", 1, 1)); err != nil || a.status != 403 {
			t.Errorf("a reader's token at the senders' listener, %s: got %d %v", path, a.status, err)
		}
	}
	if a, err := s.call(http.MethodGet, key, events, ""); err != nil || a.status != 404 {
		t.Errorf("the feed at the senders' listener: got %d %v", a.status, err)
	}
	// The command prints what the feed hands out, and goes on where it ended.
	file := filepath.Join(t.TempDir(), "cursor")
	args := []string{"feed", "--data", dir, "--purpose", "optimization", "--cursor", "earliest", "--once", "--cursor-file", file}
	if got := strings.Count(sluice(t, args...), "\n"); got != 12 {
		t.Errorf("sluice feed: got %d rows, want 12", got)
	}
	if got := sluice(t, args...); got != "" {
		t.Errorf("sluice feed again: got %q, want nothing", got)
	}
	if a, err := s.post(key, "/v1/events", marked("shop", "new")); err != nil || a.status != 200 {
		t.Fatalf("got %d %v", a.status, err)
	}
	if got := sluice(t, args...); strings.Count(got, "\n") != 1 || !strings.Contains(got, `"partner_id":"new"`) {
		t.Errorf("sluice feed after one more: got %q", got)
	}
}

// The command follows a server on another machine with a reader's token, goes on where it ended, and prints nothing twice when
// an answer breaks off.
func TestFeedOfAnotherServer(t *testing.T) {
	t.Parallel()
	dir, work := t.TempDir(), t.TempDir()
	key, _ := provisioned(t, dir, "shop")
	s := start(t, dir)
	file := filepath.Join(work, "token")
	if err := os.WriteFile(file, []byte(reader(t, dir, "all", "--allow", "feed")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	send := func(batch int) {
		t.Helper()
		if a, err := s.post(key, "/v1/events/batch", mixed("shop", batch, 10)); err != nil || a.status != 200 {
			t.Fatalf("send: %d %v", a.status, err)
		}
	}
	send(0)
	// Every second answer breaks off in the middle of a line.
	target, err := url.Parse(s.ops)
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int64
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }} // it adds no X-Forwarded-For
	proxy.ModifyResponse = func(r *http.Response) error {
		if asked.Add(1)%2 == 1 && r.StatusCode == 200 {
			r.Body = io.NopCloser(io.LimitReader(r.Body, 700))
			r.ContentLength = -1
			r.Header.Del("Content-Length")
		}
		return nil
	}
	broken := httptest.NewServer(proxy)
	defer broken.Close()
	cursor := filepath.Join(work, "cursor")
	args := []string{"feed", "--url", broken.URL, "--token-file", file, "--purpose", "measurement", "--cursor", "earliest", "--once", "--cursor-file", cursor, "--data", filepath.Join(work, "none")}
	seen := map[string]int{}
	read := func(want int) {
		t.Helper()
		before := asked.Load()
		for line := range strings.Lines(sluice(t, args...)) {
			seen[line]++
		}
		if len(seen) != want || asked.Load() != before+2 {
			t.Errorf("got %d rows after %d requests, want %d after 2", len(seen), asked.Load()-before, want)
		}
	}
	read(10)
	send(1)
	read(20)
	for line, n := range seen {
		if n != 1 {
			t.Errorf("a row came %d times: %.60s", n, line)
		}
	}
	gone := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusGone)
		fmt.Fprintf(w, `{"error_code":"CURSOR_EXPIRED","snapshot_id":%s,"cursor":"after"}`, r.URL.Query().Get("dataset"))
	}))
	defer gone.Close()
	old, empty := filepath.Join(work, "old"), filepath.Join(work, "empty")
	for name, text := range map[string]string{old: "before\n", empty: "\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"gone": {[]string{"--url", gone.URL, "--token-file", file, "--dataset", "17"}, "at snapshot 17, then go on with --cursor after"},
		"gone, from a file": {
			[]string{"--url", gone.URL, "--token-file", file, "--dataset", "17", "--cursor-file", old},
			"at snapshot 17, then write the cursor after into " + old,
		},
		"gone, no snapshot": {
			[]string{"--url", gone.URL, "--token-file", file, "--dataset", "0", "--cursor-file", old},
			"write the cursor earliest into " + old,
		},
		"an empty file":       {[]string{"--cursor-file", empty}, empty + " is empty"},
		"a file and a cursor": {[]string{"--cursor-file", old, "--cursor", "after"}, "leave --cursor out"},
		"no token":            {[]string{"--url", s.ops}, "SLUICE_TOKEN"},
		"plain http":          {[]string{"--url", "http://sluice.example.com", "--token-file", file}, "use https"},
		"not an address":      {[]string{"--url", "sluice.example.com", "--token-file", file}, "operators' listener"},
		"senders' API":        {[]string{"--url", s.url, "--token-file", file}, "404"},
		"a sender's key":      {[]string{"--url", s.ops, "--token-file", keyFile(t, work, key)}, "INVALID_TOKEN"},
		"not a cursor":        {[]string{"--url", s.ops, "--token-file", file, "--cursor", "nonsense"}, "INVALID_CURSOR"},
	} {
		out, err := program(t.Context(), append([]string{"feed", "--once", "--purpose", "measurement"}, c.args...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.want) || strings.Contains(string(out), key) {
			t.Errorf("%s: got %v %s, want %q", name, err, out, c.want)
		}
	}
}

// The example programs send their token to no other address, whatever the server answers.
func TestFollowersStay(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	program := filepath.Join(work, "follow")
	if out, err := exec.Command("go", "build", "-o", program, "../../examples/feed").CombinedOutput(); err != nil {
		t.Fatalf("build the example: %v\n%s", err, out)
	}
	for name, args := range map[string][]string{
		program:   {"--state", filepath.Join(work, "totals.json")},
		"python3": {"../../examples/feed/follow.py", "--db", filepath.Join(work, "events.db")},
	} {
		var asked, lost atomic.Int64
		elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { lost.Add(1) }))
		defer elsewhere.Close()
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			http.Redirect(w, r, elsewhere.URL, http.StatusFound)
		}))
		defer server.Close()
		f := &follower{name: name, token: "secret", args: append(args, "--url", server.URL)}
		f.start(t)
		eventually(t, time.Minute, "two requests of "+name, func() error {
			if n := asked.Load(); n < 2 {
				return fmt.Errorf("%d", n)
			}
			return nil
		})
		f.kill()
		if lost.Load() > 0 {
			t.Errorf("%s follows a redirect with its token", name)
		}
	}
}

func keyFile(t *testing.T, dir, key string) string {
	t.Helper()
	name := filepath.Join(dir, "key")
	if err := os.WriteFile(name, []byte(key), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// Behind a proxy everybody is a stranger, also on a loopback address.
func TestProxyOnLoopback(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir, "--ops-proxy")
	token := reader(t, dir, "a", "--allow", "catalog")
	for path, want := range map[string]int{"/": 401, "/system": 401, "/iceberg/v1/config": 401, "/livez": 200} {
		if a := s.ask(t, "", path); a.status != want {
			t.Errorf("%s: got %d, want %d", path, a.status, want)
		}
	}
	if a := s.ask(t, token, "/iceberg/v1/config"); a.status != 200 {
		t.Errorf("a reader: got %d", a.status)
	}
}

// follower is a program that follows the feed, and is killed.
type follower struct {
	name  string
	args  []string
	token string
	cmd   *exec.Cmd
}

func (f *follower) start(t *testing.T) {
	t.Helper()
	f.cmd = exec.CommandContext(context.Background(), f.name, f.args...)
	f.cmd.Env = append(os.Environ(), "SLUICE_TOKEN="+f.token)
	if err := f.cmd.Start(); err != nil {
		t.Fatal(err)
	}
}

func (f *follower) kill() {
	_ = f.cmd.Process.Kill()
	_ = f.cmd.Wait()
}

// Programs that keep the cursor with their effects process each event once, though they are killed ten times: the examples
// in Go and in Python, on a stream of three partitions. FEED_EVENTS is how many events are sent.
func TestFollowersAreKilled(t *testing.T) {
	t.Parallel()
	total := 10_000
	if text := os.Getenv("FEED_EVENTS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		total = n
	}
	dir, work := t.TempDir(), t.TempDir()
	key, _ := provisioned(t, dir, "shop", "--opt-out", "suppress")
	token := reader(t, dir, "optimizer", "--allow", "feed")
	s := start(t, dir, "--partitions", "3", "--commit-every", "500ms")
	program := filepath.Join(work, "follow")
	build := exec.Command("go", "build", "-o", program, "../../examples/feed")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the example: %v\n%s", err, out)
	}
	address := strings.TrimSuffix(s.ops, "/")
	state, db := filepath.Join(work, "totals.json"), filepath.Join(work, "events.db")
	followers := []*follower{
		{name: program, token: token, args: []string{"--url", address, "--state", state, "--begin", "earliest", "--limit", "300", "--ids"}},
		{name: "python3", token: token, args: []string{"../../examples/feed/follow.py", "--url", address, "--db", db, "--begin", "earliest", "--limit", "300"}},
	}
	for _, f := range followers {
		f.start(t)
		defer func() { f.kill() }()
	}

	const batch, senders, kills = 100, 4, 10
	var sent sync.WaitGroup
	progress := make(chan struct{}, total/batch)
	for n := range senders {
		sent.Go(func() {
			for i := n; i < total/batch; i += senders {
				a, err := s.post(key, "/v1/events/batch", mixed("shop", i, batch))
				if err != nil || a.status != 200 {
					t.Errorf("send: %d %s %v", a.status, a.body, err)
				}
				progress <- struct{}{}
			}
		})
	}
	for i := range total / batch {
		<-progress
		if (i+1)%(total/batch/kills) == 0 {
			for _, f := range followers {
				f.kill()
				f.start(t)
			}
		}
	}
	sent.Wait()

	want := map[string]int{}
	for line := range strings.Lines(sluice(t, "export", "--data", dir)) {
		var row struct {
			ID       string `json:"event_id"`
			Eligible bool   `json:"optimization_eligible"`
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		if row.Eligible {
			want[row.ID]++
		}
	}
	if len(want) != total*3/5 {
		t.Fatalf("the table has %d eligible rows, want %d", len(want), total*3/5)
	}
	for name, read := range map[string]func() (map[string]int, error){
		"Go": func() (map[string]int, error) { return idsOfState(state) }, "Python": func() (map[string]int, error) { return idsOfDatabase(db) },
	} {
		eventually(t, 30*time.Second, name, func() error {
			got, err := read()
			if err != nil {
				return err
			}
			for id, n := range got {
				if n != 1 || want[id] != 1 {
					t.Fatalf("%s: event %s came %d times, and the table has it %d times", name, id, n, want[id])
				}
			}
			if len(got) != len(want) {
				return fmt.Errorf("%d events of %d", len(got), len(want))
			}
			return nil
		})
	}
}

func idsOfState(file string) (map[string]int, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var s struct {
		IDs map[string]int `json:"ids"`
	}
	err = json.Unmarshal(b, &s)
	return s.IDs, err
}

// idsOfDatabase asks Python: nothing here reads SQLite.
func idsOfDatabase(file string) (map[string]int, error) {
	const script = `import json, sqlite3, sys
db = sqlite3.connect(sys.argv[1])
print(json.dumps(dict(db.execute("SELECT event_id, count(*) FROM events GROUP BY 1"))))`
	out, err := exec.Command("python3", "-c", script, file).Output()
	if err != nil {
		return nil, err
	}
	ids := map[string]int{}
	err = json.Unmarshal(out, &ids)
	return ids, err
}

// A row is the same in the feed and in the table, and names the submission id that its sender got.
func TestFeedAndExportAgree(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key, _ := provisioned(t, dir, "shop")
	s := start(t, dir, "--commit-every", "200ms")
	token := reader(t, dir, "all")
	a, err := s.post(key, "/v1/events/batch", mixed("shop", 0, 10))
	if err != nil || a.status != 200 {
		t.Fatalf("send: %d %s %v", a.status, a.body, err)
	}
	var receipt struct {
		ID string `json:"submission_id"`
	}
	if err := json.Unmarshal(a.body, &receipt); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(s.ask(t, token, "/feed/v1/events?purpose=measurement&cursor=earliest").body)), "\n")
	followed := map[string]bool{}
	for _, line := range lines[:len(lines)-1] { // the last one is the cursor
		followed[line] = true
		if !strings.Contains(line, receipt.ID) {
			t.Fatalf("got a row without the submission id of its receipt")
		}
	}
	stored := strings.Split(strings.TrimSpace(sluice(t, "export", "--data", dir)), "\n")
	if len(followed) != 10 || len(stored) != 10 {
		t.Fatalf("got %d rows in the feed and %d in the table, want 10", len(followed), len(stored))
	}
	for _, line := range stored {
		if !followed[line] {
			t.Errorf("got a stored row that differs in the feed")
		}
	}
}
