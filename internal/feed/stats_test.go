package feed

import (
	"fmt"
	"testing"
	"time"

	"sluice/internal/engine"
	"sluice/internal/stream"
)

// The numbers of a reader say what it got, and how far behind it is while it has not read everything.
func TestStatsOfReaders(t *testing.T) {
	s := openSite(t, engine.Options{Dir: t.TempDir()}, stream.Options{Partitions: 1})
	for range 10 {
		s.send("shop", 4)
	}
	first := s.get("all", "/feed/v1/events?purpose=measurement&cursor=earliest&limit=5")
	got := s.Stats()
	if len(got.Readers) != 1 || got.Rows != 5 || got.Bytes == 0 {
		t.Fatalf("got %+v", got)
	}
	if r := got.Readers[0]; r.Name != "all" || r.Rows != 5 || r.Bytes != got.Bytes || r.Lag <= 0 || r.Lag > time.Minute || time.Since(r.Last) > time.Minute {
		t.Errorf("behind: got %+v", r)
	}
	s.get("all", "/feed/v1/events?purpose=measurement&cursor="+first.Cursor)
	s.get("bound", "/feed/v1/events?purpose=optimization&cursor=earliest")
	got = s.Stats()
	if len(got.Readers) != 2 || got.Rows != 40 {
		t.Fatalf("got %+v", got)
	}
	if r := got.Readers[0]; r.Rows != 30 || r.Lag != 0 {
		t.Errorf("at the end: got %+v", r)
	}
	if r := got.Readers[1]; r.Name != "bound" || r.Rows != 10 || r.Lag != 0 {
		t.Errorf("another reader: got %+v", r)
	}
}

func TestReadersAreBounded(t *testing.T) {
	r := readers{all: map[string]*ReaderStats{}}
	begun := time.Now()
	for i := range 3 * readersMost {
		r.answered(fmt.Sprint("r", i), 1, 1, 0, begun.Add(time.Duration(i)))
		r.answered("busy", 1, 1, 0, begun.Add(time.Duration(i)))
	}
	if len(r.all) != readersMost || r.all["busy"].Rows != 3*readersMost || r.all["r0"] != nil || r.all[fmt.Sprint("r", 3*readersMost-1)] == nil {
		t.Errorf("got %d readers", len(r.all))
	}
}
