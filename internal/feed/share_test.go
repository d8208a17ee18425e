package feed

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"sluice/internal/engine"
	"sluice/internal/stream"
)

// counted is a stream that counts the frames that are read of it.
type counted struct {
	*stream.Stream
	frames atomic.Int64
}

func (c *counted) Page(ctx context.Context, partition uint8, from uint64, frames, bytes int) ([]stream.Frame, error) {
	all, err := c.Stream.Page(ctx, partition, from, frames, bytes)
	c.frames.Add(int64(len(all)))
	return all, err
}

// Twenty followers that read the same frames cost one reading and one encoding of each, and the memory of a bounded cache.
func TestFollowersShareFrames(t *testing.T) {
	s := openSite(t, engine.Options{Dir: t.TempDir()}, stream.Options{Partitions: 3})
	source := &counted{Stream: s.stream}
	s.Feed = New(Options{Stream: source, Tables: s.lake, IDs: testIDs, Readers: s.tokens, Log: slog.New(slog.DiscardHandler)})
	s.web.Close()
	s.web = httptest.NewServer(s.Handler())
	t.Cleanup(s.web.Close)
	const sent, followers = 200, 20
	for range sent {
		s.send("shop", 4) // a frame each: one at a time waits for its acknowledgement
	}
	want, _ := s.all("purpose=measurement&limit=100", Earliest)
	var reading sync.WaitGroup
	for range followers {
		reading.Go(func() {
			if got, _ := s.all("purpose=measurement&limit=70", Earliest); !slices.Equal(got, want) {
				t.Errorf("got %d rows, want %d", len(got), len(want))
			}
		})
	}
	reading.Wait()
	if n := source.frames.Load(); n < sent || n > sent+10 { // probes are frames, too
		t.Errorf("%d frames were read for %d followers, want about %d", n, followers+1, sent)
	}
	if s.pages.bytes > cacheBytes {
		t.Errorf("the cache has %d bytes", s.pages.bytes)
	}
}
