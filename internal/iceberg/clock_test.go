package iceberg

import (
	"sync/atomic"
	"testing"
	"time"
)

// What was read before the clock was set back is not recent: a table in a bucket would show an old state for as long.
func TestRecentOnAClockThatIsSetBack(t *testing.T) {
	now := time.Now()
	table := &table{now: func() time.Time { return now }}
	var at atomic.Int64
	if table.isRecent(&at, time.Minute) {
		t.Error("got recent before the first time")
	}
	table.touch(&at)
	for offset, want := range map[time.Duration]bool{0: true, time.Second: true, time.Hour: false, -time.Hour: false} {
		now = time.Unix(0, at.Load()).Add(offset)
		if got := table.isRecent(&at, time.Minute); got != want {
			t.Errorf("%v later: got %v, want %v", offset, got, want)
		}
	}
}
