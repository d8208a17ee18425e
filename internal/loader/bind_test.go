package loader

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/engine"
	"sluice/internal/lake"
	"sluice/internal/stream"
	"sluice/internal/submission"
)

// service is an engine with its stream, and the tables that are loaded from it.
type service struct {
	t      *testing.T
	tables string
	engine *engine.Engine
	stream *stream.Stream
	lake   *lake.Lake
	loader *Loader
	stop   func()
	said   bytes.Buffer              // by Bind
	sent   *[]*submission.Submission // of all services that used the tables
}

// serve opens an engine and tables as the server does: what belongs together is bound before anything is written.
func serve(t *testing.T, engineDir, tables string, sent *[]*submission.Submission) *service {
	t.Helper()
	return serveSettling(t, engineDir, tables, sent, 0)
}

// serveSettling is serve with another time until rejections and hours are committed.
func serveSettling(
	t *testing.T, engineDir, tables string, sent *[]*submission.Submission, settle time.Duration,
) *service {
	t.Helper()
	e, err := engine.Open(t.Context(), engine.Options{Dir: engineDir})
	if err != nil {
		t.Fatal(err)
	}
	s := &service{t: t, tables: tables, engine: e, sent: sent}
	if s.stream, err = stream.Open(t.Context(), e, stream.Options{}); err != nil {
		t.Fatal(err)
	}
	clock := func() time.Time { return noon }
	s.lake, err = lake.OpenDir(t.Context(), tables, lake.Options{Now: clock, Stream: s.stream.ID()})
	if err != nil {
		t.Fatal(err)
	}
	if err := Bind(t.Context(), s.stream, s.lake, slog.New(slog.NewTextHandler(&s.said, nil))); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- s.stream.Run(ctx) }()
	var stopLoader func()
	s.loader, stopLoader = start(t, Options{Stream: s.stream, Lake: s.lake, Quarantine: t.TempDir(), Settle: settle})
	closed := false
	s.stop = func() {
		if closed {
			return
		}
		closed = true
		stopLoader()
		cancel()
		<-ran
		s.stream.Close()
		e.Close()
	}
	t.Cleanup(s.stop)
	until(t, "the stream", func() bool { return s.stream.Ready() == nil })
	return s
}

// send appends n submissions and returns the position of the last one.
func (s *service) send(n int) (last stream.Position) {
	s.t.Helper()
	for range n {
		sub := made(5, "shop")
		at, err := s.stream.Append(s.t.Context(), record(sub))
		if err != nil {
			s.t.Fatal(err)
		}
		*s.sent = append(*s.sent, placed(s.t, sub, at.Seq, at.Slot))
		last = at
	}
	return last
}

func (s *service) loaded(at stream.Position) {
	s.t.Helper()
	until(s.t, "the last frame", func() bool { return s.loader.Watermark(0) >= at.Seq })
}

// The stream is lost, and a new one takes its place: the tables go on with it, and each event is there once. Sequence
// numbers go on, so no position means two records.
func TestRecreatedStream(t *testing.T) {
	tables := t.TempDir()
	var sent []*submission.Submission
	last := uint64(0)
	for range 3 {
		s := serve(t, t.TempDir(), tables, &sent)
		at := s.send(7)
		if at.Seq <= last {
			t.Errorf("got sequence number %d, want one above %d, which the tables hold", at.Seq, last)
		}
		last = at.Seq
		s.loaded(at)
		if st := s.loader.Stats(); st.Stopped != "" || st.Damaged != 0 || st.Missing != 0 {
			t.Errorf("got %+v, want nothing stopped, damaged or missing", st)
		}
		s.stop()
	}
	check(t, openLake(t, tables, nil), sent)
}

