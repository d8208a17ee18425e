package loader

import (
	"context"
	"path/filepath"
	"runtime/metrics"
	"testing"
	"time"

	"sluice/event"
	"sluice/internal/lake"
	"sluice/internal/stream"
	"sluice/internal/submission"
	"sluice/internal/traffictest"
)

// backlog is how many events BenchmarkStream loads: as many as sixteen commits take, which one compaction makes one
// file.
const backlog = 16 * 64_000

// BenchmarkStream carries a backlog of about a million events from a stream of a real engine into a table on disk, and
// compacts it. It reports the processor time of both per million events, how many are loaded in a second, the bytes per
// event before and after the compaction, and the most memory that the heap had.
func BenchmarkStream(b *testing.B) {
	_, st := openStream(b)
	last := fill(b, st, backlog)

	var loading, compacting time.Duration
	var rate float64
	var written, compacted, peak int64
	b.ReportAllocs()
	for b.Loop() {
		dir := b.TempDir()
		lk, err := lake.OpenDir(b.Context(), filepath.Join(dir, "lake"), lake.Options{Now: time.Now})
		if err != nil {
			b.Fatal(err)
		}
		stop := watchHeap(&peak)
		before := used(b)
		rate += loadAll(b, st, lk, dir, last)
		between := used(b)
		written += stored(lk)
		for more := true; more; {
			if more, err = lk.Compact(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		loading, compacting = loading+between-before, compacting+used(b)-between
		compacted += stored(lk)
		stop()
	}
	million := float64(b.N) * backlog / 1e6
	b.ReportMetric(loading.Seconds()/million, "load-cpu-s/million")
	b.ReportMetric(rate/float64(b.N), "loaded-events/s")
	b.ReportMetric(compacting.Seconds()/million, "compact-cpu-s/million")
	b.ReportMetric((loading+compacting).Seconds()/million, "cpu-s/million")
	b.ReportMetric(float64(written)/million/1e6, "fresh-bytes/event")
	b.ReportMetric(float64(compacted)/million/1e6, "bytes/event")
	b.ReportMetric(float64(peak)/(1<<20), "heap-MiB")
}

// fill appends batches of 500 events, and returns the position of the last one.
func fill(b *testing.B, st *stream.Stream, events int) (last uint64) {
	source := traffictest.New(traffictest.Standard, 1)
	var d event.Decoder
	now := time.Now()
	for range events / 500 {
		body := string(source.AppendBatch(nil, "shop", now.Unix(), 500))
		res, problem := d.Decode(body, event.Batch, event.Policy{DatasetID: "shop"}, now)
		if problem != nil {
			b.Fatal(problem)
		}
		s := &submission.Submission{
			Kind: submission.Batch, Base: submission.NewBase(now), ReceivedAt: now.Unix(), DatasetID: "shop", Rows: res.Rows,
		}
		at, err := st.Append(b.Context(), record(s))
		if err != nil {
			b.Fatal(err)
		}
		last = at.Seq
	}
	return last
}

// loadAll returns when everything up to last is in the table. It says how many events were loaded in a second by the
// full batches; the last one is not full, and waits for its time.
func loadAll(b *testing.B, st *stream.Stream, lk *lake.Lake, dir string, last uint64) (rate float64) {
	l, err := New(Options{
		Stream: st, Lake: lk, Quarantine: filepath.Join(dir, "quarantine"), Now: time.Now, Age: time.Second,
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	begun, seen := time.Now(), uint64(0)
	for now := uint64(0); now < last; now = l.Watermark(0) {
		if now > seen {
			seen, rate = now, float64(now)*500/time.Since(begun).Seconds()
		}
		<-time.After(time.Millisecond)
	}
	cancel()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
	return rate
}

// stored is how many bytes the files of the table of events have.
func stored(lk *lake.Lake) int64 {
	for _, t := range lk.Stats().Tables {
		if t.Name == "events" {
			return t.Bytes
		}
	}
	return 0
}

// watchHeap raises peak to the most that live and dead objects take, until the returned function is called.
func watchHeap(peak *int64) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		for {
			metrics.Read(sample)
			*peak = max(*peak, int64(sample[0].Value.Uint64()))
			select {
			case <-end:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	return func() { close(end); <-ended }
}
