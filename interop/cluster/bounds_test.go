//go:build faults

package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice/internal/servicetest"
	s3 "sluice/interop/gateway"
)

// What bounds a cluster: how long events may wait and rows are retained, what a bucket deletes, and what a backup holds. The
// nodes have --max-backlog-age, the tables have rows of many days, and the bucket keeps versions.
func TestBounds(t *testing.T) {
	n, _ := rounds(t)
	w := prepare(t, plan{login: byToken, versions: true, backlog: 30 * time.Second}, "-tags", "failpoint")
	w.age(t, 4+dropped*n)
	w.endure(t, []fault{
		{"bucket away for longer than the backlog may be old", false, outlastBacklog},
		{"retention that would drop more days than have passed", false, holdRetention},
		{"erasure in a bucket that keeps versions", false, eraseVersions},
		{"restore of a stream that ends before its tables", false, restoreOlder},
	})
}

// dropped is how many days a round of retention drops: more than the two that need no confirmation.
const dropped = 4

// age runs a node whose clock is set so that it receives an event on each of so many days, up to today, and then starts
// the cluster.
func (w *world) age(t *testing.T, days int) {
	t.Helper()
	env, set := newClock(t)
	w.sites[0].env = []string{env}
	set((1 - days) * 24 * 3600)
	w.startNode(0)
	key, _, err := w.program.CreateDataset(t.Context(), w.operator(), "aged", w.flags...)
	if err != nil {
		t.Fatal(err)
	}
	for day := 1 - days; day <= 0; day++ {
		set(day * 24 * 3600)
		servicetest.Eventually(t, 30*time.Second, "an event on its day", func() error {
			at := time.Now().UTC().AddDate(0, 0, day)
			a, err := w.node(0).Call(http.MethodPost, key, "/v1/events", signUp("aged", somebody(), at.Add(-time.Hour)))
			if err == nil && (a.Status != http.StatusOK || !strings.Contains(string(a.Body), at.Format(time.DateOnly))) {
				err = fmt.Errorf("got %d %s", a.Status, a.Body)
			}
			return err
		})
	}
	if got := w.days(t); got != days {
		t.Fatalf("got rows of %d days, want %d", got, days)
	}
	w.node(0).Stop(syscall.SIGTERM)
	w.sites[0].env = nil
	w.startNodes()
}

// days is on how many days the rows of the aged dataset were received.
func (w *world) days(t *testing.T) int {
	t.Helper()
	found := map[string]bool{}
	for line := range strings.Lines(w.run(t, "export", "--dataset", "aged")) {
		_, at, _ := strings.Cut(line, `"received_at":"`)
		found[at[:10]] = true
	}
	return len(found)
}

// outlastBacklog takes the bucket away for longer than nodes accept events that nobody stores. Every node stops
// accepting and says why, and accepts again once the backlog is stored.
func outlastBacklog(t *testing.T, w *world, l *ledger) {
	begun := time.Now()
	w.spoiler.Set(func(*http.Request) string { return "reset" })
	defer w.spoiler.Set(nil)
	for i := range w.nodes {
		servicetest.Eventually(t, w.backlog+30*time.Second, "a node that accepts nothing", func() error {
			e := l.add(fmt.Sprint("b", time.Now().UnixNano()), i, false)
			if got := w.try(l, e, i); got != http.StatusServiceUnavailable || !w.says(i, "/readyz", 503, "waits") {
				return fmt.Errorf("node %d: got %d", i, got)
			}
			return nil
		})
		t.Logf("node %d accepted nothing after %v", i, time.Since(begun).Round(time.Second))
	}
	before, bucket := l.count(), "/"+s3.Bucket+"/lake/"
	w.alarmed(t, "SluiceNoLoader", true, 20*time.Second)
	for i := range w.nodes {
		if !w.says(i, "/", 200, "has not been able to load since") || !w.says(i, "/", 200, bucket) {
			t.Errorf("the console of node %d does not name the bucket", i)
		}
	}
	w.complains(t, bucket)
	time.Sleep(10 * time.Second) // the fault itself
	if got := l.count(); got != before {
		t.Errorf("got %d events acknowledged, want none while the backlog is too old", got-before)
	}
	w.spoiler.Set(nil)
	after := w.served(t, l, 30*time.Second)
	t.Logf("every node accepted events %v after the bucket was back", after.Round(time.Millisecond))
	w.alarmed(t, "SluiceNoLoader", false, 30*time.Second)
}