// A stream that has events already and that the tables know nothing of is not loaded until an operator says what is in
// them.
func TestAnotherStream(t *testing.T) {
	tables, other := t.TempDir(), t.TempDir()
	var sent []*submission.Submission
	first := serve(t, t.TempDir(), tables, &sent)
	first.loaded(first.send(5))
	first.stop()
	second := serve(t, other, t.TempDir(), &sent) // another place, with events of its own
	second.loaded(second.send(3))
	second.stop()

	s := serve(t, other, tables, &sent)
	at := s.send(2)
	until(t, "the loader to stop", func() bool { return s.loader.Stats().Stopped != "" })
	why := s.loader.Stats().Stopped
	if !strings.Contains(why, "another stream") || !strings.Contains(why, "sluice lake adopt") {
		t.Errorf("got %q, want what is wrong and what to do", why)
	}
	if w := s.loader.Watermark(0); w != 0 {
		t.Errorf("got watermark %d, want none: nothing of this stream is stored", w)
	}
	check(t, openLake(t, tables, nil), sent[:5])
	if adopted, err := s.lake.Adopt(t.Context(), map[uint8]uint64{0: 0}); !adopted || err != nil {
		t.Fatalf("got %v, %v", adopted, err)
	}
	s.loaded(at)
	check(t, s.lake, sent)
	if why := s.loader.Stats().Stopped; why != "" {
		t.Errorf("got %q, want loading to go on", why)
	}
	if adopted, err := s.lake.Adopt(t.Context(), map[uint8]uint64{0: 0}); adopted || err != nil {
		t.Errorf("the second time: got %v, %v, want nothing to do", adopted, err)
	}
}

