//go:build faults

package faults

import (
	"net/http"
	"testing"

	"sluice/internal/servicetest"
)

// ledger is what the senders of one dataset know. The table that it is held against is read by DuckDB.
type ledger struct{ servicetest.Ledger }

func newLedger(id, key string) *ledger {
	return &ledger{servicetest.Ledger{ID: id, Key: key}}
}

// compare holds the table of a data directory against the ledger.
func (l *ledger) compare(t *testing.T, dir string) servicetest.Toll {
	t.Helper()
	return l.Compare(t, stored(t, dir, l.ID))
}

// check is compare for a fault that may cost nothing, with the counts of rejected events.
func (l *ledger) check(t *testing.T, dir string) {
	t.Helper()
	l.Check(t, stored(t, dir, l.ID))
	l.checkRejected(t, rejected(t, dir, l.ID))
}

// checkRejected compares how many rejected events are counted.
func (l *ledger) checkRejected(t *testing.T, counted int) {
	t.Helper()
	least, most := 0, 0
	for _, e := range l.Entries() {
		most += e.Invalid
		if e.Status == http.StatusOK {
			least += e.Invalid
		}
	}
	if counted < least || counted > most {
		t.Errorf("%d rejected events are counted, want %d to %d", counted, least, most)
	}
}
