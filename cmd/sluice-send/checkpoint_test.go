package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// damage is what happens to the files between two runs. name → what is done → what must hold is the same for all:
// every good row is stored once, every bad one is listed once.
var damage = map[string]func(t *testing.T, path string){
	"nothing":                             func(*testing.T, string) {},
	"half a line":                         cutCheckpoint(-7),
	"zero bytes at the end":               addTo(".checkpoint", "\x00\x00\x00\x00"),
	"rubbish at the end":                  addTo(".checkpoint", "{\"batch\":9"),
	"rubbish lines":                       addTo(".checkpoint", "rubbish\n{\"batch\":3,\"rows\":100}\n"),
	"rejected rows not in the checkpoint": addTo(".rejected.ndjson", `{"line":4711,"error_code":"INVALID_EVENT_TYPE"}`+"\n"),
	"a bad line in the middle": func(t *testing.T, path string) {
		data, err := os.ReadFile(path + ".checkpoint")
		must(t, err)
		lines := bytes.SplitAfter(data, []byte("\n"))
		lines[2] = bytes.ReplaceAll(lines[2], []byte(`"batch"`), []byte(`"batch`))
		must(t, os.WriteFile(path+".checkpoint", bytes.Join(lines, nil), 0o600))
	},
}

func cutCheckpoint(at int) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		data, err := os.ReadFile(path + ".checkpoint")
		must(t, err)
		if at < 0 {
			at += len(data)
		}
		must(t, os.Truncate(path+".checkpoint", int64(at)))
	}
}

