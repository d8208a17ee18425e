package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sluice/internal/engine"
)

// Summary is what Verify found.
type Summary struct {
	Entries uint64    // how many there ever were
	Dropped uint64    // how many of them are gone because the log has a limit
	First   time.Time // when the oldest that is there was written
	Last    time.Time // when the last was written
	Seal    string    // the last seal: note it elsewhere, and nobody can rewrite the past unseen
}

// chain follows entries in order.
type chain struct {
	Summary
	prev     string // seal of the entry before; "" before the first
	head     last
	headSeen bool
}

// add holds one more line against its seal, its number and the line before.
func (c *chain) add(number uint64, line []byte) error {
	e, seal, err := decode(line)
	if err != nil {
		return fmt.Errorf("entry %d: %w", number, err)
	}
	if e.Seq != number || number != c.Entries+1 && c.prev != "" || c.prev != "" && e.Prev != c.prev {
		return fmt.Errorf("%w: entry %d does not follow the entry before it", ErrTampered, number)
	}
	if c.prev == "" {
		if number == 1 && e.Prev != zeroSeal {
			return fmt.Errorf("%w: entry 1 follows another one", ErrTampered)
		}
		c.First, c.Dropped = e.Time, number-1
	}
	c.Entries, c.Last, c.Seal, c.prev = number, e.Time, seal, seal
	c.headSeen = c.headSeen || c.head == last{e.Seq, seal}
	return nil
}

// close holds the end against the head. A head that is one entry behind is right: Append writes it last.
func (c *chain) close() error {
	switch {
	case c.head.Seq == 0 && c.Entries > 1:
		return fmt.Errorf("%w: there are %d entries and no head", ErrTampered, c.Entries)
	case c.head.Seq > 0 && !c.headSeen:
		return fmt.Errorf("%w: the head names entry %d, which is not in the log", ErrTampered, c.head.Seq)
	case c.Entries > c.head.Seq+1:
		return fmt.Errorf("%w: the log goes on for %d entries after its head", ErrTampered, c.Entries-c.head.Seq)
	}
	return nil
}

// explain says whether the limit is why the oldest entries are gone, when the last one that was ever written has a
// number. The engine drops an entry only when there are more than the limit; whatever else makes entries vanish is
// tampering.
func (c *chain) explain(last, limit uint64) error {
	if c.Dropped > 0 && c.Dropped+limit > last {
		return fmt.Errorf("%w: the oldest %d entries are gone, and of %d the log keeps %d", ErrTampered, c.Dropped, last,
			min(last, limit))
	}
	return nil
}

// Verify reads the whole log and holds every entry against its seal, its number and the entry before, and the end
// against the head. An error that is ErrTampered names the first entry that does not fit.
func (l *Log) Verify(ctx context.Context) (Summary, error) {
	var c chain
	var err error
	// The head first: the log may grow meanwhile.
	if c.head, err = l.head(ctx); err != nil && !errors.Is(err, engine.ErrNotFound) {
		return c.Summary, fmt.Errorf("read audit head: %w", err)
	}
	err = l.journal.Scan(ctx, 1, c.add)
	if errors.Is(err, engine.ErrNotFound) {
		err = fmt.Errorf("%w: %w", ErrTampered, err)
	}
	if err != nil {
		return c.Summary, err
	}
	first, end, err := l.journal.Ends(ctx)
	if err != nil {
		return c.Summary, err
	}
	if c.Entries == 0 { // none is left
		c.Dropped = first - 1
	}
	if err := c.explain(end, engine.JournalEntries); err != nil {
		return c.Summary, err
	}
	// Entries that were added while it was read have moved the head.
	if now, err := l.head(ctx); err == nil && now.Seq > c.head.Seq && c.headSeen {
		return c.Summary, nil
	}
	return c.Summary, c.close()
}

// Ends are the numbers of the oldest and the last entry: one of them changes with every entry that comes or goes.
func (l *Log) Ends(ctx context.Context) (first, last uint64, err error) { return l.journal.Ends(ctx) }

// Tail is the last n entries, newest first. It trusts the log; Verify does not.
func (l *Log) Tail(ctx context.Context, n int) ([]Entry, error) {
	_, number, err := l.journal.Ends(ctx)
	if err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	var out []Entry
	err = l.journal.Scan(ctx, max(number, uint64(n))-uint64(n)+1, func(_ uint64, line []byte) error {
		if e, _, err := decode(line); err == nil {
			out = append(out, e)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	slices.Reverse(out)
	return out, nil
}
