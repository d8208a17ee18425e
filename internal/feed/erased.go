package feed

import (
	"context"
	"errors"

	"sluice/internal/engine"
	"sluice/internal/erasure"
)

// tell hands out lines of erased rows that a query covers, and moves the cursor behind them. It returns how many
// there were. Filters by type and campaign do not count: the log does not know them.
func (f *Feed) tell(
	ctx context.Context, c *Cursor, q *Query, log erasure.Bounds, emit func(lines []byte, rows int) error,
) (told int, err error) {
	for c.erased.seq <= log.Last && q.Limit > 0 && q.Bytes > 0 {
		l, err := f.o.Erasures.Log(ctx)
		if err != nil {
			return told, err
		}
		entry, err := l.Read(ctx, c.erased.seq)
		if errors.Is(err, engine.ErrNotFound) { // it has aged out since the cursor was checked
			e, err := f.ends(ctx)
			if err == nil {
				err = f.expired(ctx, e)
			}
			return told, err
		}
		if err != nil {
			return told, err
		}
		var text []byte
		n, at := 0, c.erased.rows
		for ; at < uint64(len(entry)) && n < q.Limit && len(text) < q.Bytes; at++ {
			if line := &entry[at]; q.covers(line.Purpose, line.Dataset) {
				text = append(line.EventID.Append(append(text, `{"erased":{"event_id":"`...)), "\"}}\n"...)
				n++
			}
		}
		if n > 0 {
			if err := emit(text, n); err != nil {
				return told, err
			}
		}
		if c.erased.rows = at; at >= uint64(len(entry)) {
			c.erased = position{seq: c.erased.seq + 1}
		}
		told += n
		q.Limit -= n
		q.Bytes -= len(text)
	}
	return told, nil
}
