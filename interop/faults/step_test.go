//go:build faults

package faults

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice/internal/servicetest"
)

// commitSteps are the steps of every commit to a table, but for its data files.
var commitSteps = []string{"manifest", "list", "metadata", "committed"}

// tables in the order of their commits.
var tables = []string{"rejections", "hours", "events"}

// quick makes commits as often as they can be.
var quick = []string{"--commit-every", "20ms"}

// dies waits for a server to end by the failpoint it was started with.
func (s *server) dies(t *testing.T, at string) {
	t.Helper()
	select {
	case <-s.Done():
	case <-time.After(30 * time.Second):
		t.Fatalf("it never came to %s:\n%s", at, s.Said())
	}
	s.Stop(syscall.SIGKILL)
	if status, ok := s.State().Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Fatalf("ended by %v, not by the failpoint %s:\n%s", s.State(), at, s.Said())
	}
}

// dieUnderLoad lets a server with a failpoint take load until it kills itself.
func dieUnderLoad(t *testing.T, dir string, l *ledger, at string) {
	t.Helper()
	s, err := begin(dir, launch{env: []string{"SLUICE_FAILPOINT=" + at}, args: quick})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop(syscall.SIGKILL) })
	eventually(t, 20*time.Second, "serving", func() error {
		if s.URL() == "" && !s.Ended() {
			return fmt.Errorf("no address:\n%s", s.Said())
		}
		return nil
	})
	var stop atomic.Bool
	senders := l.Load(s, servicetest.Kinds+1, &stop)
	s.dies(t, at)
	stop.Store(true)
	senders.Wait()
}

// Kill -9 at every named step of an append and of a commit, under load.
func TestKilledAtSteps(t *testing.T) {
	steps := []string{"append.publish", "append.stored", "keyed.publish", "keyed.stored"}
	for _, table := range tables {
		for _, step := range append([]string{"file"}, commitSteps...) {
			steps = append(steps, table+"."+step)
		}
	}
	dir := t.TempDir()
	s := start(t, dir, launch{})
	l := newLedger("shop", provisioned(t, dir, "shop"))
	s.Stop(syscall.SIGKILL)
	n := rounds(t, 3, 1)
	for _, step := range steps {
		for round := range n {
			dieUnderLoad(t, dir, l, fmt.Sprintf("%s:%d", step, 1+3*round))
		}
		s := start(t, dir, launch{args: quick})
		l.Settle(t, s, 30*time.Second)
		if s.Stop(syscall.SIGKILL); !brief() {
			l.check(t, dir)
		}
	}
	s = start(t, dir, launch{args: quick})
	l.Replay(t, s)
	l.Settle(t, s, 30*time.Second)
	l.check(t, dir)
	t.Logf("%d steps, %d kills at each", len(steps), n)
}

// many makes a server commit until each table has enough files to be worth compacting.
func many(t *testing.T, dir string, l *ledger) {
	t.Helper()
	s := start(t, dir, launch{args: quick})
	eventually(t, 60*time.Second, "files", func() error {
		l.Send(s, l.Request(servicetest.MixedBatch))
		for _, table := range tables {
			if files, err := dataFiles(dir, table); err != nil || len(files) < 18 {
				return fmt.Errorf("%s: %d files, %v", table, len(files), err)
			}
		}
		return nil
	})
	l.Settle(t, s, 30*time.Second)
	s.Stop(syscall.SIGTERM)
}

// upkeep lets a process do nothing but upkeep until it comes to a step and is killed there.
func upkeep(t *testing.T, dir string, at string, env ...string) {
	t.Helper()
	env = append(env, "SLUICE_FAILPOINT="+at, "SLUICE_FAILPOINT_UPKEEP=1", "SLUICE_FAILPOINT_NOLOADER=1")
	s, err := begin(dir, launch{env: env})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop(syscall.SIGKILL) })
	s.dies(t, at)
}

// compacted does all the compaction there is to do.
func compacted(t *testing.T, dir string) {
	t.Helper()
	s := start(t, dir, launch{env: []string{"SLUICE_FAILPOINT_UPKEEP=1", "SLUICE_FAILPOINT_NOLOADER=1"}})
	eventually(t, 30*time.Second, "compaction", func() error {
		for _, table := range tables {
			if files, err := dataFiles(dir, table); err != nil || len(files) >= 16 {
				return fmt.Errorf("%s: %d files, %v", table, len(files), err)
			}
		}
		return nil
	})
	s.Stop(syscall.SIGTERM)
}

