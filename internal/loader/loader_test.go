package loader

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"sluice/event"
	"sluice/internal/campaign"
	"sluice/internal/engine"
	"sluice/internal/hours"
	"sluice/internal/lake"
	"sluice/internal/stream"
	"sluice/internal/submission"
)

var noon = time.Date(2026, 11, 14, 12, 0, 0, 0, time.UTC)

// made is a submission of n events, and one rejection.
func made(n int, dataset string) *submission.Submission {
	s := &submission.Submission{
		Kind: submission.Batch, Base: submission.NewBase(noon), ReceivedAt: noon.Unix(), DatasetID: dataset,
		Rejections: []event.Rejection{{Code: event.MissingField, Field: "/timestamp", Count: 2, Events: 1}},
	}
	for i := range n {
		s.Rows = append(s.Rows, event.Row{
			SubmissionIndex: int32(i), ReceivedAt: noon.Unix(), DatasetID: dataset, EventTime: noon.Unix() - int64(i),
			EventType: "purchase", CampaignID: dataset, SchemaVersion: "1.0", IFA: fmt.Sprintf("ifa-%d", i),
			Value: 2.5, HasValue: true, CurrencyCode: "EUR", OptimizationEligible: true,
		})
	}
	return s
}

// testIDs are the submission ids of a secret that all tests share.
var testIDs = func() *submission.IDs {
	ids, err := submission.NewIDs(make([]byte, 32))
	if err != nil {
		panic(err) // the length of the secret is right
	}
	return ids
}()

func record(s *submission.Submission) []byte { return submission.AppendRecord(nil, s) }

// frames is a stream that is already complete.
type frames struct{ list []stream.Frame }

func (f *frames) Partitions() int { return 1 }

func (f *frames) Last(context.Context, uint8) (uint64, error) { return f.list[len(f.list)-1].Seq, nil }

