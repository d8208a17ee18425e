package bucket

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/enginetest"
	"sluice/internal/lake"
	"sluice/internal/servicetest"
	s3 "sluice/interop/gateway"
)

// absent is a service whose S3 server can be stopped and started.
type absent struct {
	t       *testing.T
	store   *s3.Gateway
	program servicetest.Program
	data    string
	args    []string
	ledger  *servicetest.Ledger
}

// newAbsent starts the S3 server and makes a dataset. nats are the arguments for an external engine, if there is one.
func newAbsent(t *testing.T, nats ...string) *absent {
	t.Helper()
	store, err := s3.Start(buildOnce(t, program), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Stop)
	a := &absent{t: t, store: store, program: servicetest.Program{Path: buildOnce(t, sluice), Env: credentials}, data: filepath.Join(t.TempDir(), "data")}
	key, _, err := a.program.CreateDataset(t.Context(), a.data, "shop", nats...)
	if err != nil {
		t.Fatal(err)
	}
	a.ledger = &servicetest.Ledger{ID: "shop", Key: key}
	a.args = append([]string{
		"--commit-every", "500ms", "--lake", "s3://" + bucket + "/lake", "--s3-endpoint", store.URL, "--s3-region", s3.Region, "--s3-path-style",
	}, nats...)
	return a
}

func (a *absent) launch(more ...string) servicetest.Launch {
	return servicetest.Launch{Program: a.program, Data: a.data, Args: append(a.args[:len(a.args):len(a.args)], more...)}
}

func (a *absent) start() *servicetest.Server {
	a.t.Helper()
	s, err := a.launch().Start()
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { s.Stop(syscall.SIGKILL) })
	return s
}

func (a *absent) send(s *servicetest.Server, n int) {
	a.t.Helper()
	for i := range n {
		if e := a.ledger.Send(s, a.ledger.Request(i%3)); e.Status != http.StatusOK && e.Status != http.StatusBadRequest {
			a.t.Fatalf("got %d, want a request that is accepted without the bucket", e.Status)
		}
	}
}

// check holds the tables against what was sent.
func (a *absent) check() {
	a.t.Helper()
	found := map[string]int{}
	for row, err := range openLake(a.t, open(a.t, a.store.URL)).Scan(a.t.Context(), lake.Query{}) {
		if err != nil {
			a.t.Fatal(err)
		}
		found[row.PartnerID]++
	}
	a.ledger.Check(a.t, found)
}

func status(t *testing.T, address string) (code int, body string) {
	t.Helper()
	r, err := servicetest.Client.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

const catalogTable = "/iceberg/v1/namespaces/sluice/tables/events"

// says makes sure of what a node says whose tables are not open: it takes events, and everything that needs the tables answers
// 503, or shows that they are not there.
func (a *absent) says(s *servicetest.Server) {
	t := a.t
	t.Helper()
	if err := s.Ready(); err != nil {
		t.Errorf("got %v, want a node that is ready", err)
	}
	if code, body := status(t, s.Ops()+catalogTable); code != http.StatusServiceUnavailable {
		t.Errorf("the catalog: got %d %s, want 503", code, body)
	}
	for page, want := range map[string]string{"/": "not open", "/system": "Cannot load since", "/metrics": "sluice_load_backlog_seconds", "/lookup?id=018f4d3c-0000-7000-8000-000000000000": "did not work"} {
		servicetest.Eventually(t, 20*time.Second, page, func() error { // the first question to the bucket has to fail before anybody can say so
			if code, body := status(t, s.Ops()+page); code != http.StatusOK || !strings.Contains(body, want) {
				return fmt.Errorf("got %d without %q", code, want)
			}
			return nil
		})
	}
	for _, e := range a.ledger.Entries() {
		if e.ID == "" {
			continue
		}
		if answer, err := s.Call(http.MethodGet, a.ledger.Key, "/v1/submissions/"+e.ID, ""); err != nil || answer.Status != http.StatusOK {
			t.Errorf("a submission that the stream holds: got %d %s, %v, want 200", answer.Status, answer.Body, err)
		}
		break
	}
	servicetest.Eventually(t, 20*time.Second, "the log", func() error {
		if !strings.Contains(s.Said(), "the tables are not open") {
			return fmt.Errorf("it says nothing of the tables:\n%s", s.Said())
		}
		return nil
	})
}

// A node starts while its bucket is away, and takes events. When the bucket answers it stores them, each once.
func TestStartWhileTheBucketIsAway(t *testing.T) {
	engines := map[string]func(*testing.T) []string{
		"embedded": func(*testing.T) []string { return nil },
		"external": func(t *testing.T) []string {
			u, err := url.Parse(enginetest.Start(t, "").URL())
			if err != nil {
				t.Fatal(err)
			}
			u.User = url.User(enginetest.Token)
			return []string{"--nats", u.String()}
		},
	}
	for name, engine := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it waits most of the time
			a := newAbsent(t, engine(t)...)
			for _, known := range []bool{false, true} { // the second time there are tables
				a.store.Stop()
				s := a.start()
				a.send(s, 20)
				a.says(s)
				if known { // another start while it is away
					s.Stop(syscall.SIGTERM)
					s = a.start()
					a.send(s, 20)
				}
				if err := a.store.Restart(); err != nil {
					t.Fatal(err)
				}
				a.ledger.Settle(t, s, time.Minute)
				if code, body := status(t, s.Ops()+catalogTable); code != http.StatusOK {
					t.Errorf("the catalog: got %d %s, want 200", code, body)
				}
				a.check()
				if code := s.Stop(syscall.SIGTERM); code != 0 {
					t.Errorf("got exit code %d, want 0", code)
				}
			}
		})
	}
}

// What will not change by itself ends the start, and says what is wrong.
func TestStartWithAWrongBucket(t *testing.T) {
	a := newAbsent(t)
	for name, c := range map[string]struct {
		args []string
		env  []string
		want string
	}{
		"no bucket":   {args: []string{"--lake", "s3://another/lake"}, want: "bucket does not exist"},
		"credentials": {env: []string{"AWS_ACCESS_KEY_ID=somebody"}, want: "access key"},
	} {
		l := a.launch(c.args...)
		l.Env, l.Unready = c.env, true
		s, err := l.Start()
		if err == nil {
			s.Stop(syscall.SIGKILL)
			t.Errorf("%s: got a node that starts, want an error", name)
			continue
		}
		if !strings.Contains(strings.ToLower(err.Error()), c.want) {
			t.Errorf("%s: got %v, want %q in it", name, err, c.want)
		}
	}
}
