package bucket

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice/internal/enginetest"
	"sluice/internal/servicetest"
	s3 "sluice/interop/gateway"
	"sluice/interop/witness"
)

// truthAway is for how long the tables are away: longer than the alarm waits.
const truthAway = 40 * time.Second

// While the tables of one machine cannot be written, in a bucket or in a directory, everything that speaks of storage says that
// events wait; and with --max-backlog-age the service accepts no more.
func TestTruthWhileTablesAreAway(t *testing.T) {
	program := servicetest.Program{Path: buildOnce(t, sluice), Env: credentials}
	g := startGateway(t)
	t.Run("bucket", func(t *testing.T) {
		t.Parallel()
		proxy := newSpoiler(t, g)
		bear(t, program, []string{"--lake", "s3://" + bucket + "/lake", "--s3-endpoint", proxy.URL, "--s3-region", s3.Region, "--s3-path-style"},
			[]string{filepath.Join(g.dir, "lake", "events", "metadata")}, func(away bool) error {
				proxy.Set(func(*http.Request) string {
					if away {
						return "reset"
					}
					return ""
				})
				return nil
			})
	})
	t.Run("directory", func(t *testing.T) {
		t.Parallel()
		tables := t.TempDir()
		metadata := filepath.Join(tables, "events", "metadata")
		// A file where the directory of the metadata was: nothing can be read or written.
		bear(t, program, []string{"--lake", "file://" + tables}, []string{metadata, metadata + ".away"}, func(away bool) error {
			if away {
				return errors.Join(os.Rename(metadata, metadata+".away"), os.WriteFile(metadata, nil, 0o600))
			}
			return errors.Join(os.Remove(metadata), os.Rename(metadata+".away", metadata))
		})
	})
}

// bear takes the tables of a service away under load, and lets a witness listen to what it says.
func bear(t *testing.T, program servicetest.Program, tables, metadata []string, take func(away bool) error) {
	t.Helper()
	const commit, backlog = time.Second, 20 * time.Second
	data := filepath.Join(t.TempDir(), "data")
	key, _, err := program.CreateDataset(t.Context(), data, "shop")
	if err != nil {
		t.Fatal(err)
	}
	server, err := servicetest.Launch{
		Program: program, Data: data, Within: time.Minute, Args: append([]string{"--commit-every", commit.String(), "--max-backlog-age", backlog.String()}, tables...),
	}.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop(syscall.SIGKILL) })
	b := &badBucket{t: t, server: server, ledger: &servicetest.Ledger{ID: "shop", Key: key}}
	b.ledger.Settle(t, server, time.Minute)
	w, done := witness.Watch(t, witness.Service{
		Nodes: func() []*servicetest.Server { return []*servicetest.Server{server} },
		Status: func(ctx context.Context) (string, bool) {
			out, err := program.Run(ctx, "cluster", "status", "--json", "--data", data)
			return out, err == nil
		},
		JetStream: enginetest.Attach(t, data), Table: metadata, Commit: commit, Backlog: backlog,
	})
	defer done()
	var stop atomic.Bool
	senders := b.ledger.Load(b, 2, &stop)
	defer func() { stop.Store(true); senders.Wait() }()
	w.Begin()
	if err := take(true); err != nil {
		t.Fatal(err)
	}
	<-time.After(truthAway) // the fault itself
	t.Log("signs: " + w.Signs())
	if err := take(false); err != nil {
		t.Fatal(err)
	}
	b.ledger.Settle(t, server, 2*time.Minute)
}