func addTo(suffix, text string) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		f, err := os.OpenFile(path+suffix, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		must(t, err)
		_, err = io.WriteString(f, text)
		must(t, err)
		must(t, f.Close())
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// timePattern finds the time of a line.
var timePattern = regexp.MustCompile(`"time":\d+`)

// rejectKey makes the store reject everything after n requests, which stops an upload at once.
func rejectKey(n int) func(int, http.ResponseWriter) bool {
	return func(i int, w http.ResponseWriter) bool {
		if i <= n {
			return false
		}
		w.WriteHeader(403)
		fmt.Fprint(w, `{"status":"error","error_code":"INVALID_API_KEY","message":"The key is not valid."}`)
		return true
	}
}

func TestDamagedCheckpoints(t *testing.T) {
	for name, harm := range damage {
		t.Run(name, func(t *testing.T) {
			s := &store{fail: rejectKey(8), lose: func(n int) bool { return n%3 == 0 }}
			url := newLoopback(t, s)
			path := tempCSV(t, 2050, every(10))
			if code, _, words := uploadTo(t, url, path); code != exitKey {
				t.Fatalf("the first run: exit code %d\n%s", code, words)
			}
			harm(t, path)
			s.mu.Lock()
			s.fail = nil
			s.mu.Unlock()
			code, out, words := uploadTo(t, url, path)
			if code != exitRejected {
				t.Fatalf("the second run: exit code %d\n%s", code, words)
			}
			if want := `"rows":2050,"accepted":1845,"rejected":205`; !strings.Contains(out, want) {
				t.Errorf("got %s, want %s", out, want)
			}
			s.check(t, 2050, every(10))
			lines := rejectedLines(t, path+".rejected.ndjson")
			for i := range 2050 {
				if every(10)(i) && lines[int64(i+2)] != 1 {
					t.Fatalf("line %d is listed %d times", i+2, lines[int64(i+2)])
				}
			}
			if len(lines) != 205 {
				t.Errorf("got %d rejected lines, want 205", len(lines))
			}
		})
	}
}

// A key follows from more than the rows: who knows the whole file and how it was sent cannot find the keys of its upload.
func TestKeysCannotBeGuessed(t *testing.T) {
	path := tempCSV(t, 300, none)
	seen := map[string]bool{}
	for range 2 {
		s := &store{}
		if code, _, words := uploadTo(t, newLoopback(t, s), path); code != exitOK {
			t.Fatalf("exit code %d\n%s", code, words)
		}
		if len(s.keys) != 3 {
			t.Fatalf("got %d requests, want 3", len(s.keys))
		}
		for key := range s.keys {
			if seen[key] {
				t.Error("two uploads of a file have a key in common")
			}
			seen[key] = true
		}
		must(t, os.Remove(path+".checkpoint"))
	}
}

// What would make other batches of the same rows is rejected while an upload is unfinished.
func TestResumeWithAnotherMind(t *testing.T) {
	interrupted := func(t *testing.T) (*store, string, string) {
		s := &store{fail: rejectKey(5)}
		url := newLoopback(t, s)
		path := tempCSV(t, 2000, none)
		if code, _, words := uploadTo(t, url, path); code != exitKey {
			t.Fatalf("exit code %d\n%s", code, words)
		}
		s.rest()
		s.mu.Lock()
		s.fail = nil
		s.mu.Unlock()
		return s, url, path
	}
	for name, tt := range map[string]struct {
		flags []string
		harm  func(t *testing.T, path string)
		want  string
	}{
		"batch size": {flags: []string{"--batch", "50"}, want: "had batches of 100 rows"},
		"mapping":    {flags: []string{"--set", "source=crm"}, want: "had another --map, --hash or --set"},
		"dataset":    {flags: []string{"--dataset", "autumn"}, want: "was for another --dataset"},
		"file":       {harm: addTo("", "1,purchase,z@example.com,1,EUR,z\n"), want: "the file has changed"},
		"old": {want: "more than 48 hours ago", harm: func(t *testing.T, path string) {
			data, err := os.ReadFile(path + ".checkpoint")
			must(t, err)
			old := fmt.Sprintf(`"time":%d`, time.Now().Add(-49*time.Hour).Unix())
			data = timePattern.ReplaceAll(data, []byte(old))
			must(t, os.WriteFile(path+".checkpoint", data, 0o600))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s, url, path := interrupted(t)
			if tt.harm != nil {
				tt.harm(t, path)
			}
			before := s.sent()
			code, _, words := uploadTo(t, url, path, tt.flags...)
			if code != exitUsage || !strings.Contains(words, tt.want) {
				t.Errorf("exit code %d, want %d and %q:\n%s", code, exitUsage, tt.want, words)
			}
			if s.sent() != before {
				t.Error("something was sent")
			}
		})
	}
	t.Run("another service", func(t *testing.T) {
		_, _, path := interrupted(t)
		code, _, words := uploadTo(t, newLoopback(t, &store{}), path)
		if code != exitUsage || !strings.Contains(words, "the interrupted upload went to") {
			t.Errorf("exit code %d\n%s", code, words)
		}
	})
	t.Run("restart", func(t *testing.T) {
		s, url, path := interrupted(t)
		if code, _, words := uploadTo(t, url, path, "--restart"); code != exitOK {
			t.Errorf("exit code %d\n%s", code, words)
		}
		s.check(t, 2000, none) // the keys are the same: what was stored is not stored again
	})
	t.Run("the other parallelism", func(t *testing.T) {
		s, url, path := interrupted(t)
		if code, _, words := uploadTo(t, url, path, "--parallel", "1"); code != exitOK {
			t.Errorf("exit code %d\n%s", code, words)
		}
		s.check(t, 2000, none)
	})
}

// rest returns when nothing has arrived for a while: requests that their sender gave up may still be on their way.
func (s *store) rest() {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for last, quiet := s.sent(), 0; quiet < 8; quiet++ {
		<-tick.C
		if n := s.sent(); n != last {
			last, quiet = n, 0
		}
	}
}

func TestAgainStoresTwice(t *testing.T) {
	s := &store{}
	url := newLoopback(t, s)
	path := tempCSV(t, 300, none)
	for i, flags := range [][]string{nil, nil, {"--again"}, nil} {
		if code, _, words := uploadTo(t, url, path, flags...); code != exitOK {
			t.Fatalf("run %d: exit code %d\n%s", i, code, words)
		}
	}
	for row, n := range s.stored {
		if n != 2 {
			t.Fatalf("row %s is stored %d times, want 2", row, n)
		}
	}
}

// An interruption from the keyboard has its own exit code, and the next run goes on.
func TestInterrupted(t *testing.T) {
	for _, at := range []int{1, 5} { // before the first entry, and after some, most likely
		ctx, cancel := context.WithCancel(t.Context())
		s := &store{}
		s.fail = func(n int, _ http.ResponseWriter) bool {
			if n == at {
				cancel()
			}
			return false
		}
		url := newLoopback(t, s)
		path := tempCSV(t, 3000, none)
		code, _, words := uploadWith(t, ctx, url, path)
		if code != exitInterrupted || !strings.Contains(words, "interrupted\nRun the same command again to continue.") {
			t.Fatalf("request %d: exit code %d\n%s", at, code, words)
		}
		if code, out, words := uploadTo(t, url, path); code != exitOK {
			t.Fatalf("request %d: exit code %d\n%s%s", at, code, out, words)
		}
		s.check(t, 3000, none)
	}
}

// The service's partial rejections are named by line, also where its answer lists only some of them.
func TestServiceRejectsRows(t *testing.T) {
	for _, truncated := range []bool{false, true} {
		url := newLoopback(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case strings.HasPrefix(r.URL.Path, "/v1/submissions/"):
				fmt.Fprint(w, `{"submission_id":"batch.1","events":[{"index":0},{"index":3}]}`)
			case r.Method == http.MethodPost:
				fmt.Fprintf(w, `{"submission_id":"batch.1","received_at":"2026-11-14T23:40:05Z","status":"RECEIVED","accepted":2,"rejected":2,"errors_truncated":%v,"errors":[`, truncated)
				fmt.Fprint(w, `{"index":1,"error_code":"TIMESTAMP_TOO_OLD","field":"/timestamp","message":"Too old.","hint":"Sooner."}`)
				if !truncated {
					fmt.Fprint(w, `,{"index":2,"error_code":"TIMESTAMP_TOO_OLD","field":"/timestamp","message":"Too old.","hint":"Sooner."}`)
				}
				fmt.Fprint(w, `]}`)
			}
		}))
		path := tempCSV(t, 4, none)
		code, out, words := uploadTo(t, url, path)
		if code != exitRejected || !strings.Contains(out, `"accepted":2,"rejected":2`) {
			t.Fatalf("exit code %d\n%s%s", code, out, words)
		}
		if lines := rejectedLines(t, path+".rejected.ndjson"); len(lines) != 2 || lines[3] != 1 || lines[4] != 1 {
			t.Errorf("truncated %v: got rejected lines %v, want 3 and 4", truncated, lines)
		}
	}
}

