package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
)

// LeaderMove lets another server lead a partition.
type LeaderMove struct {
	Partition uint8
	From, To  string // names of servers
}

// UnevenLeaders returns the next move towards servers that lead as many partitions each. It returns nil when there is
// none to make, or when a copy of a partition is not in step: then NATS has other things to do.
func (e *Engine) UnevenLeaders(ctx context.Context) (*LeaderMove, error) {
	r := e.record.Load()
	if r == nil || r.Partitions < 2 || r.Replicas < 2 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, statusWait)
	defer cancel()
	clusters := make([]*jetstream.ClusterInfo, r.Partitions)
	for p := range clusters {
		s, err := e.js.Stream(ctx, partitionName(uint8(p)))
		if err != nil {
			return nil, translate(err)
		}
		clusters[p] = s.CachedInfo().Cluster
		if !complete(clusters[p], r.Replicas) {
			return nil, nil
		}
	}
	return nextMove(clusters), nil
}

// complete says whether all copies are in step.
func complete(c *jetstream.ClusterInfo, replicas int) bool {
	if c == nil || c.Leader == "" || len(c.Replicas) < replicas-1 {
		return false
	}
	return !slices.ContainsFunc(c.Replicas, func(p *jetstream.PeerInfo) bool { return !inStep(p) })
}

// nextMove returns the move from a server that leads most to one that leads fewest of those with a copy, if the
// difference is two or more.
func nextMove(clusters []*jetstream.ClusterInfo) (best *LeaderMove) {
	leads := map[string]int{}
	for _, c := range clusters {
		leads[c.Leader]++
	}
	gain := 1
	for p, c := range clusters {
		for _, peer := range c.Replicas {
			if g := leads[c.Leader] - leads[peer.Name]; g > gain {
				best, gain = &LeaderMove{Partition: uint8(p), From: c.Leader, To: peer.Name}, g
			}
		}
	}
	return best
}

// MoveLeader makes a move. Writes to the partition wait meanwhile, for up to a second, or fail.
func (e *Engine) MoveLeader(ctx context.Context, m LeaderMove) error {
	ctx, cancel := context.WithTimeout(ctx, statusWait)
	defer cancel()
	request := fmt.Appendf(nil, `{"placement":{"preferred":%q}}`, m.To)
	reply, err := e.nc.RequestWithContext(ctx, "$JS.API.STREAM.LEADER.STEPDOWN."+partitionName(m.Partition), request)
	if err != nil {
		return translate(err)
	}
	_, err = acknowledged(reply)
	return err
}
