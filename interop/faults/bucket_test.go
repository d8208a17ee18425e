//go:build faults

package faults

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice/interop/gateway"
)

// place is tables in a bucket: how the program is told where they are, and where their files are on this disk.
type place struct {
	args, env []string
	dir       string
}

func startBucket(t *testing.T) *place {
	t.Helper()
	path, err := gateway.Build("../../tools/s3")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Dir(path)) })
	g, err := gateway.Start(path, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Stop)
	return &place{
		args: []string{"--lake", "s3://" + gateway.Bucket + "/lake", "--s3-endpoint", g.URL, "--s3-region", gateway.Region, "--s3-path-style"},
		env:  []string{"AWS_ACCESS_KEY_ID=" + gateway.AccessKey, "AWS_SECRET_ACCESS_KEY=" + gateway.SecretKey},
		dir:  g.Dir,
	}
}

// run runs a command on the tables.
func (p *place) run(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := sluice(t, p.env, append(append(args, "--data", dir), p.args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// check holds the tables in the bucket against the ledger, and has the program read every file that they list.
func (p *place) check(t *testing.T, dir string, l *ledger) {
	t.Helper()
	files := func(table string) (out []string) {
		for _, name := range strings.Fields(p.run(t, dir, "lake", "files", table)) {
			out = append(out, filepath.Join(p.dir, strings.TrimPrefix(name, "s3://"+gateway.Bucket+"/")))
		}
		return out
	}
	found, counted := map[string]int{}, 0
	queryFiles(t, files("events"), "select partner_id, count(*) from t where data_set_id = '"+l.ID+"' group by 1",
		func(mark string, n int64) { found[mark] = int(n) })
	queryFiles(t, files("rejections"), "select '', sum(events)::bigint from t where data_set_id = '"+l.ID+"'",
		func(_ string, n int64) { counted = int(n) })
	l.Check(t, found)
	l.checkRejected(t, counted)
	counts := 0
	queryFiles(t, files("hours"), "select '', sum(count)::bigint from t where kind = 'events' and field = 'accepted' and data_set_id = '"+l.ID+"'",
		func(_ string, n int64) { counts = int(n) })
	if counts != len(found) {
		t.Errorf("%d events are counted in hours, want the %d that are stored", counts, len(found))
	}
	p.run(t, dir, "lake", "check")
}

// Kill -9 of the process that commits to a bucket, at a random moment under load, while counts wait in memory: nothing is
// lost, nothing is doubled, in any table, and no listed file is missing.
func TestKilledCommitter(t *testing.T) {
	dir, p := t.TempDir(), startBucket(t)
	how := launch{
		args: append([]string{"--commit-every", "100ms", "--partitions", "3"}, p.args...),
		env:  append([]string{"SLUICE_FAILPOINT_SETTLE="}, p.env...),
	}
	s := start(t, dir, how)
	l := newLedger("shop", provisioned(t, dir, "shop"))
	n := rounds(t, 20, 4)
	for range n {
		var stop atomic.Bool
		senders := l.Load(s, 4, &stop)
		pause(time.Duration(300+rand.IntN(1500)) * time.Millisecond)
		s.Stop(syscall.SIGKILL)
		stop.Store(true)
		senders.Wait()
		s = start(t, dir, how)
	}
	l.Settle(t, s, 60*time.Second)
	p.run(t, dir, "backup", filepath.Join(t.TempDir(), "backup")) // it waits for all partitions and all tables
	p.check(t, dir, l)
	l.Settle(t, s, 60*time.Second)
	if code := s.Stop(syscall.SIGTERM); code != 0 { // a clean stop brings the counts
		t.Errorf("stopped by SIGTERM: exit code %d", code)
	}
	p.check(t, dir, l)
	t.Logf("%d kills, answers %v", n, l.Statuses())
}
