package table

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/servicetest"
)

// service is the real one, in a process of its own.
type service struct {
	*servicetest.Server
	t       *testing.T
	program servicetest.Program
	data    string
	keys    map[string]string
}

func startService(t *testing.T) *service {
	t.Helper()
	dir := t.TempDir()
	program, err := servicetest.Build(filepath.Join("..", ".."), dir)
	if err != nil {
		t.Fatal(err)
	}
	s := &service{t: t, program: program, data: filepath.Join(dir, "data"), keys: map[string]string{}}
	for id, args := range map[string][]string{"app": {"--opt-out", "suppress"}, "shop": nil} {
		if s.keys[id], _, err = program.CreateDataset(t.Context(), s.data, id, args...); err != nil {
			t.Fatal(err)
		}
	}
	s.Server, err = servicetest.Launch{Program: program, Data: s.data, Args: []string{"--commit-every", "200ms"}, Within: time.Minute}.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop(syscall.SIGKILL) })
	return s
}

// run runs a command of sluice and returns what it prints.
func (s *service) run(args ...string) []byte {
	s.t.Helper()
	out, err := s.program.Run(s.t.Context(), append(args, "--data", s.data)...)
	if err != nil {
		s.t.Fatal(err)
	}
	return []byte(out)
}

// post sends events of one dataset and wants this many of them to be accepted.
func (s *service) post(id string, accepted int, events ...map[string]any) {
	s.t.Helper()
	for _, e := range events {
		e["data_set_id"] = id
	}
	body, err := json.Marshal(events)
	if err != nil {
		s.t.Fatal(err)
	}
	answer, err := s.Call(http.MethodPost, s.keys[id], "/v1/events/batch", string(body))
	if err != nil {
		s.t.Fatal(err)
	}
	var receipt struct{ Accepted int }
	if err := json.Unmarshal(answer.Body, &receipt); err != nil || receipt.Accepted != accepted {
		s.t.Fatalf("got %d %s, want %d accepted", answer.Status, answer.Body, accepted)
	}
}

func (s *service) do(r *http.Request) string {
	s.t.Helper()
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: got %s, %v", r.URL.Path, resp.Status, err)
	}
	return string(b)
}

// figures reads the named figures off a dataset's page in the console.
func (s *service) figures(id string) map[string]float64 {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.Ops()+"/dataset?id="+url.QueryEscape(id), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	out := map[string]float64{}
	for _, part := range strings.Split(s.do(r), `data-figure="`)[1:] {
		name, rest, _ := strings.Cut(part, `"`)
		_, rest, _ = strings.Cut(rest, ">")
		text, _, _ := strings.Cut(rest, "<")
		if n, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64); err == nil { // some are words
			out[name] = n
		}
	}
	return out
}

// views makes the views of the page with the page's own shell lines.
func (s *service) views(db *sql.DB) {
	s.t.Helper()
	dir := s.t.TempDir()
	sh := exec.CommandContext(s.t.Context(), "sh", "-euc", blocks(s.t, "run")["views"])
	sh.Dir = dir
	sh.Env = append(os.Environ(), "PATH="+filepath.Dir(s.program.Path)+":"+os.Getenv("PATH"), "SLUICE_DATA="+s.data)
	if out, err := sh.CombinedOutput(); err != nil {
		s.t.Fatalf("%v\n%s", err, out)
	}
	b, err := os.ReadFile(filepath.Join(dir, "views.sql"))
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := db.ExecContext(s.t.Context(), string(b)); err != nil {
		s.t.Fatalf("%v\n%s", err, b)
	}
}

