package cluster

import (
	"context"
	"time"

	"sluice/internal/engine"
)

// watchEvery is the time between two looks at the copies (arbitrary).
const watchEvery = 10 * time.Second

// Copies is what the engine says of everything that it stores for Sluice. The zero value is one that was not asked.
type Copies struct {
	Streams []engine.StreamStatus
	Since   time.Time // when the first of those that are behind was seen; zero while none is
}

// Behind counts the streams that have fewer copies in step than they shall have.
func (c *Copies) Behind() (n int) {
	for i := range c.Streams {
		if c.Streams[i].Short() {
			n++
		}
	}
	return n
}

// Changed counts the streams whose settings somebody changed.
func (c *Copies) Changed() (n int) {
	for i := range c.Streams {
		if len(c.Streams[i].Drift) > 0 {
			n++
		}
	}
	return n
}

// Copies is what this node last heard. It asks nobody.
func (m *Member) Copies() *Copies { return m.copies.Load() }

// watch asks for the copies. While the engine does not answer, what was known counts.
func (m *Member) watch(ctx context.Context) {
	streams, err := m.o.Engine.Streams(ctx)
	if err != nil || ctx.Err() != nil {
		return
	}
	now := &Copies{Streams: streams, Since: m.Copies().Since}
	switch {
	case now.Behind() == 0:
		now.Since = time.Time{}
	case now.Since.IsZero():
		now.Since = m.o.Now()
	}
	m.copies.Store(now)
}
