package metadata

import (
	"math"
	"slices"
	"time"
)

// spacings say how close together the snapshots are that a table keeps. A commit writes all of them down, so their
// number must not grow with the number of commits: with one every five seconds some 480 are kept for a day. Readers
// that follow commit by commit have a quarter of an hour; those that look back find a snapshot for each ten minutes.
var spacings = []struct{ age, apart time.Duration }{
	{15 * time.Minute, 0},
	{3 * time.Hour, time.Minute},
	{math.MaxInt64, 10 * time.Minute},
}

// Unexpired is which of the snapshots before last are carried on: those that were replaced less than the retention ago,
// for a reader may be using them, thinned out by spacings. Of those that are closer together the last of each span of
// time stays, so that the choice does not depend on when it is made.
func Unexpired(older []Snapshot, last *Snapshot, retention time.Duration, now int64) (out []Snapshot) {
	next := last.TimestampMS
	for i := len(older) - 1; i >= 0; i-- {
		s := &older[i]
		if now-next >= retention.Milliseconds() {
			break // it was replaced then, and those before it earlier
		}
		if apart := spacing(now - next).Milliseconds(); apart == 0 || s.TimestampMS/apart != next/apart {
			out = append(out, *s)
			next = s.TimestampMS
		}
	}
	slices.Reverse(out)
	return out
}

func spacing(ageMS int64) time.Duration {
	for _, s := range spacings {
		if ageMS < s.age.Milliseconds() {
			return s.apart
		}
	}
	return 0
}
