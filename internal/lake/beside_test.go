package lake

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"sluice/internal/objectstore"
)

// distant is a place of which the tables think that each request takes long, as in a bucket.
type distant struct{ objectstore.Store }

func (d distant) Grace() time.Duration              { return time.Hour }
func (d distant) Sub(name string) objectstore.Store { return distant{d.Store.Sub(name)} }

// In a bucket the three tables of a commit write their files side by side, and events are seen last. An error of one of the
// others keeps events back, and the same batch again goes on from there.
func TestTablesAreCommittedSideBySide(t *testing.T) {
	var mu sync.Mutex
	var steps []string
	begun := make(chan struct{})
	full := errors.New("no space")
	fails := true
	step := func(name string) error {
		mu.Lock()
		steps = append(steps, name)
		failing := fails
		mu.Unlock()
		switch {
		case name == "events.list" && failing:
			close(begun)
		case name == "hours.metadata" && failing: // the files of events are under way while the others are not done
			select {
			case <-begun:
			case <-time.After(time.Minute):
				t.Error("events wait for the other tables")
			}
			return full
		}
		return nil
	}
	l := openLake(t, Options{Store: distant{at(t, t.TempDir())}, Step: step})
	batch := Batch{
		Spans: []Span{{To: 1}}, Events: newSampler(1, 1, 10).rows(10, noon),
		Rejections: []Rejection{{ReceivedAt: noon.Unix(), DatasetID: "shop", Code: "X", Count: 1}},
		Hours:      []Hour{{Hour: noon.Truncate(time.Hour).Unix(), DatasetID: "shop", Kind: "accepted", Count: 10}},
	}
	if err := l.Commit(t.Context(), batch, 0); !errors.Is(err, full) {
		t.Errorf("got %v, want the error of hours", err)
	}
	if got, err := l.Watermarks(t.Context(), 0); err != nil || got != (Watermarks{Rejections: 1}) {
		t.Errorf("got %+v %v, want rejections alone", got, err)
	}
	mu.Lock()
	fails, steps = false, nil
	mu.Unlock()
	if err := l.Commit(t.Context(), batch, 0); err != nil {
		t.Fatal(err)
	}
	if got, err := l.Watermarks(t.Context(), 0); err != nil || got != (Watermarks{1, 1, 1}) {
		t.Errorf("got %+v %v, want all tables", got, err)
	}
	if i, j := slices.Index(steps, "hours.committed"), slices.Index(steps, "events.metadata"); i < 0 || j < i {
		t.Errorf("got %q, want hours before events are seen", steps)
	}
	same(t, collect(t, l, Query{}), batch.Events)
}