// ask runs a query and returns its rows as words.
func ask(t *testing.T, db *sql.DB, query string) (out []string) {
	t.Helper()
	rows, err := db.QueryContext(context.WithoutCancel(t.Context()), query)
	if err != nil {
		t.Fatalf("%v\n%s", err, query)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		cells, at := make([]any, len(names)), make([]any, len(names))
		for i := range cells {
			at[i] = &cells[i]
		}
		if err := rows.Scan(at...); err != nil {
			t.Fatal(err)
		}
		words := make([]string, len(cells))
		for i, c := range cells {
			words[i] = fmt.Sprint(c)
			if day, ok := c.(time.Time); ok {
				words[i] = day.Format(time.DateOnly)
			}
		}
		out = append(out, strings.Join(words, " "))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// The people of the erasure check on the page.
const (
	email   = "8c87b489ce35cf2e2f39f80e282cb2e804932a56a213983eeeb428407d43b52d"
	address = "fec52565aa0cf18f57d7cf5b3ac728503b8992d2d6f7d46da1d1201090902b02"
	device  = "38400000-8cf0-11bd-b23e-10b96e40000d"
)

// made is an event of this age; more is further members, by name and value.
func made(now time.Time, age time.Duration, eventType, device string, more ...any) map[string]any {
	e := map[string]any{"timestamp": now.Add(-age).Unix(), "event_type": eventType, "identifiers": map[string]any{"ifa": device}}
	for i := 0; i < len(more); i += 2 {
		e[more[i].(string)] = more[i+1]
	}
	return e
}

// send sends a known load of two datasets, in several requests. Sums of its values are exact.
func (s *service) send(now time.Time) {
	const other = "0f8fad5b-d9cb-469f-a165-70867728950e"
	day := 24 * time.Hour
	order := func(id string) map[string]any { return map[string]any{"order_id": id} }
	s.post("shop", 5,
		made(now, 0, "purchase", other, "value", 1200.5, "currency_code", "EUR", "cp_id", "spring", "custom_data", order("A-1")),
		made(now, 0, "purchase", other, "value", 1200.5, "currency_code", "EUR", "cp_id", "spring", "custom_data", order("A-1")),
		made(now, day, "purchase", other, "value", 99.25, "currency_code", "EUR", "cp_id", "spring", "custom_data", order("A-2")),
		made(now, 0, "refund", other, "value", 100, "currency_code", "EUR"),
		made(now, 0, "begin_checkout", other, "value", 700, "currency_code", "EUR"),
		map[string]any{"event_type": "purchase", "identifiers": map[string]any{"ifa": other}}, // rejected: no timestamp
	)
	s.post("shop", 4,
		made(now, 0, "purchase", other, "value", 1200.5, "currency_code", "EUR", "cp_id", "spring", "custom_data", order("A-1")),
		made(now, 0, "refund", other, "value", -50.25, "currency_code", "EUR"),
		made(now, 8*day, "purchase", other, "value", 20, "currency_code", "USD"),
		made(now, 0, "refund", other),
	)
	s.post("shop", 3,
		made(now, 0, "page_view", device, "mmt_only", true),
		map[string]any{"timestamp": now.Unix(), "event_type": "sign_up", "identifiers": map[string]any{"email_sha256": strings.ToUpper(email)}},
		map[string]any{"timestamp": now.Unix(), "event_type": "sign_up", "identifiers": map[string]any{"ip": address, "partner_id": "customer-4711"}},
	)
	s.post("app", 3,
		made(now, 0, "purchase", other, "value", 4.75, "currency_code", "USD", "privacy", map[string]any{"us_privacy_string": "1YYN"}),
		made(now, 0, "purchase", other, "value", 2, "currency_code", "USD"),
		made(now, 9*day, "page_view", other),
	)
}

// Every query of docs/tables.md runs with DuckDB on tables that the service wrote, and gives the numbers of what was
// sent, and those of the console.
func TestQueriesOfThePage(t *testing.T) {
	s := startService(t)
	now := time.Now()
	for now.Add(30*time.Second).UTC().Day() != now.UTC().Day() { // one day has to hold all that is sent and received
		time.Sleep(time.Second)
		now = time.Now()
	}
	s.send(now)
	deadline := time.Now().Add(time.Minute)
	for s.figures("shop")["accepted"] != 12 || s.figures("app")["accepted"] != 3 || s.figures("shop")["rejected"] != 1 {
		if time.Now().After(deadline) {
			t.Fatalf("got %v and %v, want 12 and 3 accepted", s.figures("shop"), s.figures("app"))
		}
		time.Sleep(50 * time.Millisecond)
	}
	s.run("backup", filepath.Join(t.TempDir(), "backup")) // the console has counts from memory; a backup waits for their tables
	db := duck(t)
	s.views(db)
	date := func(age int) string { return now.UTC().AddDate(0, 0, -age).Format(time.DateOnly) }
	want := map[string][]string{
		"first": {"purchase 7", "refund 3", "page_view 2", "sign_up 2", "begin_checkout 1"},
		"conversions": {
			date(9) + " page_view app 1", date(8) + " purchase shop 1", date(1) + " purchase spring 1", date(0) + " begin_checkout shop 1",
			date(0) + " page_view shop 1", date(0) + " purchase app 2", date(0) + " purchase spring 3", date(0) + " refund shop 3",
			date(0) + " sign_up shop 2",
		},
		"conversions-hours": {
			date(0) + " app page_view 1", date(0) + " app purchase 2", date(0) + " shop begin_checkout 1", date(0) + " shop page_view 1",
			date(0) + " shop purchase 5", date(0) + " shop refund 3", date(0) + " shop sign_up 2",
		},
		"revenue":       {"app USD 6.75 0 6.75", "shop EUR 3700.75 150.25 3550.5", "shop USD 20 0 20"},
		"revenue-hours": {"app USD 6.75 0 6.75", "shop EUR 3700.75 150.25 3550.5", "shop USD 20 0 20"},
		"values-hours":  {"shop begin_checkout EUR 1 700"},
		"late":          {"app 3 1 33.33", "shop 12 1 8.33"},
		"consent":       {"app suppressed 1 33.33", "app unrestricted 2 66.67", "shop measurement_only 1 8.33", "shop unrestricted 11 91.67"},
		"duplicates":    {"shop purchase A-1 3 2"},
		"erasure":       {"3"},
		"rejected":      {"shop MISSING_FIELD /timestamp 1 1"},
	}
	queries := blocks(t, "query")
	for name := range want {
		if queries[name] == "" {
			t.Errorf("the page has no query %s", name)
		}
	}
	for name, query := range queries {
		if got := ask(t, db, query); !slices.Equal(got, want[name]) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want[name], "\n"))
		}
	}
	s.agree(db, queries)
	s.erase(db, queries["erasure"])
}

