package upload

import (
	"encoding/json"
	"maps"
	"time"
)

// journal records what became of an upload's rows: the checkpoint, the report of rejected rows, and the rejected rows
// themselves where they are asked for.
type journal struct {
	*checkpoint
	report appendFile // why rows were rejected, without their values
	rows   appendFile // the rejected rows, as the sender has them
}

// begin makes the files of rejected rows agree with the checkpoint.
func (b *journal) begin() error {
	if err := b.report.begin(b.last.ReportSize); err != nil {
		return err
	}
	return b.rows.begin(b.last.RowsSize)
}

// recorded gives a test for the batches that are recorded now. It does not see later ones, so another goroutine may use
// it while this one records.
func (b *journal) recorded() func(n int64) bool {
	next, ahead := b.next, maps.Clone(b.ahead)
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
	return b.commit(entries...)
}

// end records that every row is accounted for.
func (b *journal) end(now time.Time) error {
	return b.commit(entry{Done: true, ReportSize: b.report.length, RowsSize: b.rows.length, Time: now.Unix()})
}

// Close closes the files.
func (b *journal) Close() {
	b.report.Close()
	b.rows.Close()
	b.checkpoint.Close()
}
