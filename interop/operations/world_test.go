package operations

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/servicetest"
	"sluice/interop/gateway"
)

// world is one service, what its model says of it, and what was made of it on the way.
type world struct {
	*testing.T
	seed    uint64
	random  *rand.Rand
	program servicetest.Program
	bucket  *gateway.Gateway
	root    string // everything is below it
	clock   string // file with the seconds by which the clock of the service is ahead
	ahead   time.Duration

	data   string              // the data directory
	tables string              // URL of the tables; "" for those in the data directory
	nats   string              // address of the NATS server; "" for an embedded engine
	server *servicetest.Server // nil while it is stopped
	*model

	branch  int // a restore begins a new one
	backups []savedBackup
	made    int      // names, values and keys that were given out
	history []string // operations so far
}

// savedBackup is a backup with the model of when it was made.
type savedBackup struct {
	dir, tables string
	branch      int
	model       *model
	erasures    []erasure // since then, on the same branch
}

func newWorld(t *testing.T, program servicetest.Program, bucket *gateway.Gateway, seed uint64) *world {
	t.Helper()
	w := &world{
		T: t, seed: seed, random: rand.New(rand.NewPCG(seed, seed)), bucket: bucket, root: t.TempDir(), model: newModel(),
	}
	w.clock = filepath.Join(w.root, "clock")
	w.setClock()
	w.data = w.path("data")
	w.program = servicetest.Program{Path: program.Path, Env: []string{
		"SLUICE_FAILPOINT_CLOCK=" + w.clock, "SLUICE_FAILPOINT_UPKEEP=1", "SLUICE_FAILPOINT_SETTLE=1",
		"AWS_ACCESS_KEY_ID=" + gateway.AccessKey, "AWS_SECRET_ACCESS_KEY=" + gateway.SecretKey,
		"SLUICE_S3_ENDPOINT=" + bucket.URL, "SLUICE_S3_REGION=" + gateway.Region, "SLUICE_S3_PATH_STYLE=true",
	}}
	t.Cleanup(func() { w.stop(syscall.SIGKILL) })
	return w
}

// number is one that was not given out before.
func (w *world) number() int {
	w.made++
	return w.made
}

// path is a place that is not there yet.
func (w *world) path(name string) string {
	return filepath.Join(w.root, fmt.Sprintf("%s-%d", name, w.number()))
}

func (w *world) now() time.Time { return time.Now().Add(w.ahead) }

// setClock tells the service how far its clock is ahead.
func (w *world) setClock() {
	w.Helper()
	w.must(os.WriteFile(w.clock+".new", []byte(strconv.Itoa(int(w.ahead.Seconds()))), 0o600))
	w.must(os.Rename(w.clock+".new", w.clock))
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// sluice runs a command on the service and returns what it printed.
func (w *world) sluice(args ...string) string {
	w.Helper()
	out, err := w.program.Run(w.Context(), append(args, w.where()...)...)
	w.must(err)
	return out
}

// killed runs a command on the service and kills it on its way, if it has not ended by then.
func (w *world) killed(args ...string) {
	ctx, cancel := context.WithTimeout(w.Context(), time.Duration(20+w.random.IntN(400))*time.Millisecond)
	defer cancel()
	_, _ = w.program.Run(ctx, append(args, w.where()...)...)
}

// where are the flags that say where the service is.
func (w *world) where() []string {
	if w.nats == "" {
		return []string{"--data", w.data}
	}
	return []string{"--data", w.data, "--nats", w.nats, "--lake", w.tables}
}

// loads makes sure that somebody loads what is in the stream, before a command that waits for it: without a server the command
// does so itself, but not in a cluster.
func (w *world) loads() {
	w.Helper()
	if w.nats != "" {
		w.start()
	}
}

// start serves, if nobody does.
func (w *world) start(args ...string) {
	w.Helper()
	if w.server != nil {
		return
	}
	args = append(args, "--commit-every", "200ms", "--table-retention", fmt.Sprint(retention))
	args = append(args, w.where()[2:]...)
	var err error
	w.server, err = servicetest.Launch{Program: w.program, Data: w.data, Args: args, Within: time.Minute}.Start()
	w.must(err)
}

// stop ends the server, if there is one.
func (w *world) stop(signal syscall.Signal) {
	w.Helper()
	if w.server == nil {
		return
	}
	code := w.server.Stop(signal)
	if signal == syscall.SIGTERM && code != 0 {
		w.Errorf("got exit code %d after SIGTERM; it said:\n%s", code, w.server.Said())
	}
	w.server = nil
}

// pick chooses one of several.
func pick[T any](w *world, some []T) T { return some[w.random.IntN(len(some))] }

// chance is true in one of n cases.
func (w *world) chance(n int) bool { return w.random.IntN(n) == 0 }

// note says what an operation does, for whoever reads a failure.
func (w *world) note(format string, args ...any) {
	w.history = append(w.history, fmt.Sprintf(format, args...))
}

// told is the history as text.
func (w *world) told() string { return "  " + strings.Join(w.history, "\n  ") }
