package loader

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"sluice/event"
	"sluice/internal/hours"
	"sluice/internal/lake"
	"sluice/internal/stream"
	"sluice/internal/submission"
)

// parts is a stream of several partitions that is already complete. Each has the frames that follow.
type parts struct{ list [][]stream.Frame }

func (f *parts) Partitions() int { return len(f.list) }

func (f *parts) Last(_ context.Context, p uint8) (uint64, error) {
	return f.list[p][len(f.list[p])-1].Seq, nil
}

func (f *parts) Follow(
	ctx context.Context, p uint8, from uint64, gather time.Duration, yield func(stream.Frame) error,
) error {
	return (&frames{f.list[p]}).Follow(ctx, p, from, gather, yield)
}

// someParts are n partitions of so many frames each.
func someParts(t *testing.T, n, each int) (*parts, []*submission.Submission) {
	t.Helper()
	src, sent := &parts{}, []*submission.Submission{}
	for p := range n {
		var list []stream.Frame
		for seq := uint64(1); seq <= uint64(each); seq++ {
			s := made(4, fmt.Sprint("d", seq%2))
			list = append(list, stream.Frame{Seq: seq, Records: [][]byte{record(s)}})
			at, err := testIDs.DecodeRecord(string(record(s)), uint8(p), seq, 0)
			if err != nil {
				t.Fatal(err)
			}
			sent = append(sent, at)
		}
		src.list = append(src.list, list)
	}
	return src, sent
}

func allLoaded(l *Loader, src *parts) func() bool {
	return func() bool {
		for p, list := range src.list {
			if l.Watermark(uint8(p)) < list[len(list)-1].Seq {
				return false
			}
		}
		return true
	}
}

func versionOf(l *lake.Lake, table string) int64 {
	for _, t := range l.Stats().Tables {
		if t.Name == table {
			return t.Version
		}
	}
	return 0
}

// All partitions share a commit: its cost does not grow with their number.
func TestPartitionsShareACommit(t *testing.T) {
	src, sent := someParts(t, 5, 3)
	lk := openLake(t, t.TempDir(), nil)
	before := versionOf(lk, "events")
	l, stop := start(t, Options{Stream: src, Lake: lk, Quarantine: t.TempDir(), Age: 200 * time.Millisecond})
	until(t, "all partitions", allLoaded(l, src))
	stop()
	check(t, lk, sent)
	if n := versionOf(lk, "events") - before; n > 2 {
		t.Errorf("got %d commits for 5 partitions with 3 frames each, want one, or two if the machine is slow", n)
	}
	if files, err := lk.Files(t.Context(), "events"); err != nil || len(files) > 2 {
		t.Errorf("got %d files, %v, want one for each commit", len(files), err)
	}
}

// accepted is what an index shows.
func accepted(x *hours.Index) int64 {
	v := x.View()
	defer v.Close()
	return v.All().Totals(hours.NewWindow(time.Hour, 24, noon)).Accepted
}

