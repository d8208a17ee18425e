package bucket

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice/internal/lake"
	"sluice/internal/servicetest"
	s3 "sluice/interop/gateway"
)

// away is how long the bucket does not answer: 15 s, or what BUCKET_AWAY says, such as 150s.
func away(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("BUCKET_AWAY")
	if text == "" {
		return 15 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("BUCKET_AWAY: %v", err)
	}
	return d
}

// alarmAfter is the backlog at which SluiceLoadBehind is raised. A shorter absence raises no alarm.
const alarmAfter = 2 * time.Minute

// alarmed says whether the console shows the alarm.
func (b *badBucket) alarmed() error {
	answer, err := http.Get(b.server.Ops() + "/")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	page, err := io.ReadAll(answer.Body)
	if err == nil && !strings.Contains(string(page), "before they are stored") {
		return errors.New("the console shows no alarm")
	}
	return err
}

// badBucket is a service whose tables are in a bucket that can be spoiled, and senders that go on all the time.
type badBucket struct {
	t      *testing.T
	proxy  *s3.Spoiler
	server *servicetest.Server
	ledger *servicetest.Ledger
}

// Call sends a request and then waits: a steady load of the size of a small shop is enough here.
func (b *badBucket) Call(method, key, path, body string, headers ...string) (servicetest.Answer, error) {
	defer func() { <-time.After(50 * time.Millisecond) }()
	return b.server.Call(method, key, path, body, headers...)
}

// metric reads a metric without labels.
func (b *badBucket) metric(name string) (value float64, err error) {
	answer, err := http.Get(b.server.Ops() + "/metrics")
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			_, err := fmt.Sscan(text, &value)
			return value, err
		}
	}
	return 0, fmt.Errorf("there is no metric %s", name)
}

// peak is the largest memory of the server so far, in MiB.
func (b *badBucket) peak() (mib int) {
	b.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.server.PID()))
	if err != nil {
		b.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if kib, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			if _, err := fmt.Sscan(kib, &mib); err != nil {
				b.t.Fatal(err)
			}
		}
	}
	return mib >> 10
}

// accepts makes sure that more requests are accepted from now on.
func (b *badBucket) accepts(what string) {
	b.t.Helper()
	before, _ := b.ledger.Acked()
	servicetest.Eventually(b.t, 30*time.Second, "accepting while the bucket is "+what, func() error {
		if now, _ := b.ledger.Acked(); now < before+10 {
			return fmt.Errorf("%d requests more", now-before)
		}
		return nil
	})
}

func startBad(t *testing.T, g *gateway) *badBucket {
	t.Helper()
	b := &badBucket{t: t, proxy: newSpoiler(t, g)}
	program := servicetest.Program{Path: buildOnce(t, sluice)}
	data := filepath.Join(t.TempDir(), "data")
	key, _, err := program.CreateDataset(t.Context(), data, "shop")
	if err != nil {
		t.Fatal(err)
	}
	b.ledger = &servicetest.Ledger{ID: "shop", Key: key}
	b.server, err = servicetest.Launch{
		Program: program, Data: data, Env: credentials, Within: time.Minute,
		Args: []string{"--commit-every", "500ms", "--lake", "s3://" + bucket + "/lake", "--s3-endpoint", b.proxy.URL, "--s3-region", s3.Region, "--s3-path-style"},
	}.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.server.Stop(syscall.SIGKILL) })
	return b
}

// A bucket that is slow, that fails one request in twenty, and that does not answer for a while: accepting goes on from
// the stream, loading catches up, the log and the metric of the alarm say what is wrong, memory stays bounded, nothing
// is lost and nothing is stored twice.
func TestBadBucket(t *testing.T) {
	g := startGateway(t)
	b := startBad(t, g)
	var stop atomic.Bool
	senders := b.ledger.Load(b, 2, &stop)
	defer func() { stop.Store(true); senders.Wait() }()
	caughtUp := func(what string) {
		t.Helper()
		b.ledger.Settle(t, b.server, 90*time.Second)
		t.Logf("%s: loading has caught up", what)
	}
	caughtUp("before")
	before := b.peak()

	b.proxy.Set(func(*http.Request) string { return "slow" })
	b.accepts("slow")
	caughtUp("slow")

	random := rand.New(rand.NewPCG(1, 2))
	failed := 0
	b.proxy.Set(func(*http.Request) string {
		if random.IntN(20) > 0 {
			return ""
		}
		failed++
		return []string{"500", "503", "reset", "answer lost"}[random.IntN(4)]
	})
	b.accepts("flaky")
	servicetest.Eventually(t, time.Minute, "failed requests", func() error {
		b.proxy.Mu.Lock()
		defer b.proxy.Mu.Unlock()
		if failed < 3 {
			return fmt.Errorf("%d requests failed, want 3", failed)
		}
		return nil
	})
	caughtUp("flaky")

	gone := time.Now()
	b.proxy.Set(func(*http.Request) string { return "reset" })
	length := away(t)
	servicetest.Eventually(t, length+2*time.Minute, "a backlog that the service reports", func() error {
		waited, err := b.metric("sluice_load_backlog_seconds") // SluiceLoadBehind is made of it
		switch {
		case err != nil:
			return err
		case waited < length.Seconds()*0.8:
			return fmt.Errorf("the backlog is %.0f s after %v", waited, time.Since(gone))
		case !strings.Contains(b.server.Said(), "loading stopped"):
			return fmt.Errorf("the log says nothing after %v", time.Since(gone))
		case length > alarmAfter:
			return b.alarmed()
		}
		return nil
	})
	b.accepts("away")
	if err := b.server.Ready(); err != nil {
		t.Errorf("got %v, want a service that is ready while its bucket is away", err)
	}
	b.proxy.Set(nil)
	caughtUp("away")
	stop.Store(true)
	senders.Wait()
	caughtUp("at the end")

	// Arbitrary: several times what the events of this test are in memory, and far less than a leak for each try.
	if after := b.peak(); after > before+256 {
		t.Errorf("got a peak of %d MiB, %d before the bucket was bad", after, before)
	}
	answers := b.ledger.Statuses()
	for status, n := range answers {
		if status == http.StatusServiceUnavailable && n <= answers[http.StatusOK]/20 {
			continue // beside other tests, the disk of the stream may hang for seconds
		}
		if status != http.StatusOK && n > 0 {
			t.Errorf("got %d answers %d, want all requests accepted; the server said\n%s", n, status, b.server.Said())
		}
	}
	found := map[string]int{}
	for row, err := range openLake(t, open(t, g.url)).Scan(t.Context(), lake.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		found[row.PartnerID]++
	}
	b.ledger.Check(t, found)
}
