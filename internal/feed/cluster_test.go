package feed

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/event"
	"sluice/internal/engine"
	"sluice/internal/enginetest"
	"sluice/internal/stream"
	"sluice/internal/submission"
)

// A follower that changes the node with every request gets each row once, in the same order as anybody else, on a cluster of three
// NATS servers with three partitions, while the leader of a partition is killed and comes back.
func TestFollowerOnACluster(t *testing.T) {
	servers := enginetest.StartCluster(t, 3)
	o := engine.Options{URL: servers.URL(), Token: enginetest.Token, Replicas: 3}
	awaitCluster(t, o)
	so := stream.Options{Partitions: 3, AckTimeout: 900 * time.Millisecond}
	nodes := []*site{openSite(t, o, so), openSite(t, o, so)}

	stop := make(chan struct{})
	var acknowledged atomic.Int64
	done := make(chan map[string]bool)
	go func() { done <- sendThroughFaults(t, nodes[0], stop, &acknowledged) }()

	cursor := Earliest
	var got []string
	follow := func(until func() bool) {
		t.Helper()
		end := time.Now().Add(90 * time.Second)
		for i := 0; ; i++ {
			p := nodes[i%2].get("all", "/feed/v1/events?purpose=measurement&limit=97&wait=100ms&cursor="+cursor)
			switch p.status {
			case 200:
				got, cursor = append(got, p.rows...), p.Cursor
			case 503: // no leader at the moment: the same cursor again
			default:
				t.Fatalf("got %d %s", p.status, p.text)
			}
			if until() && (p.status == 200 && p.CaughtUp) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("not in time: %d rows, %d submissions acknowledged, last answer %d", len(got), acknowledged.Load(), p.status)
			}
		}
	}
	follow(func() bool { return acknowledged.Load() > 60 })
	leader := killLeader(t, servers)
	n := acknowledged.Load()
	follow(func() bool { return acknowledged.Load() > n+60 })
	leader.Restart()
	n = acknowledged.Load()
	follow(func() bool { return acknowledged.Load() > n+60 })
	close(stop)
	promised := <-done
	follow(func() bool { return true })

	seen := map[string]int{}
	for _, row := range got {
		if seen[row]++; seen[row] > 1 {
			t.Errorf("row %s came %d times", row, seen[row])
		}
	}
	for row := range promised {
		if seen[row] == 0 {
			t.Errorf("row %s was acknowledged and did not come", row)
		}
	}
	again, _ := openSite(t, o, so).all("purpose=measurement&limit=1000", Earliest)
	if !slices.Equal(again, got) {
		t.Errorf("read again from the beginning: got %d rows, want the same %d in the same order", len(again), len(got))
	}
}

// awaitCluster waits for the servers to have found each other.
func awaitCluster(t *testing.T, o engine.Options) {
	t.Helper()
	for end := time.Now().Add(60 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		e, err := engine.Open(ctx, o)
		if err == nil {
			_, err = e.Bucket(ctx, engine.StreamEnds)
			_ = e.Close()
		}
		cancel()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("no cluster in time: %v", err)
		}
	}
}

// sendThroughFaults appends submissions of two rows until stop, and returns the rows of those that were acknowledged.
func sendThroughFaults(t *testing.T, s *site, stop chan struct{}, acknowledged *atomic.Int64) map[string]bool {
	promised := map[string]bool{}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-stop:
			return promised
		case <-tick.C:
		}
		now := time.Now()
		sub := &submission.Submission{Kind: submission.Batch, Base: submission.NewBase(now), ReceivedAt: now.Unix(), DatasetID: "shop"}
		for k := range 2 {
			sub.Rows = append(sub.Rows, event.Row{
				SubmissionIndex: int32(k), ReceivedAt: now.Unix(), DatasetID: "shop", EventTime: now.Unix(), EventType: "purchase", SchemaVersion: "1.0",
				CampaignID: fmt.Sprintf("n%d-%d", i, k), OptimizationEligible: true,
			})
		}
		if _, err := s.stream.Append(t.Context(), submission.AppendRecord(nil, sub)); err == nil {
			acknowledged.Add(1)
			for k := range sub.Rows {
				promised[sub.Rows[k].CampaignID] = true
			}
		}
	}
}

// killLeader kills the server that leads the first partition.
func killLeader(t *testing.T, servers []*enginetest.Server) *enginetest.Server {
	t.Helper()
	js := servers[0].JetStream()
	for name := range js.StreamNames(t.Context()).Name() {
		if strings.HasPrefix(name, "KV_") {
			continue
		}
		s, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		for i, server := range servers {
			if s.CachedInfo().Cluster.Leader == fmt.Sprint("n", i) {
				t.Logf("the leader of %s is n%d", name, i)
				server.Kill()
				return server
			}
		}
	}
	t.Fatal("no leader found")
	return nil
}