func inTable(t *testing.T, l *lake.Lake) (n int64) {
	t.Helper()
	err := l.ScanHours(t.Context(), lake.NumberQuery{}, func(h *lake.Hour) error {
		if h.Kind == hours.KindEvents && h.Field == hours.FieldAccepted {
			n += h.Count
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// growing is a stream of one partition to which frames are added.
type growing struct {
	list chan stream.Frame
	all  []stream.Frame
}

func (g *growing) Partitions() int { return 1 }

func (g *growing) Last(context.Context, uint8) (uint64, error) { return uint64(len(g.all)), nil }

func (g *growing) Follow(
	ctx context.Context, _ uint8, from uint64, _ time.Duration, yield func(stream.Frame) error,
) error {
	for _, f := range g.all {
		if f.Seq >= from {
			if err := yield(f); err != nil {
				return err
			}
		}
	}
	for {
		select {
		case f := <-g.list:
			if err := yield(f); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Rejections and hours are committed less often than events. Numbers that people see do not wait for them; a clean stop
// and Flush bring them; a crash in between loses and doubles nothing.
func TestCountsFollow(t *testing.T) {
	dir := t.TempDir()
	src := &growing{list: make(chan stream.Frame)}
	var sent []*submission.Submission
	next := func() stream.Frame {
		s := made(4, "shop")
		seq := uint64(len(sent) + 1)
		sent = append(sent, placed(t, s, seq, 0))
		return stream.Frame{Seq: seq, Records: [][]byte{record(s)}}
	}
	lk := openLake(t, dir, nil)
	x := hours.NewIndex(lk)
	shown := func(want int) func() bool {
		return func() bool {
			if err := x.Read(t.Context(), noon); err != nil {
				t.Fatal(err)
			}
			return accepted(x) == int64(want)
		}
	}
	o := Options{Stream: src, Lake: lk, IDs: testIDs, Quarantine: t.TempDir(), Settle: time.Hour}
	l, stop := start(t, o)
	for range 3 {
		src.list <- next()
		until(t, "the events", func() bool { return l.Watermark(0) == uint64(len(sent)) })
		until(t, "the numbers", shown(4*len(sent)))
	}
	if n := inTable(t, lk); n != 0 {
		t.Errorf("got %d events in hours, want none before they are due", n)
	}
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	check(t, lk, sent)
	if !shown(4 * len(sent))() {
		t.Errorf("got %d shown, want %d: those of the table and of memory together", accepted(x), 4*len(sent))
	}
	src.list <- next()
	until(t, "the events", func() bool { return l.Watermark(0) == uint64(len(sent)) })
	stop()
	check(t, lk, sent)
	if !shown(4 * len(sent))() {
		t.Errorf("got %d shown after the stop, want %d", accepted(x), 4*len(sent))
	}
}

// Counts that are old enough are committed without a new frame.
func TestCountsFollowWithoutFrames(t *testing.T) {
	src, sent := someParts(t, 2, 2)
	lk := openLake(t, t.TempDir(), nil)
	l, _ := start(t, Options{Stream: src, Lake: lk, Quarantine: t.TempDir(), Settle: 300 * time.Millisecond})
	until(t, "all partitions", allLoaded(l, src))
	until(t, "the counts", func() bool {
		w, err := lk.Watermarks(t.Context(), 1)
		return err == nil && w.Least() == 2
	})
	check(t, lk, sent)
}

// A crash at any step while counts wait in memory, then a new process, twice: each event is there once, in each table.
func TestCrashWhileCountsWait(t *testing.T) {
	src, sent := someParts(t, 2, 3)
	var n atomic.Int64
	lk := openLake(t, t.TempDir(), func(string) error { n.Add(1); return nil })
	l, stop := start(t, Options{Stream: src, Lake: lk, Quarantine: t.TempDir(), MaxRows: 8, Settle: time.Hour})
	until(t, "all partitions", allLoaded(l, src))
	stop()
	steps := n.Load()
	if steps < 15 {
		t.Fatalf("got %d steps, want those of some commits of events and one of counts", steps)
	}
	for i := range steps {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel() // they wait for the disk most of the time
			dir, quarantineDir := t.TempDir(), t.TempDir()
			for _, last := range []int64{i, steps - i} {
				var n, crashed atomic.Int64
				lk := openLake(t, dir, func(string) error {
					if n.Add(1) > last {
						crashed.Add(1)
						return errors.New("crash") // and so does every step after it: the process is gone
					}
					return nil
				})
				l, stop := start(t, Options{Stream: src, Lake: lk, Quarantine: quarantineDir, MaxRows: 8, Settle: time.Hour})
				done := allLoaded(l, src)
				until(t, "the crash", func() bool { return crashed.Load() > 0 || done() })
				stop()
			}
			lk := openLake(t, dir, nil)
			l, stop := start(t, Options{Stream: src, Lake: lk, Quarantine: quarantineDir, MaxRows: 12, Settle: time.Hour})
			until(t, "all counts", func() bool { // frames whose events are there are read again for them
				settled := l.Flush() == nil
				for p := range src.list {
					w, err := lk.Watermarks(t.Context(), uint8(p))
					settled = settled && err == nil && w.Least() == 3
				}
				return settled
			})
			stop()
			check(t, lk, sent)
		})
	}
}

// Rejections that wait for their commit keep no text of a submission: each would keep a frame in memory.
func TestRejectionsKeepNoFrame(t *testing.T) {
	frame := "shop\x00INVALID_VALUE\x00/value"
	s := &assignment{}
	s.reject(&submission.Submission{
		Kind: submission.Rejected, DatasetID: frame[:4],
		Rejections: []event.Rejection{{Code: event.Code(frame[5:18]), Field: frame[19:], Count: 1, Events: 1}},
	})
	begin := uintptr(unsafe.Pointer(unsafe.StringData(frame)))
	for _, text := range []string{s.rejections[0].DatasetID, s.rejections[0].Code, s.rejections[0].Field} {
		if at := uintptr(unsafe.Pointer(unsafe.StringData(text))); at >= begin && at < begin+uintptr(len(frame)) {
			t.Errorf("got a text that is a part of the frame, want a copy")
		}
	}
	if got := s.rejections[0]; got.DatasetID != "shop" || got.Code != "INVALID_VALUE" || got.Field != "/value" {
		t.Errorf("got %+v, want the rejection", got)
	}
}

// gated is a lake whose commits wait for a word: nil lets one through, an error is its answer.
type gated struct {
	*lake.Lake
	word chan error
}

func (g *gated) Commit(ctx context.Context, b lake.Batch, slack time.Duration) error {
	select {
	case err := <-g.word: // closed: all are let through
		if err != nil {
			return err
		}
		return g.Lake.Commit(ctx, b, slack)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Behind a backlog the next batch fills while a commit is under way, to half, and no more. It waits for its turn; if
// the commit fails, both are loaded again, each row and each count once.
func TestBatchFillsDuringACommit(t *testing.T) {
	src, sent := someParts(t, 2, 12)
	for _, list := range src.list {
		for i := range list {
			list[i].Time = noon.Add(-3 * time.Hour)
		}
	}
	lk := &gated{openLake(t, t.TempDir(), nil), make(chan error)}
	l, stop := start(t, Options{
		Stream: src, Lake: lk, Quarantine: t.TempDir(), Age: time.Hour, Settle: 2 * time.Hour, MaxRows: 8,
	})
	waiting := func() (rows int, watermark uint64) {
		for _, p := range l.Stats().Partitions {
			rows, watermark = rows+p.Pending, watermark+p.Watermark
		}
		return rows, watermark
	}
	until(t, "two batches", func() bool { rows, _ := waiting(); return rows == 12 })
	if _, watermark := waiting(); watermark != 0 {
		t.Fatal("the watermark moved before a commit")
	}
	lk.word <- nil
	until(t, "the first batch, and one more", func() bool {
		rows, watermark := waiting()
		return watermark == 2 && rows == 8
	})
	lk.word <- lake.ErrFenced
	// And frames again whose counts wait.
	until(t, "two batches again", func() bool { rows, _ := waiting(); return rows >= 8 })
	close(lk.word)
	until(t, "all partitions", allLoaded(l, src))
	if rows, _ := waiting(); rows != 0 {
		t.Errorf("%d rows wait though all are loaded", rows)
	}
	stop()
	check(t, lk.Lake, sent)
}

// Counts do not wait when there are many of them: each commit makes all that wait anew.
func TestManyNumbersDoNotWait(t *testing.T) {
	src, events := &frames{}, 0
	for d := range 70 {
		s := made(1000, fmt.Sprint("shop-", d))
		for i := range s.Rows {
			s.Rows[i].CampaignID = fmt.Sprint("campaign-", i)
		}
		placed(t, s, uint64(d+1), 0)
		src.list = append(src.list, stream.Frame{Seq: uint64(d + 1), Records: [][]byte{record(s)}})
		events += len(s.Rows)
	}
	lk := openLake(t, t.TempDir(), nil)
	start(t, Options{Stream: src, Lake: lk, Quarantine: t.TempDir(), MaxRows: 4000, Settle: time.Hour})
	until(t, "counts", func() bool { return inTable(t, lk) > int64(events/2) })
}