// Kill -9 at every step of compaction, of expiry and of the sweep.
func TestKilledInUpkeep(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir, launch{})
	l := newLedger("shop", provisioned(t, dir, "shop"))
	s.Stop(syscall.SIGKILL)
	which := tables
	if brief() {
		which = tables[2:]
	}
	kills := 0
	kill := func(at string, env ...string) {
		upkeep(t, dir, at, env...)
		kills++
	}
	for i, table := range which {
		many(t, dir, l)
		kill(table + ".compact:1")
		for _, step := range commitSteps {
			kill(fmt.Sprintf("%s.compact:1,%s.%s:1", table, table, step))
		}
		compacted(t, dir)
		// Replaced files stay for readers for some minutes: an hour later they are expired, and swept.
		clock := filepath.Join(t.TempDir(), "clock")
		if err := os.WriteFile(clock, []byte(fmt.Sprint(3600*(i+1))), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, step := range []string{"expire:1", "expire:1,T.metadata:1", "expire:1,T.committed:1", "sweep:1", "remove:1", "remove:3"} {
			kill(table+"."+strings.ReplaceAll(step, "T.", table+"."), "SLUICE_FAILPOINT_CLOCK="+clock)
		}
		s := start(t, dir, launch{env: []string{"SLUICE_FAILPOINT_UPKEEP=1"}, args: quick})
		l.Settle(t, s, 30*time.Second)
		l.check(t, dir)
		s.Stop(syscall.SIGTERM)
	}
	t.Logf("%d kills", kills)
}

// Kill -9 of a service at each step of the sums of a day, one that is summed first and one that is summed again because more has
// come: no number is there twice at any time, and at the end all are those of the hours.
func TestKilledInSums(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir, launch{})
	l := newLedger("shop", provisioned(t, dir, "shop"))
	s.Stop(syscall.SIGKILL)
	clock := filepath.Join(t.TempDir(), "clock")
	if err := os.WriteFile(clock, []byte(fmt.Sprint(2*24*3600)), 0o600); err != nil { // today is over
		t.Fatal(err)
	}
	env := "SLUICE_FAILPOINT_CLOCK=" + clock
	kills := 0
	for round := range 2 {
		s := start(t, dir, launch{args: quick})
		for range 20 {
			l.Send(s, l.Request(servicetest.MixedBatch))
		}
		l.Settle(t, s, 30*time.Second)
		s.Stop(syscall.SIGTERM)
		before := numbersOf(t, dir, "days")
		for _, step := range append([]string{""}, commitSteps...) {
			at := "days.sum:1"
			if step != "" {
				at += ",days." + step + ":1"
			}
			upkeep(t, dir, at, env)
			kills++
			got, want := numbersOf(t, dir, "days"), before
			if step == "committed" {
				want = numbersOf(t, dir, "hours")
			}
			if !maps.Equal(got, want) {
				t.Errorf("round %d, killed at %s: got sums %v, want %v", round, at, got, want)
			}
		}
		s = start(t, dir, launch{env: []string{env, "SLUICE_FAILPOINT_UPKEEP=1", "SLUICE_FAILPOINT_NOLOADER=1"}})
		eventually(t, 30*time.Second, "sums", func() error {
			if got, want := numbersOf(t, dir, "days"), numbersOf(t, dir, "hours"); len(want) == 0 || !maps.Equal(got, want) {
				return fmt.Errorf("got %v, want %v", got, want)
			}
			return nil
		})
		s.Stop(syscall.SIGTERM)
	}
	l.check(t, dir)
	t.Logf("%d kills", kills)
}

// numbersOf are the numbers of the table of hours, or of days, which must have each once.
func numbersOf(t *testing.T, dir, table string) map[string]int64 {
	t.Helper()
	out := map[string]int64{}
	const name = "concat_ws(' ', data_set_id, kind, name, field)"
	query(t, dir, table, "select "+name+", sum(count)::bigint from t group by 1", func(name string, n int64) { out[name] = n })
	if table == "days" {
		query(t, dir, table, "select "+name+", count(*) from t group by day, 1 having count(*) > 1", func(name string, n int64) {
			t.Errorf("%s is there %d times", name, n)
		})
	}
	return out
}

