package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice/internal/enginetest"
	"sluice/internal/servicetest"
)

// get returns the status of a page of the operators' listener.
func get(url string) (int, string) {
	resp, err := http.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body)
}

// A node that is started before its NATS servers waits, alive and not ready, and serves when they are there.
func TestNodeWaitsForNATS(t *testing.T) {
	srv := enginetest.Start(t, "")
	nats := address(srv)
	srv.Kill()
	begun, err := servicetest.Launch{Program: self, Data: t.TempDir(), Args: []string{"--nats", nats}}.Begin()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { begun.Stop(syscall.SIGKILL) })
	s := &server{Server: begun}
	waiting := regexp.MustCompile(`msg=waiting ops=(\S+)`)
	eventually(t, 20*time.Second, "a line about waiting", func() error {
		if m := waiting.FindStringSubmatch(s.said()); m != nil {
			s.ops = "http://" + m[1]
			return nil
		}
		return fmt.Errorf("got %q", s.said())
	})
	if code, _ := get(s.ops + "/livez"); code != 200 {
		t.Errorf("livez: got %d, want 200", code)
	}
	if code, body := get(s.ops + "/readyz"); code != 503 {
		t.Errorf("readyz: got %d %s, want 503", code, body)
	}
	srv.Restart()
	eventually(t, 30*time.Second, "readiness", func() error {
		if code, body := get(s.ops + "/readyz"); code != 200 {
			return fmt.Errorf("got %d %s", code, body)
		}
		return nil
	})
}

// A node that stops says so first, answers what still comes, and leaves its leases to the next one at once.
func TestNodeDrains(t *testing.T) {
	srv := enginetest.Start(t, "")
	dir, nats := t.TempDir(), address(srv)
	tables := "file://" + filepath.Join(dir, "tables")
	first := start(t, filepath.Join(dir, "one"), "--nats", nats, "--lake", tables, "--drain-wait", "2s", "--commit-every", "100ms")
	loader := func() string {
		st := statusOf(t, "--nats", nats)
		if len(st.Leases) == 0 {
			return ""
		}
		return st.Leases[0].Node + st.Leases[0].Renewed.String()
	}
	eventually(t, 10*time.Second, "a loader", func() error {
		if loader() == "" {
			return fmt.Errorf("none")
		}
		return nil
	})
	second := start(t, filepath.Join(dir, "two"), "--nats", nats, "--lake", tables, "--commit-every", "100ms")
	key, _ := provisioned(t, dir, "shop", "--nats", nats)
	eventually(t, 10*time.Second, "the key", func() error {
		if a, err := first.post(key, "/v1/events", marked("shop", "before")); err != nil || a.status != 200 {
			return fmt.Errorf("got %d %v", a.status, err)
		}
		return nil
	})
	if err := syscall.Kill(first.PID(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, 5*time.Second, "the end of readiness", func() error {
		if code, body := get(first.ops + "/readyz"); code != 503 {
			return fmt.Errorf("got %d %s", code, body)
		}
		return nil
	})
	if a, err := first.post(key, "/v1/events", marked("shop", "draining")); err != nil || a.status != 200 {
		t.Errorf("a request while it drains: got %d %v, want 200", a.status, err)
	}
	<-first.Done()
	stopped := time.Now()
	if a, err := second.post(key, "/v1/events", marked("shop", "after")); err != nil || a.status != 200 {
		t.Fatalf("the other node: got %d %v", a.status, err)
	}
	sluice(t, "export", "--nats", nats, "--lake", tables)
	if took := time.Since(stopped); took > 7*time.Second { // a lease that is not released lasts for 9 s
		t.Errorf("the next loader took over after %v", took)
	}
	second.stop(syscall.SIGTERM)
}

// A rate limit holds for all nodes together: three of them take what one would, within a third for what the first
// seconds and the burst of each add.
func TestRateLimitOfCluster(t *testing.T) {
	srv := enginetest.Start(t, "")
	dir, nats := t.TempDir(), address(srv)
	tables := "file://" + filepath.Join(dir, "tables")
	var nodes []*server
	for i := range 3 {
		nodes = append(nodes, start(t, filepath.Join(dir, fmt.Sprint(i)), "--nats", nats, "--lake", tables))
	}
	key, _ := provisioned(t, dir, "shop", "--nats", nats, "--requests-per-second", "20")
	eventually(t, 15*time.Second, "three nodes that know each other and the key", func() error {
		for i, n := range nodes {
			if _, page := get(n.ops + "/metrics"); !regexp.MustCompile(`(?m)^sluice_cluster_nodes 3$`).MatchString(page) {
				return fmt.Errorf("node %d does not see 3 nodes", i)
			}
			if a, err := n.post(key, "/v1/events", marked("shop", "x")); err != nil || a.status != 200 && a.status != 429 {
				return fmt.Errorf("node %d: got %d %v", i, a.status, err)
			}
		}
		return nil
	})
	const span = 6 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), span)
	defer cancel()
	var taken atomic.Int64
	var wg sync.WaitGroup
	for _, n := range nodes {
		for range 2 {
			wg.Go(func() {
				for ctx.Err() == nil {
					if a, err := n.post(key, "/v1/events", marked("shop", "x")); err == nil && a.status == 200 {
						taken.Add(1)
					}
					select {
					case <-ctx.Done():
					case <-time.After(5 * time.Millisecond):
					}
				}
			})
		}
	}
	wg.Wait()
	rate := float64(taken.Load()) / span.Seconds()
	t.Logf("three nodes took %.1f requests/s of a limit of 20/s", rate)
	if rate < 16 || rate > 27 {
		t.Errorf("got %.1f requests/s, want about 20", rate)
	}
	for _, n := range nodes {
		n.stop(syscall.SIGTERM)
	}
}
