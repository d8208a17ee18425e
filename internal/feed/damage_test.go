package feed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sluice/internal/engine"
	"sluice/internal/lake"
	"sluice/internal/purpose"
	"sluice/internal/stream"
	"sluice/internal/submission"
)

// spoiled is a stream of which frames are damaged, lost, or aged out.
type spoiled struct {
	*stream.Stream
	damaged, lost uint64 // sequence numbers
	later         uint64 // and of a frame that a later version has written
	aged          uint64 // everything up to here
	late          bool   // Bounds says so only from the second call on
	record        bool   // or a record in it
	asked         int
}

func (s *spoiled) Bounds(ctx context.Context) ([]stream.Bounds, error) {
	b, err := s.Stream.Bounds(ctx)
	if s.asked++; err == nil && s.aged > 0 && (!s.late || s.asked > 1) {
		b[0].First = s.aged + 1
	}
	return b, err
}

func (s *spoiled) Page(ctx context.Context, partition uint8, from uint64, frames, bytes int) ([]stream.Frame, error) {
	all, err := s.Stream.Page(ctx, partition, from, frames, bytes)
	all = slices.DeleteFunc(all, func(f stream.Frame) bool { return f.Seq == s.lost || f.Seq <= s.aged })
	for i := range all {
		if all[i].Seq == s.damaged {
			all[i].Records, all[i].Damaged = nil, stream.ErrDamaged
		}
		if all[i].Seq == s.later && s.record {
			all[i].Records = append(all[i].Records, []byte{submission.RecordVersion + 1})
		} else if all[i].Seq == s.later {
			all[i].Records, all[i].Damaged = nil, stream.ErrVersion
		}
	}
	return all, err
}

// A frame that cannot be read, or is not there, is passed over, whatever the size of the pages, and the rest comes once.
func TestDamage(t *testing.T) {
	s := openSite(t, engine.Options{Dir: t.TempDir()}, stream.Options{})
	var seqs []uint64
	for range 8 {
		s.send("shop", 4)
		last, err := s.stream.Last(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		seqs = append(seqs, last)
	}
	var want []string
	for i := range 8 {
		if i != 2 && i != 5 {
			for _, n := range []int{1, 2, 3} { // the fourth is suppressed
				want = append(want, fmt.Sprintf("n%d", 4*i+n))
			}
		}
	}
	for _, limit := range []string{"1", "2", "1000"} {
		s.Feed.pages = pages{stream: &spoiled{Stream: s.stream, damaged: seqs[2], lost: seqs[5]}}
		got, _ := s.all("purpose=measurement&limit="+limit, Earliest)
		if !slices.Equal(got, want) {
			t.Errorf("in pages of %s: got %v, want %v", limit, got, want)
		}
	}
}

// What a later version has written is whole: a follower gets what comes before it, and then an error that it can tell from
// the end. Nothing is passed over, and the same cursor works on a newer node.
func TestLaterVersion(t *testing.T) {
	s := openSite(t, engine.Options{Dir: t.TempDir()}, stream.Options{})
	var seqs []uint64
	for range 3 {
		s.send("shop", 4)
		last, err := s.stream.Last(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		seqs = append(seqs, last)
	}
	for _, record := range []bool{false, true} {
		s.Feed.pages = pages{stream: &spoiled{Stream: s.stream, later: seqs[1], record: record}}
		first := s.get("all", "/feed/v1/events?purpose=measurement&cursor="+Earliest)
		if first.status != 200 || !slices.Equal(first.rows, []string{"n1", "n2", "n3"}) || first.CaughtUp {
			t.Fatalf("got %d %s, want what comes before it", first.status, first.text)
		}
		next := s.get("all", "/feed/v1/events?purpose=measurement&cursor="+first.Cursor)
		if next.status != 503 || !strings.Contains(next.Hint, "newer") {
			t.Errorf("got %d %s, want an error that says why", next.status, next.text)
		}
		s.Feed.pages = pages{stream: s.stream}
		if got, _ := s.all("purpose=measurement", first.Cursor); !slices.Equal(got, []string{"n5", "n6", "n7", "n9", "n10", "n11"}) {
			t.Errorf("on a newer node: got %v, want the rest", got)
		}
	}
}

// Frames that age out while they are read are not passed over: the follower learns that it must read the table.
func TestAgedOutWhileRead(t *testing.T) {
	s := openSite(t, engine.Options{Dir: t.TempDir()}, stream.Options{})
	for range 4 {
		s.send("shop", 4)
	}
	s.load()
	begin, err := s.Cursor(t.Context(), Earliest)
	if err != nil {
		t.Fatal(err)
	}
	last, err := s.stream.Last(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	source := &spoiled{Stream: s.stream, aged: last - 1, late: true}
	f := New(Options{Stream: source, Tables: s.lake, IDs: testIDs})
	_, _, err = f.Read(t.Context(), begin, Query{Purpose: purpose.Measurement, Limit: 10, Bytes: 1 << 20}, 0, func([]byte, int) error {
		t.Error("got rows behind a gap")
		return nil
	})
	expired, ok := errors.AsType[*Expired](err)
	if !ok || expired.Snapshot == 0 || expired.Cursor == "" {
		t.Fatalf("got %v, want an expired cursor", err)
	}
	f = New(Options{Stream: &spoiled{Stream: s.stream, aged: last}, Tables: noTables{}, IDs: testIDs})
	if _, err := f.Cursor(t.Context(), f.Text(begin)); !errors.As(err, &expired) || expired.Snapshot != 0 || expired.Cursor != "" {
		t.Errorf("without a snapshot: got %v, %+v", err, expired)
	}
	f.o.Tables = away{}
	if _, err := f.Cursor(t.Context(), f.Text(begin)); !errors.Is(err, errTable) {
		t.Errorf("without the tables: got %v, want %v", err, errTable)
	}
}

// noTables is a lake before its first commit.
type noTables struct{}

func (noTables) Snapshot(context.Context, int64) (lake.Snapshot, error) {
	return lake.Snapshot{}, lake.ErrNotFound
}

// away are tables that cannot be read.
type away struct{}

func (away) Snapshot(context.Context, int64) (lake.Snapshot, error) {
	return lake.Snapshot{}, errors.New("no answer")
}
