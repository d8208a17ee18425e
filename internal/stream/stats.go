package stream

import (
	"errors"
	"sync/atomic"
	"time"

	"sluice/internal/histogram"
)

// Stats are the stream's numbers since it was opened.
type Stats struct {
	Frames, Records, Bytes uint64            // acknowledged
	Failed                 uint64            // records whose append ended in an error after it was taken
	RejectedOverload       uint64            // records rejected because too much was waiting
	RejectedSpace          uint64            // records rejected because the disk is nearly full
	RejectedDown           uint64            // records rejected because the engine takes no writes
	Revived                uint64            // times the stream took writes again after a fault
	Lost                   uint64            // frames the engine had acknowledged and came back without
	Latency                histogram.Buckets // frames by time to acknowledgement
	LatencySum             time.Duration
	Queued                 int64 // bytes waiting or on their way now
	// bytes at the last look; those of the account of an external engine, 0 if it has no limit
	DiskFree int64
	DiskSize int64 // in all; 0 if that is unknown
	Account  bool  // they are of an account
	Phase    Phase // whether records are taken, and why not
	Ready    bool  // a record would be taken now
}

type counters struct {
	frames, records, bytes, failed, overload, space, down, revived, lost atomic.Uint64
	latency                                                              histogram.Histogram
}

func (c *counters) committed(records, size int, took time.Duration) {
	c.frames.Add(1)
	c.records.Add(uint64(records))
	c.bytes.Add(uint64(size))
	c.latency.Record(took)
}

func (c *counters) reject(err error) {
	switch {
	case errors.Is(err, ErrOverloaded):
		c.overload.Add(1)
	case errors.Is(err, ErrNoSpace):
		c.space.Add(1)
	default:
		c.down.Add(1)
	}
}

// Stats returns the numbers of now.
func (s *Stream) Stats() Stats {
	return Stats{
		Frames: s.n.frames.Load(), Records: s.n.records.Load(), Bytes: s.n.bytes.Load(),
		Failed: s.n.failed.Load(), RejectedOverload: s.n.overload.Load(), RejectedSpace: s.n.space.Load(),
		RejectedDown: s.n.down.Load(), Revived: s.n.revived.Load(), Lost: s.n.lost.Load(),
		Latency: s.n.latency.Buckets(), LatencySum: s.n.latency.Sum(),
		Queued: s.queued.Load(), DiskFree: s.disk.free.Load(), DiskSize: s.disk.size.Load(), Account: s.disk.remote,
		Phase: s.status.Load().Phase, Ready: s.Ready() == nil,
	}
}
