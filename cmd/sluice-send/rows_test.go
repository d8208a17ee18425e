package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
)

// TestRejectedRowsAcrossRuns holds that --rejected-rows writes each rejected row once, below one header, however often
// the upload is interrupted; and that a checkpoint of a version that knew neither codes nor submissions is continued.
func TestRejectedRowsAcrossRuns(t *testing.T) {
	for _, old := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		s := &store{}
		s.fail = func(n int, _ http.ResponseWriter) bool {
			if n == 9 {
				cancel()
			}
			return false
		}
		url := newLoopback(t, s)
		path := tempCSV(t, 3000, every(7))
		if code, _, words := uploadWith(t, ctx, url, path, "--rejected-rows"); code != exitInterrupted {
			t.Fatalf("exit code %d\n%s", code, words)
		}
		if old {
			forgetMembers(t, path+".checkpoint", "codes", "submissions", "rows_bytes")
		}
		code, out, words := uploadTo(t, url, path, "--rejected-rows")
		if code != exitRejected {
			t.Fatalf("exit code %d\n%s%s", code, out, words)
		}
		s.check(t, 3000, every(7))
		data, err := os.ReadFile(path + ".rejected.csv")
		must(t, err)
		seen := map[string]int{}
		for line := range strings.Lines(string(data)) {
			seen[line]++
		}
		for line, n := range seen {
			if n != 1 {
				t.Errorf("old %v: written %d times: %s", old, n, line)
			}
		}
		if want := 3000/7 + 1; !old && len(seen) != want {
			t.Errorf("%d lines, want %d", len(seen), want)
		}
		var sum summary
		must(t, json.Unmarshal([]byte(out), &sum))
		if f := sum.Files[0]; f.Codes["INVALID_EVENT_TYPE"] == 0 || len(f.Submissions) == 0 || f.Rejected != 3000/7 {
			t.Errorf("old %v: got %s", old, out)
		}
		if info, err := os.Stat(path + ".rejected.csv"); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("got %v, %v, want a file that others cannot read", info.Mode(), err)
		}
	}
}

// forgetMembers takes members out of every line of a checkpoint.
func forgetMembers(t *testing.T, path string, names ...string) {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	var out strings.Builder
	for line := range strings.Lines(string(data)) {
		var members map[string]json.RawMessage
		must(t, json.Unmarshal([]byte(line), &members))
		for _, name := range names {
			delete(members, name)
		}
		text, err := json.Marshal(members)
		must(t, err)
		out.Write(append(text, '\n'))
	}
	must(t, os.WriteFile(path, []byte(out.String()), 0o600))
}