// rewrite changes the newest version of a table as another program may.
func rewrite(t *testing.T, tables, table string, change func(map[string]any)) {
	t.Helper()
	dir := tables + "/" + table + "/metadata/"
	n := 1
	for {
		if _, err := os.Stat(fmt.Sprintf("%sv%d.metadata.json", dir, n+1)); err != nil {
			break
		}
		n++
	}
	b, err := os.ReadFile(fmt.Sprintf("%sv%d.metadata.json", dir, n))
	if err != nil {
		t.Fatal(err)
	}
	var root map[string]any
	if err := json.Unmarshal(b, &root); err != nil {
		t.Fatal(err)
	}
	change(root)
	if b, err = json.Marshal(root); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(fmt.Sprintf("%sv%d.metadata.json", dir, n+1), b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// forget removes members from the properties and from all snapshots.
func forget(names ...string) func(map[string]any) {
	return func(root map[string]any) {
		from := []map[string]any{root["properties"].(map[string]any)}
		for _, snap := range root["snapshots"].([]any) {
			from = append(from, snap.(map[string]any)["summary"].(map[string]any))
		}
		for _, m := range from {
			for _, name := range names {
				delete(m, name)
			}
		}
	}
}

// A table whose watermarks are gone is not loaded again from the start.
func TestLostWatermarks(t *testing.T) {
	for _, table := range []string{"events", "rejections", "hours"} {
		t.Run(table, func(t *testing.T) {
			tables, dir := t.TempDir(), t.TempDir()
			var sent []*submission.Submission
			s := serve(t, dir, tables, &sent)
			at := s.send(5)
			s.loaded(at)
			rewrite(t, tables, table, forget("sluice.watermark", "sluice.stream", "sluice.settled"))
			s.send(1)
			until(t, "the loader to stop", func() bool { return s.loader.Stats().Stopped != "" })
			if why := s.loader.Stats().Stopped; !strings.Contains(why, "no watermark") {
				t.Errorf("got %q, want that there is no watermark", why)
			}
			s.stop()
			s = serve(t, dir, tables, &sent) // a restart changes nothing
			after := s.send(1)
			until(t, "the loader to stop", func() bool { return s.loader.Stats().Stopped != "" })
			if _, err := s.lake.Adopt(t.Context(), map[uint8]uint64{0: at.Seq}); err != nil {
				t.Fatal(err)
			}
			s.loaded(after)
			check(t, s.lake, sent)
		})
	}
}

// A stream that came back older than the tables, as from a backup, lacks frames whose events are stored: nobody says
// that they are damaged or missing.
func TestStreamBehindTheTables(t *testing.T) {
	dir, backup, tables, left := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	var sent []*submission.Submission
	s := serve(t, dir, tables, &sent)
	s.loaded(s.send(5))
	s.stop()
	if err := os.CopyFS(backup, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	s = serveSettling(t, dir, tables, &sent, time.Hour)
	s.loaded(s.send(30))
	// As a crash leaves it: hours and rejections are behind events.
	if err := os.CopyFS(left, os.DirFS(tables)); err != nil {
		t.Fatal(err)
	}
	s.stop()
	w, err := openLake(t, left, nil).Watermarks(t.Context(), 0)
	if err != nil || w.Hours >= w.Events {
		t.Fatalf("got %+v %v, want hours behind events, or the test proves nothing", w, err)
	}

	s = serve(t, backup, left, &sent)
	at := s.send(3)
	if at.Seq <= w.Events {
		t.Errorf("got sequence number %d, want one above %d", at.Seq, w.Events)
	}
	s.loaded(at)
	if st := s.loader.Stats(); st.Stopped != "" || st.Damaged != 0 || st.Missing != 0 {
		t.Errorf("got %+v, want nothing stopped, damaged or missing", st)
	}
	if n := s.stream.Stats().Lost; n != 0 {
		t.Errorf("the stream counts %d lost frames, want none: all are stored", n)
	}
	for _, want := range []string{
		"stream ends before the tables", "All events up to where the tables end are stored", "lack the counts",
	} {
		if !strings.Contains(s.said.String(), want) {
			t.Errorf("got %q, want %q in it", s.said.String(), want)
		}
	}
	s.stop()
	checkEvents(t, openLake(t, left, nil), sent)
	s = serve(t, backup, left, &sent)
	if s.said.Len() > 0 {
		t.Errorf("got %q at the next start, want nothing", s.said.String())
	}
}

// The tables are put back, and then removed, while no event comes: what they lack is loaded again, and their absence is
// told until they are back.
func TestTablesAreHandledByOthers(t *testing.T) {
	tables := t.TempDir()
	var sent []*submission.Submission
	s := serve(t, t.TempDir(), tables, &sent)
	s.loaded(s.send(5))
	copied, whole := filepath.Join(t.TempDir(), "copied"), filepath.Join(t.TempDir(), "whole")
	copyTo := func(to string) { // while the server runs: a file may have another name once it is opened
		t.Helper()
		until(t, "a copy", func() bool {
			_ = os.RemoveAll(to)
			return os.CopyFS(to, os.DirFS(tables)) == nil
		})
	}
	copyTo(copied)
	last := s.send(3)
	s.loaded(last)
	putBack := func(from string) {
		t.Helper()
		if err := os.Rename(tables, filepath.Join(t.TempDir(), "before")); err != nil {
			t.Fatal(err)
		}
		if from == "" {
			return
		}
		if err := os.CopyFS(tables, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
	putBack(copied)
	again := openLake(t, tables, nil)
	until(t, "what the copy lacks", func() bool {
		marks, err := again.Watermarks(t.Context(), 0)
		return err == nil && marks.Events >= last.Seq
	})
	check(t, again, sent)

	copyTo(whole)
	putBack("")
	until(t, "the loader to stop", func() bool { return s.loader.Stats().Stopped != "" })
	why := s.loader.Stats().Stopped
	if !strings.Contains(why, "no table") || !strings.Contains(why, "restart the server") {
		t.Errorf("got %q, want what is wrong and what to do", why)
	}
	if err := os.CopyFS(tables, os.DirFS(whole)); err != nil {
		t.Fatal(err)
	}
	until(t, "loading to go on", func() bool {
		st := s.loader.Stats()
		return st.Stopped == "" && st.Failure.Error == "" && st.Partitions[0].Held
	})
	s.loaded(s.send(1))
	check(t, openLake(t, tables, nil), sent)
}
