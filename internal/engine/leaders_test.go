package engine

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// A move goes from a server that leads most to one that leads fewest and has a copy.
func TestNextMove(t *testing.T) {
	led := func(leader string, copies ...string) *jetstream.ClusterInfo {
		c := &jetstream.ClusterInfo{Leader: leader}
		for _, name := range copies {
			c.Replicas = append(c.Replicas, &jetstream.PeerInfo{Name: name, Current: true})
		}
		return c
	}
	for name, c := range map[string]struct {
		clusters []*jetstream.ClusterInfo
		want     *LeaderMove
	}{
		"one each":                 {[]*jetstream.ClusterInfo{led("a", "b", "c"), led("b", "a", "c"), led("c", "a", "b")}, nil},
		"one more than the others": {[]*jetstream.ClusterInfo{led("a", "b", "c"), led("b", "a", "c"), led("c", "a", "b"), led("a", "b", "c")}, nil},
		"two more than another":    {[]*jetstream.ClusterInfo{led("b", "a", "c"), led("a", "b", "c"), led("a", "b", "c")}, &LeaderMove{1, "a", "c"}},
		"no copy on the idle one":  {[]*jetstream.ClusterInfo{led("a", "b"), led("a", "b"), led("b", "a")}, nil},
		"copies on four servers":   {[]*jetstream.ClusterInfo{led("a", "b", "c"), led("a", "b", "d"), led("b", "c", "d")}, &LeaderMove{0, "a", "c"}},
	} {
		got := nextMove(c.clusters)
		if got == nil || c.want == nil {
			if got != c.want {
				t.Errorf("%s: got %v, want %v", name, got, c.want)
			}
			continue
		}
		if *got != *c.want {
			t.Errorf("%s: got %v, want %v", name, *got, *c.want)
		}
	}
	behind := led("a", "b", "c")
	behind.Replicas[1] = &jetstream.PeerInfo{Name: "c", Lag: 5_000}
	if complete(behind, 3) || complete(led("", "b", "c"), 3) || complete(led("a", "b"), 3) || !complete(led("a", "b", "c"), 3) {
		t.Error("complete: want only a leader with two other copies that have everything")
	}
}

// A copy that lacks what is on its way is in step: under load each lacks a little. One that lacks more, or is
// silent, is not: what NATS knows of it may be that of the disk that it had before.
func TestInStep(t *testing.T) {
	for name, c := range map[string]struct {
		peer jetstream.PeerInfo
		want bool
	}{
		"has everything":       {jetstream.PeerInfo{Current: true}, true},
		"a few are on the way": {jetstream.PeerInfo{Lag: 7, Active: time.Second}, true},
		"far behind":           {jetstream.PeerInfo{Lag: 5_000, Active: time.Second}, false},
		"silent":               {jetstream.PeerInfo{Active: 4 * time.Second}, false},
		"had everything":       {jetstream.PeerInfo{Current: true, Active: 4 * time.Second}, false},
		"not heard of yet":     {jetstream.PeerInfo{Lag: 7}, false},
		"offline":              {jetstream.PeerInfo{Current: true, Offline: true}, false},
	} {
		if got := inStep(&c.peer); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
