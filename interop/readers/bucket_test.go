package readers

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/iceberg-go/catalog/rest"
	_ "github.com/apache/iceberg-go/io/gocloud/s3" // reads s3:// addresses
	"github.com/apache/iceberg-go/table"

	"sluice/interop/gateway"
)

// startBucketSite is a site whose tables are in a bucket.
func startBucketSite(t *testing.T, args ...string) (*site, *gateway.Gateway) {
	t.Helper()
	g := startBucket(t)
	t.Setenv("AWS_ACCESS_KEY_ID", gateway.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", gateway.SecretKey)
	t.Setenv("SLUICE_LAKE", "s3://"+gateway.Bucket+"/lake")
	t.Setenv("SLUICE_S3_ENDPOINT", g.URL)
	t.Setenv("SLUICE_S3_REGION", gateway.Region)
	t.Setenv("SLUICE_S3_PATH_STYLE", "true")
	return startSite(t, args...), g
}

func startBucket(t *testing.T) *gateway.Gateway {
	t.Helper()
	program, err := gateway.Build("../../tools/s3")
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.Start(program, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Stop)
	return g
}

// bucketReader reads a table through the catalog, and its files from the bucket. Each of its reads is of one snapshot: the
// rows are as many as the snapshot says, each is there once, and none that was there before is gone.
type bucketReader struct {
	*rest.Catalog
	before map[string]int
	reads  int
}

func attach(t *testing.T, s *site, g *gateway.Gateway) *bucketReader {
	t.Helper()
	c, err := rest.NewCatalog(t.Context(), "sluice", s.Ops()+"/iceberg", rest.WithOAuthToken(s.token), rest.WithAdditionalProps(g.Properties()))
	if err != nil {
		t.Fatal(err)
	}
	return &bucketReader{Catalog: c}
}

func (b *bucketReader) read(ctx context.Context) error {
	tbl, err := b.LoadTable(ctx, table.Identifier{"sluice", "events"})
	if err != nil {
		return err
	}
	snapshot := tbl.CurrentSnapshot()
	if snapshot == nil {
		return nil
	}
	rows, err := scanTable(ctx, Events, tbl)
	if err != nil {
		return err
	}
	if want := snapshot.Summary.Properties["total-records"]; fmt.Sprint(len(rows)) != want {
		return fmt.Errorf("got %d rows, the snapshot says %s", len(rows), want)
	}
	now := map[string]int{}
	for _, r := range rows {
		id := fmt.Sprint(r["event_id"])
		if now[id]++; now[id] > 1 {
			return fmt.Errorf("event %s is there twice", id)
		}
	}
	for id := range b.before {
		if now[id] == 0 {
			return fmt.Errorf("event %s is gone", id)
		}
	}
	b.before, b.reads = now, b.reads+1
	return nil
}

// Ten readers and the writer work at once on tables in a bucket: eight programs that attach to the catalog with iceberg-go,
// one that exports, and one that looks submissions up. Compaction replaces files meanwhile. Nobody meets an error or half
// of a commit, and what was sent is there once in the end.
func TestTenReadersAndAWriter(t *testing.T) {
	const batch, batches, attached = 100, 60, 8
	s, g := startBucketSite(t, "--commit-every", "300ms", "--partitions", "2")
	var done atomic.Bool
	var wg sync.WaitGroup
	reader := func(name string, read func() error) {
		wg.Go(func() {
			for n := 0; !done.Load(); n++ {
				if err := read(); err != nil {
					t.Errorf("%s, read %d: %v", name, n, err)
					return
				}
			}
		})
	}
	var all []*bucketReader
	for i := range attached {
		b := attach(t, s, g)
		all = append(all, b)
		reader(fmt.Sprint("iceberg-go ", i), func() error { return b.read(t.Context()) })
	}
	reader("export", func() error {
		out, err := exec.CommandContext(t.Context(), s.bin, "export", "--data", s.dir, "--format", "csv").Output()
		if err == nil && len(out) == 0 {
			err = errors.New("no line")
		}
		return err
	})
	submissions := make(chan string, batches)
	id := ""
	reader("look-up", func() error {
		select {
		case id = <-submissions:
		case <-time.After(50 * time.Millisecond):
		}
		if id == "" {
			return nil
		}
		return s.AwaitProcessed(s.key, id)
	})
	for i := range batches {
		if i%10 == 0 {
			lines := s.send(10)
			submissions <- lines[0].SubmissionID
			for _, l := range lines {
				if l.Row != nil {
					s.events++
				}
			}
		}
		if err := s.post(mixture(i, batch)); err != nil {
			t.Fatal(err)
		}
		s.events += batch
		<-time.After(100 * time.Millisecond) // so that there are many commits
	}
	last := attach(t, s, g)
	for deadline := time.Now().Add(time.Minute); len(last.before) < s.events; {
		if err := last.read(t.Context()); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatalf("got %d rows in time, want %d", len(last.before), s.events)
		}
	}
	done.Store(true)
	wg.Wait()
	if len(last.before) != s.events {
		t.Errorf("got %d rows, want %d", len(last.before), s.events)
	}
	reads := 0
	for _, b := range all {
		reads += b.reads
		if b.reads < 2 {
			t.Errorf("a reader read %d times, want several", b.reads)
		}
	}
	out, err := exec.Command(s.bin, "lake", "check", "--data", s.dir).CombinedOutput()
	if err != nil {
		t.Errorf("lake check: %v: %s", err, out)
	}
	t.Logf("%d rows, %d reads by %d readers; %s", s.events, reads, attached, strings.TrimSpace(string(out)))
}
