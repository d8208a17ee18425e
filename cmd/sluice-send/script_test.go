package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/rogpeppe/go-internal/testscript"

	"sluice/client"
)

func newLoopback(tb testing.TB, h http.Handler) string {
	s := httptest.NewServer(h)
	tb.Cleanup(s.Close)
	return s.URL
}

// TestScripts runs the commands as a sender would, against a real service where they need one.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"server": scriptServer, "exits": scriptExits, "times": scriptTimes, "pack": scriptPack, "line100MB": scriptLine,
			"latin": scriptLatin, "windows": scriptWindows, "posts": scriptPosts, "counted": scriptCounted,
		},
	})
}

// tb lets a script stand in for a test.
type tb struct {
	testing.TB
	ts *testscript.TestScript
}

func (t tb) Helper()                           {}
func (t tb) Fatal(args ...any)                 { t.ts.Fatalf("%s", fmt.Sprint(args...)) }
func (t tb) Fatalf(format string, args ...any) { t.ts.Fatalf(format, args...) }
func (t tb) Cleanup(f func())                  { t.ts.Defer(f) }
func (t tb) TempDir() string                   { return t.ts.MkAbs(".server") }

// server DATASET: starts a service and points the environment at it.
func scriptServer(ts *testscript.TestScript, neg bool, args []string) {
	s := startServer(tb{ts: ts}, args[0])
	ts.Setenv("SLUICE_URL", s.url())
	ts.Setenv("SLUICE_API_KEY", s.key)
}

// exits CODE PROGRAM ARGS…: runs the program and wants this exit code.
func scriptExits(ts *testscript.TestScript, neg bool, args []string) {
	want, err := strconv.Atoi(args[0])
	if err != nil || neg {
		ts.Fatalf("usage: exits CODE PROGRAM ARGS…")
	}
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		e, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = e.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// posts FILE: posts the file as a batch, without any check of ours.
func scriptPosts(ts *testscript.TestScript, _ bool, args []string) {
	r, err := http.NewRequest("POST", ts.Getenv("SLUICE_URL")+"/v1/events/batch", strings.NewReader(ts.ReadFile(args[0])))
	ts.Check(err)
	r.Header.Set("Authorization", "Bearer "+ts.Getenv("SLUICE_API_KEY"))
	a, err := http.DefaultClient.Do(r)
	ts.Check(err)
	a.Body.Close()
	if a.StatusCode != http.StatusOK {
		ts.Fatalf("status %d", a.StatusCode)
	}
}

// counted N: waits until the numbers of the dataset hold so many received events.
func scriptCounted(ts *testscript.TestScript, _ bool, args []string) {
	c, err := client.New(ts.Getenv("SLUICE_URL"), ts.Getenv("SLUICE_API_KEY"), client.Options{})
	ts.Check(err)
	deadline := time.Now().Add(30 * time.Second)
	for {
		s, err := c.Stats(context.Background(), "")
		ts.Check(err)
		if fmt.Sprint(s.Received) == args[0] {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%d events are counted, want %s", s.Received, args[0])
		}
		time.Sleep(50 * time.Millisecond) // between two questions
	}
}

// times FILE…: replaces NOW by the time, OLD by one that is too old, LATE by one that is late.
func scriptTimes(ts *testscript.TestScript, _ bool, args []string) {
	now := time.Now().Unix()
	day := int64(24 * 60 * 60)
	r := strings.NewReplacer("NOW", fmt.Sprint(now-60), "OLD", fmt.Sprint(now-31*day), "LATE", fmt.Sprint(now-8*day), "AHEAD", fmt.Sprint(now+day))
	for _, name := range args {
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(r.Replace(ts.ReadFile(name))), 0o600))
	}
}

// pack FILE: writes FILE.gz and FILE.zst.
func scriptPack(ts *testscript.TestScript, _ bool, args []string) {
	data := []byte(ts.ReadFile(args[0]))
	gz, err := os.Create(ts.MkAbs(args[0] + ".gz"))
	ts.Check(err)
	w := gzip.NewWriter(gz)
	_, err = w.Write(data)
	ts.Check(errors.Join(err, w.Close(), gz.Close()))
	zs, err := os.Create(ts.MkAbs(args[0] + ".zst"))
	ts.Check(err)
	z, err := zstd.NewWriter(zs)
	ts.Check(err)
	_, err = z.Write(data)
	ts.Check(errors.Join(err, z.Close(), zs.Close()))
}

// latin FILE: replaces LATIN by bytes that are not UTF-8.
func scriptLatin(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.ReplaceAll(ts.ReadFile(args[0]), "LATIN", "caf\xe9")), 0o600))
}

// windows FILE: gives the file a byte order mark and CR LF.
func scriptWindows(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte("\ufeff"+strings.ReplaceAll(ts.ReadFile(args[0]), "\n", "\r\n")), 0o600))
}

// line100MB FILE: adds a line of 100 MB to the end of FILE.
func scriptLine(ts *testscript.TestScript, _ bool, args []string) {
	f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_WRONLY|os.O_APPEND, 0)
	ts.Check(err)
	chunk := []byte(strings.Repeat("x", 1<<20))
	for range 100 {
		_, err := f.Write(chunk)
		ts.Check(err)
	}
	_, err = f.WriteString("\n")
	ts.Check(errors.Join(err, f.Close()))
}
