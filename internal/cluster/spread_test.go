package cluster

import (
	"testing"
	"time"

	"sluice/internal/engine"
	"sluice/internal/enginetest"
)

// After a server led all partitions, each server leads one: the eldest node moves them, when it has seen it twice.
func TestLeadersAreSpread(t *testing.T) {
	servers := enginetest.StartCluster(t, 3)
	open := func(host string) *Member {
		var e *engine.Engine
		eventually(t, "engine", func() (ok bool) {
			var err error
			e, err = engine.Open(t.Context(), engine.Options{URL: servers.URL(), Token: enginetest.Token, Replicas: 3})
			return err == nil
		})
		t.Cleanup(func() { e.Close() })
		want := engine.Record{Partitions: 3, Replicas: 3}
		eventually(t, "record", func() bool { _, err := e.Agree(t.Context(), want); return err == nil })
		parts, err := e.Partitions(t.Context(), engine.PartitionOptions{Count: 3})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(parts.Close)
		m, err := Open(t.Context(), Options{Engine: e, Now: time.Now, Node: Node{Host: host, Version: "v", Started: time.Now()}})
		if err != nil {
			t.Fatal(err)
		}
		m.Beat(t.Context())
		return m
	}
	eldest, other := open("a"), open("b")
	eldest.Beat(t.Context())
	if !eldest.eldest() || other.eldest() {
		t.Fatalf("got eldest %v and %v, want the one that was started first", eldest.eldest(), other.eldest())
	}

	e := eldest.o.Engine
	leaders := func() (out [3]string) {
		streams, err := e.Streams(t.Context())
		if err != nil {
			t.Log(err)
			return out
		}
		for _, s := range streams {
			if s.Partition >= 0 && s.InStep == 3 {
				out[s.Partition] = s.Leader
			}
		}
		return out
	}
	eventually(t, "one leader of all", func() bool {
		got := leaders()
		for p, leader := range got {
			if leader != "n0" {
				_ = e.MoveLeader(t.Context(), engine.LeaderMove{Partition: uint8(p), To: "n0"}) // until it holds
			}
		}
		return got == [3]string{"n0", "n0", "n0"}
	})
	eventually(t, "move to make", func() bool { move, err := e.UnevenLeaders(t.Context()); return err == nil && move != nil })
	eventually(t, "look that finds a move", func() bool { eldest.spread(t.Context()); return eldest.uneven })
	if other.spread(t.Context()); other.uneven {
		t.Error("a node that is not the eldest looked at the leaders")
	}
	eventually(t, "leader on each server", func() bool {
		eldest.spread(t.Context())
		led := map[string]bool{}
		for _, leader := range leaders() {
			led[leader] = leader != ""
		}
		return led["n0"] && led["n1"] && led["n2"]
	})
	if move, err := e.UnevenLeaders(t.Context()); err != nil || move != nil {
		t.Errorf("with a leader on each server: got %v, %v, want no move", move, err)
	}
}