// holdRetention lets the cluster retain fewer days, by mistake. A node with a flag for that does not start. All days
// stay, and every node says so, until somebody confirms it.
func holdRetention(t *testing.T, w *world, _ *ledger) {
	upkeep := func(env ...string) {
		for _, at := range w.sites {
			at.env = env
		}
		w.roll()
	}
	upkeep("SLUICE_FAILPOINT_UPKEEP=1") // retention runs without pause, not every five minutes
	defer upkeep()
	have := w.days(t)
	retention := fmt.Sprint(have-dropped-1, "d") // and today
	w.doesNotStart(t, "in the cluster and "+retention+" here", "--table-retention", retention)
	w.run(t, "cluster", "set", "--table-retention", retention)
	w.alarmed(t, "SluiceRetentionHeld", true, 60*time.Second)
	if got := w.days(t); got != have {
		t.Errorf("got rows of %d days, want %d", got, have)
	}
	w.run(t, "cluster", "set", "--table-retention", retention, "--yes")
	w.alarmed(t, "SluiceRetentionHeld", false, 60*time.Second)
	if got := w.days(t); got != have-dropped {
		t.Errorf("got rows of %d days, want %d", got, have-dropped)
	}
}

// eraseVersions erases a person's events from tables in a bucket that keeps what is deleted. The command says so.
func eraseVersions(t *testing.T, w *world, _ *ledger) {
	for i := range w.nodes {
		if !strings.Contains(w.node(i).Said(), "keeps versions") {
			t.Errorf("node %d does not warn", i)
		}
	}
	person := somebody()
	w.storedByEach(t, w.key, signUp("shop", person, time.Now()))
	before, err := w.bucket.Kept()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"erase", "--email-sha256", person, "--yes", "--json", "--data", w.operator()}
	out, err := w.program.Run(t.Context(), slices.Concat(args, w.flags)...)
	var report struct {
		Rows     int
		Versions bool `json:"bucket_keeps_versions"`
	}
	exit, _ := errors.AsType[*exec.ExitError](err)
	if exit == nil || exit.ExitCode() != 4 || !strings.Contains(err.Error(), "not from the bucket") ||
		json.Unmarshal([]byte(out), &report) != nil || report.Rows != nodes || !report.Versions {
		t.Errorf("got %v, %s; want code 4, %d rows, and that the bucket keeps versions", err, out, nodes)
	}
	after, err := w.bucket.Kept()
	if err != nil || after <= before {
		t.Errorf("got %d versions and %d before, %v: the test shows nothing", after, before, err)
	}
}

// restoreOlder loses all NATS servers and restores a backup that is older than the tables. The command says where stream
// and tables end, the nodes say it once at most, none of them takes a frame for lost, and nothing is stored twice.
func restoreOlder(t *testing.T, w *world, l *ledger) {
	backup := filepath.Join(t.TempDir(), "backup")
	w.run(t, "backup", backup)
	before := l.count()
	servicetest.Eventually(t, 60*time.Second, "events that are not in the backup", func() error {
		if got := l.count(); got < before+200 {
			return fmt.Errorf("got %d", got-before)
		}
		return nil
	})
	l.gate.Lock() // what is only in the stream would be lost
	unlock := sync.OnceFunc(l.gate.Unlock)
	defer unlock()
	w.replay(t, l, 1) // the servers that come know no idempotency key
	w.exported(t)     // waits until everything is stored
	for i := range w.nodes {
		w.node(i).Stop(syscall.SIGTERM)
	}
	for _, s := range w.servers {
		s.Kill()
	}
	for _, s := range w.servers {
		s.Replace()
	}
	begun := time.Now()
	const ends = "the stream ends before the tables do"
	servicetest.Eventually(t, time.Minute, "a restore", func() error {
		cmd := exec.CommandContext(t.Context(), w.program.Path, slices.Concat([]string{"restore", backup}, w.flags)...)
		cmd.Env = append(os.Environ(), w.program.Env...)
		out, err := cmd.CombinedOutput()
		if got := strings.Count(string(out), ends); err == nil && got != partitions {
			t.Errorf("got %s, want for each partition that %s", out, ends)
		}
		return err
	})
	for i := range w.nodes {
		w.startNode(i)
	}
	t.Logf("the cluster was restored and ran after %v", time.Since(begun).Round(time.Second))
	told := func(i int) int { return strings.Count(w.node(i).Said(), ends) }
	for i := range w.nodes {
		if got := told(i); got > partitions {
			t.Errorf("node %d said %d times that %s, want once for each partition at most", i, got, ends)
		}
	}
	unlock()
	for i := range w.nodes {
		w.processed(t, l, i)
	}
	w.roll()
	for i := range w.nodes {
		w.processed(t, l, i)
		if got := told(i); got > 0 {
			t.Errorf("node %d said %d times after a restart that %s, want never", i, got, ends)
		}
		for _, alarm := range []string{"SluiceDamagedFrames", "SluiceSequenceGap"} {
			if w.says(i, "/metrics", 200, `sluice_alarm{alarm="`+alarm+`",dataset=""} 1`) {
				t.Errorf("node %d has the alarm %s, and no frame is lost", i, alarm)
			}
		}
	}
}
