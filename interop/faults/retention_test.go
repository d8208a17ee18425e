//go:build faults

package faults

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/enginetest"
	"sluice/internal/servicetest"
)

// aged is a service that has received an event on each of twelve days.
type aged struct {
	*testing.T
	env  []string
	args []string // of every command
	dir  string
}

const agedDays = 12

func newAged(t *testing.T, args ...string) *aged {
	dir := t.TempDir()
	clock := filepath.Join(dir, "clock")
	a := &aged{T: t, dir: dir, env: []string{"SLUICE_FAILPOINT_UPKEEP=1", "SLUICE_FAILPOINT_CLOCK=" + clock}, args: args}
	l := newLedger("shop", provisioned(t, filepath.Join(dir, "one"), "shop", args...))
	s := a.serve("one")
	for day := 1 - agedDays; day <= 0; day++ {
		if err := os.WriteFile(clock, []byte(strconv.Itoa(day*24*60*60)), 0o600); err != nil {
			t.Fatal(err)
		}
		eventually(t, 10*time.Second, "an event on its day", func() error {
			e := l.Request(servicetest.Single)
			e.Body = l.Event(e.Marks[0], -time.Duration(day)*24*time.Hour)
			if l.Send(s, e); e.Status != http.StatusOK || !strings.Contains(e.Receipt, time.Now().UTC().AddDate(0, 0, day).Format(time.DateOnly)) {
				return fmt.Errorf("got %d %s", e.Status, e.Receipt)
			}
			return nil
		})
	}
	l.Settle(t, s, time.Minute)
	if code := s.Stop(syscall.SIGTERM); code != 0 {
		t.Fatalf("got exit code %d:\n%s", code, s.Said())
	}
	return a
}

func (a *aged) serve(name string, args ...string) *server {
	return start(a.T, filepath.Join(a.dir, name), launch{env: a.env, args: append(append([]string{"--commit-every", "200ms"}, a.args...), args...)})
}

// run is a command that must work.
func (a *aged) run(args ...string) string {
	a.Helper()
	out, err := sluice(a.T, nil, append(append(args, "--data", filepath.Join(a.dir, "one")), a.args...)...)
	if err != nil {
		a.Fatal(err)
	}
	return out
}

// days is how many days the stored events have.
func (a *aged) days() int {
	a.Helper()
	days := map[string]bool{}
	for line := range strings.Lines(a.run("export", "--format", "ndjson")) {
		_, at, _ := strings.Cut(line, `"received_at":"`)
		days[at[:10]] = true
	}
	return len(days)
}

// held waits until a node says how many days of events retention holds back.
func (a *aged) held(s *server, want int) {
	a.Helper()
	eventually(a.T, 20*time.Second, "the days that are held back", func() error {
		if got := s.metric(a.T, `sluice_lake_retention_held_days{table="events"}`); int(got) != want {
			return fmt.Errorf("got %v, want %d", got, want)
		}
		return nil
	})
}

// A server that is started with a much shorter retention drops nothing before somebody confirms it.
func TestShorterRetentionIsHeld(t *testing.T) {
	a := newAged(t)
	s := a.serve("one", "--table-retention", "3d")
	a.held(s, agedDays-4)
	if got := a.days(); got != agedDays {
		t.Errorf("got %d days, want %d", got, agedDays)
	}
	eventually(t, 20*time.Second, "the alarm", func() error {
		if !strings.Contains(s.Said(), "alarm=SluiceRetentionHeld") {
			return fmt.Errorf("got:\n%s", s.Said())
		}
		return nil
	})
	if _, err := sluice(t, nil, "lake", "retain", "--data", filepath.Join(a.dir, "one")); err == nil || !strings.Contains(err.Error(), "--yes") {
		t.Errorf("got %v, want that it needs --yes", err)
	}
	if out, want := a.run("lake", "retain", "--dry-run"), fmt.Sprintf("events: %d rows of %d days", agedDays-4, agedDays-4); !strings.Contains(out, want) || a.days() != agedDays {
		t.Errorf("got %q, want %q and all days", out, want)
	}
	a.run("lake", "retain", "--yes")
	if got := a.days(); got != 4 {
		t.Errorf("got %d days, want 4", got)
	}
	a.held(s, 0)
}

// A node of a cluster has no retention of its own: with another flag it stops, without one it takes what is recorded. A
// shorter one, which sluice cluster set records, drops nothing before somebody confirms it.
func TestRetentionOfACluster(t *testing.T) {
	nats := strings.Replace(enginetest.Start(t, "max_payload: 8MB").URL(), "nats://", "nats://"+enginetest.Token+"@", 1)
	a := newAged(t, "--nats", nats, "--lake", "file://"+filepath.Join(t.TempDir(), "tables"))
	one := a.serve("one")
	three, err := begin(filepath.Join(a.dir, "three"), launch{env: a.env, args: append([]string{"--table-retention", "3d"}, a.args...)})
	if err != nil {
		t.Fatal(err)
	}
	defer three.Stop(syscall.SIGKILL)
	eventually(t, 30*time.Second, "its end", func() error {
		if said := three.Said(); !three.Ended() || !strings.Contains(said, "table retention is 400d in the cluster and 3d here") || !strings.Contains(said, "sluice cluster set") {
			return fmt.Errorf("ended %v, got:\n%s", three.Ended(), said)
		}
		return nil
	})
	a.run("cluster", "set", "--table-retention", "3d")
	two := a.serve("two")
	a.held(one, agedDays-4)
	a.held(two, agedDays-4)
	if got := a.days(); got != agedDays {
		t.Errorf("got %d days, want %d", got, agedDays)
	}
	a.run("cluster", "set", "--table-retention", "3d", "--yes")
	a.held(one, 0)
	a.held(two, 0)
	if got := a.days(); got != 4 {
		t.Errorf("got %d days, want 4", got)
	}
}
