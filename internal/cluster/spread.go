package cluster

import (
	"context"
	"time"
)

// spreadEvery is the time between two looks at the leaders (arbitrary).
const spreadEvery = 30 * time.Second

// spread lets the servers of the engine lead about as many partitions each. After restarts one server may lead all, and
// its death would stop all events for an election. NATS leaves it at that. It moves the lead of one partition, if this
// node is the one that runs for longest, and if a move was due at the last look, too: servers that are restarted one
// after the other should be done first.
func (m *Member) spread(ctx context.Context) {
	if !m.eldest() {
		m.uneven = false
		return
	}
	move, err := m.o.Engine.UnevenLeaders(ctx)
	if err == nil && move != nil && m.uneven {
		if err = m.o.Engine.MoveLeader(ctx, *move); err == nil {
			m.o.Log.Info("another server leads a partition, so that each leads as many", "partition", move.Partition, "from",
				move.From, "to", move.To)
		}
	}
	m.uneven = move != nil
	if err != nil && ctx.Err() == nil {
		m.o.Log.Debug("leaders of partitions are not spread", "error", err)
	}
}

// eldest says whether this node runs for longest of those that take requests.
func (m *Member) eldest() bool {
	for _, n := range m.View().Nodes {
		if !n.Draining {
			return n.ID == m.o.Node.ID
		}
	}
	return false
}
