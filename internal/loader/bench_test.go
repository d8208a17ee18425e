package loader

import (
	"context"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"sluice/event"
	"sluice/internal/lake"
	"sluice/internal/stream"
	"sluice/internal/submission"
	"sluice/internal/traffictest"
)

// standardFrames are frames as the service makes them of batches of 500 events.
func standardFrames(b *testing.B, n int) (list []stream.Frame) {
	source := traffictest.New(traffictest.Standard, 1)
	var d event.Decoder
	for i := range n {
		body := string(source.AppendBatch(nil, "shop", noon.Unix(), 500))
		res, problem := d.Decode(body, event.Batch, event.Policy{DatasetID: "shop"}, noon)
		if problem != nil {
			b.Fatal(problem)
		}
		s := &submission.Submission{
			Kind: submission.Batch, Base: submission.NewBase(noon), ReceivedAt: noon.Unix(), DatasetID: "shop", Rows: res.Rows,
		}
		list = append(list, stream.Frame{Seq: uint64(i + 1), Time: noon, Records: [][]byte{record(s)}})
	}
	return list
}

// BenchmarkLoad carries 200,000 events from frames in memory into a table on disk. Trust the processor time: it
// holds on a busy machine better than the time that passes.
func BenchmarkLoad(b *testing.B) {
	const events = 200_000
	list := standardFrames(b, events/500)
	b.ReportAllocs()
	var cpu time.Duration
	for b.Loop() {
		dir := b.TempDir()
		l, err := lake.OpenDir(b.Context(), filepath.Join(dir, "lake"), lake.Options{Now: func() time.Time { return noon }})
		if err != nil {
			b.Fatal(err)
		}
		loader, err := New(Options{
			Stream: &frames{list}, Lake: l, Quarantine: filepath.Join(dir, "quarantine"),
			Now: func() time.Time { return noon }, Age: 10 * time.Millisecond,
		})
		if err != nil {
			b.Fatal(err)
		}
		before := used(b)
		ctx, cancel := context.WithCancel(b.Context())
		done := make(chan error, 1)
		go func() { done <- loader.Run(ctx) }()
		for loader.Watermark(0) < uint64(len(list)) {
			<-time.After(time.Millisecond)
		}
		cancel()
		if err := <-done; err != nil {
			b.Fatal(err)
		}
		cpu += used(b) - before
	}
	b.ReportMetric(float64(cpu.Nanoseconds())/float64(b.N)/events, "cpu-ns/event")
}

func used(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
