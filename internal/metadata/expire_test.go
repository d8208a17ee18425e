package metadata

import (
	"testing"
	"time"
)

// With a commit every five seconds the number of snapshots levels off, and none is missing that spacings promises.
func TestSpacings(t *testing.T) {
	var kept []Snapshot
	most := 0
	begun := time.Date(2026, 11, 14, 12, 0, 0, 0, time.UTC).UnixMilli()
	now := begun
	for id := range int64(2 * 17280) {
		now += 5000
		last := Snapshot{ID: id, TimestampMS: now}
		kept = append(Unexpired(kept, &last, 24*time.Hour, now), last)
		most = max(most, len(kept))
	}
	if most < 400 || most > 520 {
		t.Errorf("got up to %d snapshots, want about 480", most)
	}
	for i := range kept[1:] {
		age := now - kept[i+1].TimestampMS
		gap := time.Duration(kept[i+1].TimestampMS-kept[i].TimestampMS) * time.Millisecond
		if allowed := max(5*time.Second, 2*spacing(age)); gap > allowed && gap > 10*time.Minute {
			t.Errorf("got a gap of %v at an age of %v", gap, time.Duration(age)*time.Millisecond)
		}
	}
	if span := now - kept[0].TimestampMS; span < (24*time.Hour).Milliseconds()-600_000 {
		t.Errorf("got snapshots of %v, want a day", time.Duration(span)*time.Millisecond)
	}
}