// An answer that does not add up ends the upload instead of losing a row.
func TestServiceThatMiscounts(t *testing.T) {
	url := newLoopback(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			fmt.Fprint(w, `{"submission_id":"batch.1","received_at":"2026-11-14T23:40:05Z","status":"RECEIVED","accepted":2,"rejected":1}`)
		}
	}))
	code, _, words := uploadTo(t, url, tempCSV(t, 4, none))
	if code != exitUnreachable || !strings.Contains(words, "counts 2 rows of a batch as rejected, but names 0") {
		t.Errorf("exit code %d\n%s", code, words)
	}
}

func TestRejectedRowsNeedARegularFile(t *testing.T) {
	path := tempCSV(t, 10, none)
	dir := t.TempDir()
	code, _, words := uploadTo(t, newLoopback(t, &store{}), path, "--rejected", dir)
	if _, err := os.Stat(dir); code != exitUsage || err != nil || !strings.Contains(words, "not a regular file") {
		t.Errorf("exit code %d, %v\n%s", code, err, words)
	}
}

// A file that has grown since it was uploaded is not sent a second time from the start.
func TestGrownFile(t *testing.T) {
	s := &store{}
	url := newLoopback(t, s)
	path := tempCSV(t, 300, none)
	if code, _, words := uploadTo(t, url, path); code != exitOK {
		t.Fatalf("exit code %d\n%s", code, words)
	}
	addTo("", "1794657600,purchase,z@example.com,1,EUR,z\n")(t, path)
	code, _, words := uploadTo(t, url, path)
	if code != exitUsage || !strings.Contains(words, "has grown since it was uploaded") {
		t.Errorf("exit code %d\n%s", code, words)
	}
	s.check(t, 300, none)
}

