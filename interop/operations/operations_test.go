// Package operations does what senders and operators do to a service, in random order, and holds it against a model. A test of
// one operation says nothing about two: an erasure and then a restore, a move and then a kill.
package operations

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"sluice/internal/enginetest"
	"sluice/internal/servicetest"
	"sluice/interop/gateway"
)

func TestMain(m *testing.M) { os.Exit(enginetest.Main(m)) }

// found are the seeds of sequences that once went wrong.
var found = []uint64{}

// steps is how many operations a sequence has, of those that found something to do.
const steps = 24

// operations are all that a sequence is made of, with how often each comes.
var operations = []struct {
	often int
	do    func(*world)
}{
	{8, (*world).sendSome},
	{5, (*world).replay},
	{4, (*world).killUnderLoad},
	{4, (*world).erase},
	{2, (*world).eraseEverybody},
	{2, (*world).createDataset},
	{2, (*world).changeDataset},
	{2, (*world).keepDataset},
	{2, (*world).deleteDataset},
	{2, (*world).changeKeys},
	{2, (*world).stopServer},
	{2, (*world).restart},
	{2, (*world).moveDirectory},
	{1, (*world).addPartition},
	{2, (*world).nextDay},
	{4, (*world).backUp},
	{4, (*world).restore},
	{4, (*world).move},
	{2, (*world).copyTables},
	{2, (*world).checkNow},
}

// setting reads a variable of the test.
func setting[T any](t *testing.T, name string, otherwise T, parse func(string) (T, error)) T {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	v, err := parse(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return v
}

// TestOperations runs sequences for OPERATIONS_TIME (a minute), from SEED on (the time). One that fails says its seed: add it to
// found, and it is run first from then on.
func TestOperations(t *testing.T) {
	last := setting(t, "OPERATIONS_TIME", time.Minute, time.ParseDuration)
	seed := setting(t, "SEED", uint64(time.Now().Unix()), func(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) })
	program, err := servicetest.Build("../..", t.TempDir(), "-tags", "failpoint")
	if err != nil {
		t.Fatal(err)
	}
	server, err := gateway.Build("../../tools/s3")
	if err != nil {
		t.Fatal(err)
	}
	bucket, err := gateway.Start(server, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bucket.Stop)
	for _, s := range found {
		t.Run(fmt.Sprint("found-", s), func(t *testing.T) { sequence(t, program, bucket, s) })
	}
	for begun := time.Now(); time.Since(begun) < last && !t.Failed(); seed++ {
		t.Run(fmt.Sprint("seed-", seed), func(t *testing.T) { sequence(t, program, bucket, seed) })
	}
}

// sequence makes one service, does operations to it, and checks it at the end.
func sequence(t *testing.T, program servicetest.Program, bucket *gateway.Gateway, seed uint64) {
	w := newWorld(t, program, bucket, seed)
	defer func() {
		if t.Failed() {
			t.Logf("seed %d:\n%s", seed, w.told())
			if w.server != nil {
				t.Logf("the server said:\n%s", w.server.Said())
			}
			return
		}
		t.Logf("seed %d: %d operations, %d events", seed, len(w.history), len(w.events))
	}()
	var all []func(*world)
	for _, o := range operations {
		for range o.often {
			all = append(all, o.do)
		}
	}
	w.createDataset()
	for done := 0; done < steps; {
		before := len(w.history)
		if pick(w, all)(w); len(w.history) > before {
			done++
		}
	}
	w.check()
}
