package lake

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/event"
	"sluice/internal/iceberg"
	"sluice/internal/watermark"
)

// fill commits one event, rejection and hour of each dataset for each day from now on.
func fill(t *testing.T, l *Lake, now *time.Time, days int, datasets ...string) {
	t.Helper()
	s := newSampler(7, 1, 1)
	for range days {
		marks, err := l.Watermarks(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		b := Batch{Spans: []Span{{From: marks, To: marks.Events + 1}}}
		for _, id := range datasets {
			b.Events = append(b.Events, s.row(s.base(*now), "x", id, 0, *now))
			b.Rejections = append(b.Rejections, Rejection{ReceivedAt: now.Unix(), DatasetID: id, Code: "C", Count: 1})
			b.Hours = append(b.Hours, Hour{Hour: now.Truncate(time.Hour).Unix(), DatasetID: id, Kind: "events", Name: "purchase", Field: "accepted", Count: 1})
		}
		if err := l.Commit(t.Context(), b, 0); err != nil {
			t.Fatal(err)
		}
		*now = now.Add(day)
	}
}

func contents(t *testing.T, l *Lake, dataset string) Contents {
	t.Helper()
	out, err := l.Contents(t.Context(), dataset, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Everything of a dataset goes from all tables and files, at whichever step it is interrupted and begun again.
func TestEraseDataset(t *testing.T) {
	for _, crash := range []int{0, 1, 3, 6, 10, 15, 21, 28, 36} {
		dir, now := t.TempDir(), noon
		steps := -1
		l := openLake(t, Options{Store: at(t, dir), Now: func() time.Time { return now }, Step: func(string) error {
			if steps--; steps == 0 {
				return fmt.Errorf("crash")
			}
			return nil
		}})
		fill(t, l, &now, 3, "gone-dataset", "stays")
		sumAll(t, l)
		want := Contents{Events: 3, Rejections: 3, Numbers: 6, Days: 3}
		if got := contents(t, l, "gone-dataset"); got != want {
			t.Fatalf("got %+v, want %+v", got, want)
		}
		steps = crash
		erase := func() error {
			_, err := l.Erase(t.Context(), Choice{Match: func(r *event.Row) bool { return r.DatasetID == "gone-dataset" }}, nil)
			if err == nil {
				_, err = l.EraseCounts(t.Context(), func(d string, _ int64) bool { return d == "gone-dataset" })
			}
			return err
		}
		if err := erase(); err != nil {
			if err := erase(); err != nil {
				t.Fatal(err)
			}
		}
		sumAll(t, l)
		if got := contents(t, l, "gone-dataset"); got != (Contents{}) {
			t.Errorf("crash %d: got %+v, want nothing", crash, got)
		}
		if got := contents(t, l, "stays"); got != want {
			t.Errorf("crash %d: got %+v of the other dataset, want %+v", crash, got, want)
		}
		if left := filesNaming(t, dir, "gone-dataset"); len(left) > 0 {
			t.Errorf("crash %d: got %v, want no file that names the dataset", crash, left)
		}
	}
}

// filesNaming are the Parquet files with a text in them: ids are in dictionaries and statistics as they are.
func filesNaming(t *testing.T, dir, text string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if strings.Contains(string(b), text) {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A sum that was begun before a dataset was deleted is not committed after it.
func TestSumBesideADeletion(t *testing.T) {
	now := noon
	o := Options{Store: at(t, t.TempDir()), Now: func() time.Time { return now }}
	other, l := openLake(t, o), openLake(t, o)
	fill(t, l, &now, 1, "gone", "stays")
	if got := contents(t, l, "gone"); got.Numbers != 1 {
		t.Fatalf("got %+v: the day is summed already", got)
	}
	now = now.Add(day)
	// The hours of the day are read, and then they are gone: the sum must not name them.
	prints, _, err := l.Prints(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	of := int32(noon.Unix() / secondsPerDay)
	sum := iceberg.Sum[DaySum]{Day: of, Print: prints[of]}
	gone := chosen(func(d string, _ int64) bool { return d == "gone" })
	sum.Rows = func(add func(*DaySum) error) error {
		err := l.sumRows(t.Context(), sum.Day, sum.Print, nil, add)
		_, erased := other.hours.Delete(t.Context(), chosenIn(hourSchema, hourDataset, gone), nil) // EraseCounts does the same, and then waits for the sum
		return errors.Join(err, erased, other.days.FenceSums(t.Context()))
	}
	if err := l.days.PutSum(t.Context(), sum); !errors.Is(err, watermark.ErrFenced) {
		t.Errorf("got %v, want that the sum is fenced off", err)
	}
	sumAll(t, l)
	if got := contents(t, l, "gone"); got != (Contents{Events: 1, Rejections: 1, Days: 1}) {
		t.Errorf("got %+v, want no numbers", got)
	}
}

// Rows of a dataset with a shorter retention go from all tables, whole days at a time, and those of others stay. Older snapshots
// keep theirs.
func TestRetentionOfADataset(t *testing.T) {
	now := noon
	policy := Retention{Keep: 100 * day, Datasets: map[string]time.Duration{"short": 3 * day, "as-long": 200 * day}}
	l := openLake(t, Options{
		Store: at(t, t.TempDir()), Now: func() time.Time { return now }, SnapshotRetention: 1000 * time.Hour,
		Retention: func(context.Context) (Retention, error) { return policy, nil },
	})
	fill(t, l, &now, 10, "short", "long", "as-long")
	sumAll(t, l)
	now = now.Add(-day + time.Hour) // an hour after the last receipt
	before := eventsOf(l).Snapshots
	cut := l.Cutoff(3 * day)
	gone, err := l.Contents(t.Context(), "short", cut)
	if err != nil || gone.Events != 6 || gone.Days != 6 {
		t.Fatalf("got %+v, %v, want 6 of 10 days before %v", gone, err, cut)
	}
	rows, err := l.Retain(t.Context())
	if want := gone.Events + gone.Rejections + gone.Numbers; err != nil || rows != want {
		t.Errorf("got %d rows gone, %v, want %d", rows, err, want)
	}
	if rows, err := l.Retain(t.Context()); err != nil || rows != 0 {
		t.Errorf("again: got %d, %v, want nothing", rows, err)
	}
	sumAll(t, l)
	if got := contents(t, l, "short"); got.Events != 4 || got.Rejections != 4 || got.Days != 4 {
		t.Errorf("got %+v, want 4 days", got)
	}
	for _, id := range []string{"long", "as-long"} {
		if got := contents(t, l, id); got.Events != 10 || got.Rejections != 10 || got.Numbers != 20 {
			t.Errorf("%s: got %+v, want everything", id, got)
		}
	}
	if eventsOf(l).Snapshots <= before {
		t.Error("older snapshots are gone")
	}
	now = now.Add(day)
	fill(t, l, &now, 1, "long")
	if _, err := l.Retain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, l, "short"); got.Events != 3 {
		t.Errorf("a day later: got %+v, want 3 days", got)
	}
	policy.Datasets = nil
	if rows, err := l.Retain(t.Context()); err != nil || rows != 0 {
		t.Errorf("with the retention of the tables: got %d, %v, want nothing", rows, err)
	}
}