// A finished file that was only touched is not sent again, and a corrected one not a second time: rows that it still
// has would be stored twice. New rows under the old name are a new file.
func TestFinishedFileThatChanges(t *testing.T) {
	s := &store{}
	url := newLoopback(t, s)
	path := tempCSV(t, 1000, every(10))
	if code, _, words := uploadTo(t, url, path); code != exitRejected {
		t.Fatalf("exit code %d\n%s", code, words)
	}
	before := s.sent()
	must(t, os.Chtimes(path, time.Now(), time.Now().Add(time.Hour)))
	for _, flags := range [][]string{nil, {"--restart"}} {
		if code, out, words := uploadTo(t, url, path, flags...); code != exitRejected ||
			!strings.Contains(out, `"rows":1000,"accepted":900,"rejected":100`) {
			t.Errorf("a touched file, %v: exit code %d\n%s%s", flags, code, out, words)
		}
	}

	data, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, bytes.ReplaceAll(data, []byte("bought"), []byte("purchase")), 0o600))
	for _, flags := range [][]string{nil, {"--restart"}} {
		code, _, words := uploadTo(t, url, path, flags...)
		if code != exitUsage || !strings.Contains(words, "was uploaded before and has changed since") {
			t.Errorf("a corrected file, %v: exit code %d\n%s", flags, code, words)
		}
	}
	if s.sent() != before {
		t.Error("rows were sent a second time")
	}
	s.check(t, 1000, every(10))

	must(t, os.WriteFile(path, bytes.ReplaceAll(data, []byte("EUR,"), []byte("EUR,new")), 0o600))
	if code, out, words := uploadTo(t, url, path); code != exitRejected || !strings.Contains(out, `"accepted":900`) {
		t.Errorf("new rows: exit code %d\n%s%s", code, out, words)
	}
	if len(s.stored) != 1800 {
		t.Errorf("%d different rows are stored, want 1800", len(s.stored))
	}
	must(t, os.WriteFile(path, bytes.ReplaceAll(data, []byte("bought"), []byte("purchase")), 0o600))
	if code, _, words := uploadTo(t, url, path, "--again"); code != exitOK {
		t.Errorf("--again: exit code %d\n%s", code, words)
	}
}

// What is written must not destroy what is read.
func TestFilesThatAreOne(t *testing.T) {
	s := &store{}
	url := newLoopback(t, s)
	path := tempCSV(t, 10, none)
	data, err := os.ReadFile(path)
	must(t, err)
	link := path + ".link"
	must(t, os.Symlink(path, link))
	for _, flags := range [][]string{
		{"--rejected", path},
		{"--checkpoint", path},
		{"--rejected", link},
		{"--rejected", path + ".checkpoint"},
		{"--checkpoint", path + ".x", "--rejected", path + ".x"},
	} {
		code, _, words := uploadTo(t, url, path, flags...)
		if code != exitUsage || !strings.Contains(words, "are one file") {
			t.Errorf("%v: exit code %d\n%s", flags, code, words)
		}
		if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, data) {
			t.Fatalf("%v: the rows are damaged, %v", flags, err)
		}
	}
	if s.sent() != 0 {
		t.Error("something was sent")
	}
}

// A 400 of what is between stops the upload: it says nothing about the rows.
func TestForeignRejection(t *testing.T) {
	s := &store{fail: func(_ int, w http.ResponseWriter) bool {
		w.WriteHeader(400)
		io.WriteString(w, "<html>Request blocked.</html>")
		return true
	}}
	path := tempCSV(t, 10, none)
	url := newLoopback(t, s)
	code, _, words := uploadTo(t, url, path)
	if code != exitUnreachable || !strings.Contains(words, "Correct the cause") {
		t.Errorf("exit code %d\n%s", code, words)
	}
	s.mu.Lock()
	s.fail = nil
	s.mu.Unlock()
	if code, _, words := uploadTo(t, url, path); code != exitOK {
		t.Errorf("the second run: exit code %d\n%s", code, words)
	}
	s.check(t, 10, none)
}

func TestUploadFlagsThatCannotBe(t *testing.T) {
	path := tempCSV(t, 10, none)
	for _, args := range [][]string{{"--timeout", "0s"}, {"--give-up-after", "-1s"}, {"-", "--checkpoint", path + ".c"}} {
		if code, _, words := uploadTo(t, newLoopback(t, &store{}), path, args...); code != exitUsage {
			t.Errorf("%v: exit code %d\n%s", args, code, words)
		}
	}
}

// What is added while a file is read is not sent, and that is said.
func TestFileThatGrowsMeanwhile(t *testing.T) {
	path := tempCSV(t, 1000, none)
	s := &store{}
	s.fail = func(n int, _ http.ResponseWriter) bool {
		if n == 2 {
			addTo("", "1794657600,purchase,z@example.com,1,EUR,z\n")(t, path)
		}
		return false
	}
	code, out, words := uploadTo(t, newLoopback(t, s), path)
	if code != exitUsage || !strings.Contains(words, "the file changed while it was read") || !strings.Contains(out, `"accepted":1000`) {
		t.Errorf("exit code %d\n%s%s", code, out, words)
	}
	s.check(t, 1000, none)
}
