package console

import (
	"testing"
	"time"

	"sluice/internal/hours"
)

var noon = time.Date(2026, 11, 14, 12, 30, 0, 0, time.UTC)

func TestMinutes(t *testing.T) {
	var m minutes
	at := time.Date(2026, 11, 14, 12, 0, 10, 0, time.UTC)
	m.look(at, hours.Totals{Accepted: 10})
	m.look(at.Add(20*time.Second), hours.Totals{Accepted: 15, Rejected: 1})
	m.look(at.Add(60*time.Second), hours.Totals{Accepted: 18, Rejected: 1})
	w := newWindow("hour", at.Add(time.Minute))
	by := m.over(w)
	if got, want := by[58], (hours.Totals{Accepted: 15, Rejected: 1}); got != want {
		t.Errorf("first minute: got %+v, want %+v", got, want)
	}
	if got, want := by[59], (hours.Totals{Accepted: 3}); got != want {
		t.Errorf("second minute: got %+v, want %+v", got, want)
	}
	if got := m.lately(at.Add(60 * time.Second)); got.Accepted != 3+15*50/60 {
		t.Errorf("lately: got %+v", got)
	}
	m.look(at.Add(25*time.Hour), hours.Totals{Accepted: 18, Rejected: 1})
	w = newWindow("hour", at.Add(25*time.Hour))
	for i, s := range m.over(w) {
		if s != (hours.Totals{}) {
			t.Errorf("a day later, step %d: got %+v, want nothing", i, s)
		}
	}
}