// Kill -9 of an erasure at each of its steps, beside a server under load and with upkeep at work. Erased once more, the
// identifier is in no file, and nothing else is missing.
func TestKilledInErase(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir, launch{env: []string{"SLUICE_FAILPOINT_UPKEEP=1"}, args: quick})
	l := newLedger("shop", provisioned(t, dir, "shop"))
	steps := []string{"events.erase:1"}
	for _, step := range commitSteps {
		steps = append(steps, "events.erase:1,events."+step+":1")
	}
	steps = append(steps, "events.forget:1", "events.expire:1", "events.expire:2", "events.sweep:1", "events.remove:1", "erase.noted:1", "erase.deleted:1")
	if brief() {
		steps = append(steps[3:6:6], steps[len(steps)-2:]...)
	}
	for _, at := range steps {
		e := l.Send(s, l.Request(servicetest.Batch))
		if e.Status != http.StatusOK {
			t.Fatalf("status %d", e.Status)
		}
		l.Settle(t, s, 30*time.Second)
		mark := e.Marks[7]
		args := []string{"erase", "--partner-id", mark, "--data", dir, "--json", "--yes"}
		if out, err := sluice(t, []string{"SLUICE_FAILPOINT=" + at}, args...); err == nil {
			t.Fatalf("it never came to %s: %s", at, out)
		}
		out, err := sluice(t, nil, args...)
		if err != nil {
			t.Fatalf("after a kill at %s: %v", at, err)
		}
		e.Marks = append(e.Marks[:7:7], e.Marks[8:]...)
		if left := holding(t, dir, mark); left > 0 {
			t.Errorf("killed at %s and erased again (%s): still in %d files", at, out, left)
		}
	}
	l.Settle(t, s, 30*time.Second)
	l.check(t, dir)
	t.Logf("%d kills", len(steps))
}

// Kill -9 of the deletion of a dataset at each of its steps, in each table, beside a server with upkeep at work. The same
// command again deletes what is left: the dataset is in no file of any table, and nothing of another one is missing.
func TestKilledInDatasetDelete(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir, launch{env: []string{"SLUICE_FAILPOINT_UPKEEP=1"}, args: quick})
	l := newLedger("shop", provisioned(t, dir, "shop"))
	steps := []string{"delete.noted:1"}
	for _, table := range tables {
		steps = append(steps, table+".erase:1")
		for _, step := range commitSteps {
			steps = append(steps, table+".erase:1,"+table+"."+step+":1")
		}
		steps = append(steps, table+".forget:1", table+".expire:1", table+".remove:1")
	}
	if brief() {
		steps = []string{steps[0], "hours.erase:1,hours.metadata:1", "events.erase:1,events.committed:1"}
	}
	for i, at := range steps {
		id := fmt.Sprintf("gone-%d", i)
		gone := newLedger(id, provisioned(t, dir, id))
		for _, e := range []*servicetest.Entry{l.Send(s, l.Request(servicetest.Batch)), gone.Send(s, gone.Request(servicetest.MixedBatch))} {
			if e.Status != http.StatusOK {
				t.Fatalf("status %d", e.Status)
			}
		}
		gone.Settle(t, s, 30*time.Second)
		args := []string{"dataset", "delete", id, "--data", dir, "--json", "--yes"}
		if out, err := sluice(t, []string{"SLUICE_FAILPOINT=" + at}, args...); err == nil {
			t.Errorf("it never came to %s: %s", at, out)
		}
		if _, err := sluice(t, nil, args...); err != nil {
			t.Fatalf("after a kill at %s: %v", at, err)
		}
		files, err := filepath.Glob(filepath.Join(dir, "lake", "*", "data", "*", "*.parquet"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%d files, %v", len(files), err)
		}
		for _, file := range files {
			queryFiles(t, []string{file}, "select filename, count(*) from t where data_set_id = '"+id+"' group by 1", func(name string, n int64) {
				t.Errorf("killed at %s and deleted again: %d rows in %s", at, n, name)
			})
		}
	}
	l.Settle(t, s, 30*time.Second)
	l.check(t, dir)
	t.Logf("%d kills", len(steps))
}

// holding counts the Parquet files of the events table, listed or not, that hold a mark.
func holding(t *testing.T, dir, mark string) (n int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "lake", "events", "data", "*", "*.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	queryFiles(t, files, "select filename, count(*) from t where partner_id = '"+mark+"' group by 1", func(_ string, _ int64) { n++ })
	return n
}
