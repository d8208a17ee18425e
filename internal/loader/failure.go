package loader

import (
	"log/slog"
	"sync"
	"time"
)

// Failure is why nothing is loaded. The zero value is none.
type Failure struct {
	Since time.Time
	Error string
}

// logEvery is how often a failure that lasts is logged. Each partition meets it, and each attempt.
const logEvery = time.Minute

// complaints logs failures of loading: the first at once, then one line a minute with how many there were.
type complaints struct {
	mu       sync.Mutex
	troubled int       // partitions
	logged   time.Time // only differences count; zero while all is well
	more     int
}

// add notes a failure. isNew says that the partition had no failure before.
func (c *complaints) add(log *slog.Logger, text string, isNew bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.more++; isNew {
		c.troubled++
	}
	if c.logged.IsZero() || time.Since(c.logged) >= logEvery {
		log.Error("loading stopped", "error", text, "failures", c.more)
		c.logged, c.more = time.Now(), 0
	}
}

// end notes the end of a partition's failure. Loading works again when no partition has any.
func (c *complaints) end(log *slog.Logger) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.troubled--; c.troubled == 0 {
		log.Info("loading again", "failures", c.more)
		c.logged, c.more = time.Time{}, 0
	}
}
