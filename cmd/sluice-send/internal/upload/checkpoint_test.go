package upload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/client"
	"sluice/cmd/sluice-send/internal/input"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// takesAll is a service that accepts every event, and counts requests.
type takesAll struct{ requests atomic.Int64 }

func (s *takesAll) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.requests.Add(1)
	var events []json.RawMessage
	if body, err := io.ReadAll(r.Body); err != nil || json.Unmarshal(body, &events) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	fmt.Fprintf(w, `{"submission_id":"batch.1","received_at":"2026-11-14T23:40:05Z","status":"RECEIVED","accepted":%d,"rejected":0}`, len(events))
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.Serve(l) }() // ends with Close
	t.Cleanup(func() { _ = s.Close() })
	return "http://" + l.Addr().String()
}

func orders(t *testing.T, n int) string {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("timestamp,event_type,email\n")
	for i := range n {
		fmt.Fprintf(&b, "%d,sign_up,buyer%d@example.com\n", time.Now().Unix(), i)
	}
	path := filepath.Join(t.TempDir(), "orders.csv")
	must(t, os.WriteFile(path, b.Bytes(), 0o600))
	return path
}

var columns = input.Options{Hash: []string{"email=email_sha256"}, Dataset: "spring"}

func TestTwoUploadersOfOneFile(t *testing.T) {
	path := orders(t, 30)
	c, err := createCheckpoint(path+".checkpoint", header{Version: 1})
	must(t, err)
	defer c.Close()
	service := &takesAll{}
	cl, err := client.New(serve(t, service), "test-key", client.Options{Compression: client.Plain})
	must(t, err)
	o := &Options{Input: columns, Client: cl, Clock: time.Now(), Now: time.Now, BatchRows: 10, Parallel: 1, Note: t.Logf}
	if _, err := o.File(t.Context(), path); err == nil || !strings.Contains(err.Error(), "another upload of this file is running") {
		t.Errorf("got %v, want that another upload runs", err)
	}
	if n := service.requests.Load(); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

// A checkpoint that cannot be written ends the upload: what is not recorded should not be sent.
func TestCheckpointThatCannotBeWritten(t *testing.T) {
	service := &takesAll{}
	path := orders(t, 2000)
	in, err := columns.Open(path, nil)
	must(t, err)
	defer in.Close()
	memory, err := createCheckpoint(path+".checkpoint", header{Version: 1})
	must(t, err)
	memory.Close()
	c, err := client.New(serve(t, service), "test-key", client.Options{Compression: client.Plain})
	must(t, err)
	j := &job{
		o: &Options{Client: c, Parallel: 2, Now: time.Now}, in: in, header: header{StartedAt: time.Now().Unix()},
		journal: &journal{checkpoint: memory, report: appendFile{path: path + ".rejected.ndjson"}},
		cutter:  &input.Cutter{Rows: in.Rows, MaxRows: 10, MaxBytes: 1 << 20},
	}
	if err := j.run(t.Context()); err == nil || !strings.Contains(err.Error(), "write the checkpoint") {
		t.Errorf("got %v", err)
	}
	if n := service.requests.Load(); n >= 200 {
		t.Errorf("%d of 200 batches were sent", n)
	}
}

// A checkpoint that cannot be made ends the upload before anything is sent.
func TestCheckpointThatCannotBeMade(t *testing.T) {
	service := &takesAll{}
	cl, err := client.New(serve(t, service), "test-key", client.Options{Compression: client.Plain})
	must(t, err)
	o := &Options{
		Input: columns, Client: cl, Clock: time.Now(), Now: time.Now, BatchRows: 10, Parallel: 1, Note: t.Logf,
		Checkpoint: filepath.Join(t.TempDir(), "missing", "checkpoint"),
	}
	_, err = o.File(t.Context(), orders(t, 30))
	if _, ok := errors.AsType[*UsageError](err); !ok || service.requests.Load() != 0 {
		t.Errorf("got %v after %d requests, want a *UsageError before the first", err, service.requests.Load())
	}
}
