package bucket

import (
	"context"
	"strings"
	"testing"
	"time"

	"sluice/event"
	"sluice/internal/lake"
	"sluice/internal/loader"
	"sluice/internal/stream"
	"sluice/internal/submission"
)

// ticking is a stream to whose partitions a frame comes every 20 ms.
type ticking struct {
	partitions int
	last       uint64 // sequence number of the last frame of each
}

func (s ticking) Partitions() int { return s.partitions }

func (s ticking) Last(context.Context, uint8) (uint64, error) { return s.last, nil }

func (s ticking) Follow(ctx context.Context, _ uint8, from uint64, _ time.Duration, yield func(stream.Frame) error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for seq := from; ; seq++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if seq > s.last {
			continue
		}
		sub := &submission.Submission{
			Kind: submission.Batch, Base: submission.NewBase(noon), ReceivedAt: noon.Unix(), DatasetID: "shop", Rows: rows(3),
			Rejections: []event.Rejection{{Code: event.MissingField, Field: "/timestamp", Count: 1, Events: 1}},
		}
		if err := yield(stream.Frame{Seq: seq, Time: time.Now(), Records: [][]byte{submission.AppendRecord(nil, sub)}}); err != nil {
			return err
		}
	}
}

// The writes of a load do not grow with the number of partitions: one data file, one manifest, one list and one version for
// each interval, and a twelfth of that for each of the other tables.
func TestWritesForAnyNumberOfPartitions(t *testing.T) {
	const frames, interval = 200, 250 * time.Millisecond // four seconds
	// puts says how many writes there were, and how many there may be in that time.
	puts := func(partitions int) (got, most int) {
		g := startGateway(t)
		p := newSpoiler(t, g)
		l, err := lake.Open(t.Context(), lake.Options{Store: open(t, p.URL), Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		one, err := loader.New(loader.Options{
			Stream: ticking{partitions, frames}, Lake: l, Quarantine: t.TempDir(), Now: time.Now, Age: interval,
		})
		if err != nil {
			t.Fatal(err)
		}
		p.Mu.Lock()
		clear(p.Count)
		p.Mu.Unlock()
		begun := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- one.Run(ctx) }()
		for part := 0; part < partitions; {
			if one.Watermark(uint8(part)) < frames {
				<-time.After(5 * time.Millisecond)
				continue
			}
			part++
		}
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		took := time.Since(begun)
		n := 0
		for row, err := range l.Scan(t.Context(), lake.Query{}) {
			if row == nil || err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != 3*frames*partitions {
			t.Errorf("got %d rows of %d partitions, want %d", n, partitions, 3*frames*partitions)
		}
		p.Mu.Lock()
		defer p.Mu.Unlock()
		n = 0
		for kind, k := range p.Count {
			if strings.HasPrefix(kind, "PUT") {
				n += k
			}
		}
		t.Logf("%d partitions: %v", partitions, p.Count)
		return n, 4*(int(took/interval)+2) + 2*4*(int(took/(12*interval))+2) + 6 // and hints
	}
	for _, partitions := range []int{1, 6} {
		if n, most := puts(partitions); n > most {
			t.Errorf("%d partitions: got %d writes, want %d at most", partitions, n, most)
		}
	}
}