// agree wants the queries to give the console's numbers.
func (s *service) agree(db *sql.DB, queries map[string]string) {
	s.t.Helper()
	got := map[string]float64{}
	put := func(name, id, number string) {
		n, err := strconv.ParseFloat(number, 64)
		if err != nil {
			s.t.Fatal(err)
		}
		got[id+" "+name] += n
	}
	read := func(query string, put func(f []string)) {
		for _, row := range ask(s.t, db, queries[query]) {
			put(strings.Fields(row))
		}
	}
	read("conversions-hours", func(f []string) { put("accepted", f[1], f[3]) })
	read("late", func(f []string) { put("late", f[0], f[2]) })
	read("revenue", func(f []string) { put("revenue-"+f[1], f[0], f[4]) })
	read("rejected", func(f []string) { put("rejected", f[0], f[3]) })
	read("consent", func(f []string) {
		if name := map[string]string{"measurement_only": "restricted", "suppressed": "suppressed"}[f[1]]; name != "" {
			put(name, f[0], f[2])
		}
	})
	for _, id := range []string{"app", "shop"} {
		for name, want := range s.figures(id) {
			if name != "score" && got[id+" "+name] != want {
				s.t.Errorf("%s of %s: got %v by SQL, want the console's %v", name, id, got[id+" "+name], want)
			}
			delete(got, id+" "+name)
		}
	}
	if len(got) > 0 {
		s.t.Errorf("the console has none of %v", got)
	}
}

// erase erases the people of the erasure check, one identifier after the other.
func (s *service) erase(db *sql.DB, query string) {
	s.t.Helper()
	for i, id := range [][]string{{"--email-sha256", email}, {"--ifa", strings.ToUpper(device)}, {"--ip", address}} {
		s.run(append([]string{"erase", "--yes"}, id...)...)
		s.views(db)
		if got, want := ask(s.t, db, query), strconv.Itoa(2-i); !slices.Equal(got, []string{want}) {
			s.t.Errorf("after erase %s: got %v events, want %s", id[0], got, want)
		}
	}
}
