package upload

import (
	"encoding/json"
	"maps"
	"time"
)

// journal records what became of an upload's rows: the sums, the report of rejected rows, the rejected rows themselves
// where they are asked for and, for a file that can be read again, the checkpoint.
type journal struct {
	checkpoint *checkpoint // nil: standard input, which cannot be resumed
	report     appendFile  // why rows were rejected, without their values
	rows       appendFile  // the rejected rows, as the sender has them
	total      entry       // without a checkpoint
}

// sums are the totals so far, earlier runs included.
func (b *journal) sums() entry {
	if b.checkpoint != nil {
		return b.checkpoint.total
	}
	return b.total
}

// begin makes the files of rejected rows agree with the checkpoint.
func (b *journal) begin() error {
	var last entry
	if b.checkpoint != nil {
		last = b.checkpoint.last
	}
	if err := b.report.begin(last.ReportSize); err != nil {
		return err
	}
	return b.rows.begin(last.RowsSize)
}

// recorded gives a test for the batches that are recorded now. It does not see later ones, so another goroutine may use
// it while this one records.
func (b *journal) recorded() func(n int64) bool {
	if b.checkpoint == nil {
		return func(int64) bool { return false }
	}
	next, ahead := b.checkpoint.next, maps.Clone(b.checkpoint.ahead)
	return func(n int64) bool {
		_, ok := ahead[n]
		return ok || n < next
	}
}

// add records batches: rejected rows first, synced, then the entries that say how long the files of them are.
func (b *journal) add(rs []result, now time.Time) error {
	var report, rows []byte
	entries := make([]entry, len(rs))
	for i, r := range rs {
		for _, row := range r.rejected {
			line, err := json.Marshal(row)
			if err != nil {
				return err
			}
			report = append(append(report, line...), '\n')
			if b.rows.path != "" {
				if b.rows.length == 0 && len(rows) == 0 {
					rows = append(append(rows, b.rows.head...), '\n')
				}
				rows = append(append(rows, row.raw...), '\n')
			}
		}
		entries[i] = r.entry
		entries[i].ReportSize = b.report.length + int64(len(report))
		entries[i].RowsSize = b.rows.length + int64(len(rows))
		entries[i].Time = now.Unix()
	}
	if err := b.report.write(report); err != nil {
		return err
	}
	if err := b.rows.write(rows); err != nil {
		return err
	}
	if b.checkpoint != nil {
		return b.checkpoint.commit(entries)
	}
	for _, m := range entries {
		b.total.add(m)
	}
	return nil
}

// end records that every row is accounted for.
func (b *journal) end(now time.Time) error {
	if b.checkpoint == nil || b.checkpoint.done {
		return nil
	}
	return b.checkpoint.commit([]entry{{
		Done: true, ReportSize: b.report.length, RowsSize: b.rows.length,
		Time: now.Unix(),
	}})
}

// Close closes the files.
func (b *journal) Close() {
	b.report.Close()
	b.rows.Close()
	if b.checkpoint != nil {
		_ = b.checkpoint.Close() // synced after every write
	}
}