func (f *frames) Follow(
	ctx context.Context, _ uint8, from uint64, _ time.Duration, yield func(stream.Frame) error,
) error {
	for _, frame := range f.list {
		if frame.Seq >= from {
			if err := yield(frame); err != nil {
				return err
			}
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

func openLake(t *testing.T, dir string, step func(string) error) *lake.Lake {
	t.Helper()
	l, err := lake.OpenDir(t.Context(), dir, lake.Options{Now: func() time.Time { return noon }, Step: step})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// start runs a loader until the test ends or the returned function is called.
func start(t *testing.T, o Options) (*Loader, func()) {
	t.Helper()
	o.IDs = testIDs
	if o.Now == nil {
		o.Now = func() time.Time { return noon }
	}
	if o.Age == 0 {
		o.Age = 10 * time.Millisecond
	}
	if o.Settle == 0 {
		o.Settle = o.Age // with each commit
	}
	l, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	stopped := false
	stop := func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	}
	t.Cleanup(stop)
	return l, stop
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("waited too long for %s", what)
		case <-tick.C:
		}
	}
}

// checkEvents holds the table of events against what was sent, and returns that by id.
func checkEvents(t *testing.T, l *lake.Lake, sent []*submission.Submission) map[event.ID]event.Row {
	t.Helper()
	want := map[event.ID]event.Row{}
	for _, s := range sent {
		for _, r := range s.Rows {
			want[r.EventID] = r
		}
	}
	n := 0
	for row, err := range l.Scan(t.Context(), lake.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		if w, ok := want[row.EventID]; !ok || !reflect.DeepEqual(*row, w) {
			t.Fatalf("got %+v, want %+v", *row, w)
		}
	}
	if n != len(want) {
		t.Errorf("got %d rows, want %d", n, len(want))
	}
	return want
}

// check holds the lake against what was sent: every table, to the event.
func check(t *testing.T, l *lake.Lake, sent []*submission.Submission) {
	t.Helper()
	want := checkEvents(t, l, sent)
	rejected := int64(0)
	for _, s := range sent {
		for _, r := range s.Rejections {
			rejected += int64(r.Events)
		}
	}
	got := int64(0)
	if err := l.ScanRejections(t.Context(), lake.RejectionQuery{}, func(r *lake.Rejection) error {
		got += r.Events
		return nil
	}); err != nil || got != rejected {
		t.Errorf("got %d rejected events, %v, want %d", got, err, rejected)
	}
	accepted, byCampaign, sum := int64(0), int64(0), 0.0
	if err := l.ScanHours(t.Context(), lake.NumberQuery{}, func(h *lake.Hour) error {
		if h.Kind == hours.KindEvents && h.Field == hours.FieldAccepted {
			accepted += h.Count
		}
		if h.Kind == campaign.KindEvents {
			byCampaign += h.Count
		}
		if h.Kind == hours.KindRejections {
			sum += h.Value
		}
		return nil
	}); err != nil || accepted != int64(len(want)) || byCampaign != accepted || sum != float64(rejected) {
		t.Errorf("got %d accepted, %d by campaign and %v rejected in hours, %v, want %d and %d", accepted, byCampaign, sum, err, len(want), rejected)
	}
}

// placed is the submission as it reads at its place.
func placed(t *testing.T, s *submission.Submission, seq uint64, slot uint16) *submission.Submission {
	t.Helper()
	out, err := testIDs.DecodeRecord(string(record(s)), 0, seq, slot)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestDamageStopsNothing(t *testing.T) {
	dir, quarantineDir := t.TempDir(), t.TempDir()
	a, b, c := made(3, "d1"), made(5, "d2"), made(2, "d1")
	src := &frames{[]stream.Frame{
		{Seq: 1, Records: [][]byte{record(a)}},
		{Seq: 2, Damaged: stream.ErrDamaged, Raw: []byte("not a frame")},
		{Seq: 6, Missing: 3, Records: [][]byte{record(b)}},
		{Seq: 7, Records: [][]byte{[]byte("\x01not a record"), record(c)}},
	}}
	sent := []*submission.Submission{placed(t, a, 1, 0), placed(t, b, 6, 0), placed(t, c, 7, 1)}
	lk := openLake(t, dir, nil)
	l, stop := start(t, Options{Stream: src, Lake: lk, Quarantine: quarantineDir})
	until(t, "the last frame", func() bool { return l.Watermark(0) == 7 })
	check(t, lk, sent)
	stop()
	for range 2 { // what is known survives, and is counted once
		s := l.Stats()
		if s.Damaged != 2 || s.Missing != 3 {
			t.Errorf("got %d damaged, %d missing, want 2 and 3", s.Damaged, s.Missing)
		}
		l, stop = start(t, Options{Stream: src, Lake: openLake(t, t.TempDir(), nil), Quarantine: quarantineDir})
		until(t, "the last frame", func() bool { return l.Watermark(0) == 7 })
		stop()
	}
	raw, err := os.ReadFile(quarantineDir + "/0-2.frame")
	if err != nil || string(raw) != "not a frame" {
		t.Errorf("got %q, %v, want the bytes of the frame", raw, err)
	}
	info, err := os.Stat(quarantineDir + "/0-7-0.record")
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v, want a file for the owner only", info, err)
	}
}

// A crash at any step of any commit, then a new process: each event is there once, in each table.
func TestCrashAtEveryStep(t *testing.T) {
	src := &frames{}
	var sent []*submission.Submission
	for seq := uint64(1); seq <= 4; seq++ {
		s := made(4, fmt.Sprint("d", seq%2))
		src.list = append(src.list, stream.Frame{Seq: seq, Records: [][]byte{record(s)}})
		sent = append(sent, placed(t, s, seq, 0))
	}
	var steps []string
	record := func(name string) error {
		steps = append(steps, name)
		return nil
	}
	l, stop := start(t, Options{Stream: src, Lake: openLake(t, t.TempDir(), record), Quarantine: t.TempDir(), MaxRows: 8})
	until(t, "the last frame", func() bool { return l.Watermark(0) == 4 })
	stop()
	if len(steps) < 20 || !slices.Contains(steps, "events.committed") {
		t.Fatalf("got steps %v, want those of two commits to three tables", steps)
	}
	for i, name := range steps {
		t.Run(fmt.Sprint(i, name), func(t *testing.T) {
			dir, quarantineDir := t.TempDir(), t.TempDir()
			var n, crashed atomic.Int64
			crash := errors.New("crash")
			lk := openLake(t, dir, func(string) error {
				if n.Add(1) > int64(i) {
					crashed.Add(1)
					return crash // and so does every step after it: the process is gone
				}
				return nil
			})
			_, stop := start(t, Options{Stream: src, Lake: lk, Quarantine: quarantineDir, MaxRows: 8})
			until(t, "the crash", func() bool { return crashed.Load() > 0 })
			stop()
			lk = openLake(t, dir, nil)
			l, stop := start(t, Options{Stream: src, Lake: lk, Quarantine: quarantineDir, MaxRows: 12})
			until(t, "the last frame", func() bool { return l.Watermark(0) == 4 })
			stop()
			check(t, lk, sent)
		})
	}
}

// A full disk is waited out: nothing is lost, nothing doubled, and it is said.
func TestTroubleIsWaitedOut(t *testing.T) {
	s := made(10, "d")
	src := &frames{[]stream.Frame{{Seq: 1, Records: [][]byte{record(s)}}}}
	var full atomic.Bool
	full.Store(true)
	lk := openLake(t, t.TempDir(), func(string) error {
		if full.Load() {
			return errors.New("no space left on device")
		}
		return nil
	})
	l, _ := start(t, Options{Stream: src, Lake: lk, Quarantine: t.TempDir()})
	until(t, "a second attempt", func() bool { return l.Stats().Failures >= 2 })
	if l.Stats().Failure.Error == "" {
		t.Error("got no error in the stats, want one")
	}
	full.Store(false)
	until(t, "the frame", func() bool { return l.Watermark(0) == 1 })
	check(t, lk, []*submission.Submission{placed(t, s, 1, 0)})
	if e := l.Stats().Failure.Error; e != "" {
		t.Errorf("got error %q, want none any more", e)
	}
}

// openStream runs a stream on an embedded engine until the test ends.
func openStream(t testing.TB) (*engine.Engine, *stream.Stream) {
	t.Helper()
	e, err := engine.Open(t.Context(), engine.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	st, err := stream.Open(t.Context(), e, stream.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- st.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ran; st.Close() })
	return e, st
}

func TestRealStream(t *testing.T) {
	e, st := openStream(t)

	lk := openLake(t, t.TempDir(), nil)
	quarantineDir := t.TempDir()
	o := Options{Stream: st, Lake: lk, IDs: testIDs, Quarantine: quarantineDir, Engine: e, Now: time.Now}
	var sent []*submission.Submission
	last := uint64(0)
	send := func() {
		s := made(50, "shop")
		at, err := st.Append(t.Context(), record(s))
		if err != nil {
			t.Fatal(err)
		}
		last = at.Seq
		sent = append(sent, placed(t, s, at.Seq, at.Slot))
	}
	send()
	l, stop := start(t, o)
	for range 20 {
		send()
	}
	until(t, "all frames", func() bool { return l.Watermark(0) == last })

	// Another node stands by, sees the watermark, and takes over when the first one goes.
	l2, _ := start(t, o)
	until(t, "the watermark", func() bool { return l2.Watermark(0) == last })
	if l2.Stats().Partitions[0].Held {
		t.Error("got two loaders of one partition, want one")
	}
	stop()
	send()
	until(t, "the other loader", func() bool { return l2.Watermark(0) == last })
	check(t, lk, sent)
}
