package iceberg

import (
	"context"
	"time"
)

// What a run of retention leaves for the next one: properties of the table, so a backup and a copy have them, too.
const (
	retainedProperty = "sluice.retained" // the day from which the last run counted ages
	heldProperty     = "sluice.held"     // the last run held the days before this one back; "" if it held none
)

// spareDays is how many days a run may drop beyond those that have passed since the last one: the rule of the contract
// with operators, which allows for midnights and for receipts of nodes whose clocks differ.
const spareDays = 2

// Retention is what a run of retention goes by.
type Retention struct {
	Counted   time.Time // ages are counted from here
	Before    time.Time // the days before the one of this time go
	Confirmed time.Time // the days before the one of this time may go, however many they are
}

// Held is what retention would drop, and does not until somebody confirms it. Zero is nothing.
type Held struct {
	Before time.Time // the days before this one
	Days   int       // of them that have rows
	Rows   int64
}

// Retain drops the days that are too old. It says how many rows are gone from the newest snapshot; their files go with
// the snapshots that still list them.
//
// A run that would drop more days than have passed since the last run, and spareDays, drops nothing: that is what a
// wrong setting or a wrong clock looks like. It stays so, and Stats says it, until a run has less to drop or is
// confirmed. The first run on a table counts as if the last one had been on the same day.
func (t *table) Retain(ctx context.Context, r Retention) (rows int64, err error) {
	counted, before := dayOf(r.Counted.Unix()), dayOf(r.Before.Unix())
	said := false // by a run before, on the same day
	s, err := t.update(ctx, func(s *state) (*change, error) {
		files, unconfirmed := map[string]bool{}, map[int32]bool{}
		rows = 0
		for _, f := range s.files() {
			if t.layout.after(f.day) > before {
				continue
			}
			files[f.name] = true
			rows += f.rows
			if t.layout.after(f.day) > dayOf(r.Confirmed.Unix()) {
				unconfirmed[f.day] = true
			}
		}
		last, known := s.day(retainedProperty)
		if !known || s.held(t.layout).Days > 0 { // time alone confirms nothing
			last = counted
		}
		c := &change{set: map[string]string{retainedProperty: dayName(counted), heldProperty: ""}}
		switch {
		case len(unconfirmed) > int(max(0, counted-last))+spareDays:
			rows, c.set[heldProperty] = 0, dayName(before)
		case len(files) > 0:
			c.operation, c.remove = deleted, files
		}
		was := s.meta.Properties
		if c.operation == "" && was[retainedProperty] == c.set[retainedProperty] && was[heldProperty] == c.set[heldProperty] {
			said = true
			return nil, nil
		}
		return c, nil
	})
	if err != nil {
		return 0, err
	}
	if h := s.held(t.layout); h.Days > 0 && !said {
		t.log.Error("retention would drop more days than have passed since its last run, "+
			"so it drops nothing until somebody confirms it: see SluiceRetentionHeld",
			"table", t.layout.name, "days", h.Days, "rows", h.Rows, "before", dayName(before))
	} else if rows > 0 {
		t.log.Info("rows have passed their retention", "table", t.layout.name, "rows", rows, "before", dayName(before))
	}
	return rows, nil
}

// Release drops what retention holds back, because somebody has confirmed it.
func (t *table) Release(ctx context.Context) (rows int64, err error) {
	s, err := t.refresh(ctx)
	if err != nil {
		return 0, err
	}
	h := s.held(t.layout)
	if h == (Held{}) {
		return 0, nil
	}
	counted, _ := s.day(retainedProperty)
	return t.Retain(ctx, Retention{Counted: dayTime(counted), Before: h.Before, Confirmed: h.Before})
}

// Days are the days of the oldest and of the newest receipt in the table as this process last knew it, zero when empty.
func (t *table) Days() (oldest, newest time.Time) {
	for _, f := range t.state.Load().files() {
		at := dayTime(f.day)
		if oldest.IsZero() || at.Before(oldest) {
			oldest = at
		}
		if at.After(newest) {
			newest = at
		}
	}
	return oldest, newest
}

// day is the day in a property.
func (s *state) day(property string) (day int32, known bool) {
	at, err := time.Parse(time.DateOnly, s.meta.Properties[property])
	return dayOf(at.Unix()), err == nil
}

// held is what the last run of retention held back, as far as it is still there.
func (s *state) held(l *layout) (h Held) {
	before, known := s.day(heldProperty)
	if !known {
		return Held{}
	}
	days := map[int32]bool{}
	for _, f := range s.files() {
		if l.after(f.day) <= before {
			days[f.day] = true
			h.Rows += f.rows
		}
	}
	if h.Days = len(days); h.Days > 0 {
		h.Before = dayTime(before)
	}
	return h
}
