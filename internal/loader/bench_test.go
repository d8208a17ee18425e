package loader

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"sluice/event"
	"sluice/internal/lake"
	"sluice/internal/stream"
)

// cpu is the processor time this process has used: on a busy machine the clock on the wall says little.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkLoad is the cost of an event from its frame to the tables.
func BenchmarkLoad(b *testing.B) {
	hash := fmt.Sprintf("%064x", 12345)
	var list []stream.Frame
	for seq := range uint64(200) {
		s := made(500, fmt.Sprint("shop-", seq%10))
		for i := range s.Rows {
			r := &s.Rows[i]
			r.EventType = []string{"purchase", "lead", "page_view"}[i%3]
			r.PageURL = fmt.Sprintf("https://shop.example/products/%d?utm_source=mail", i)
			r.EmailSHA256, r.IPSHA256 = hash, hash
			r.Privacy = event.Outcome(i % 2)
		}
		list = append(list, stream.Frame{Seq: seq + 1, Records: [][]byte{record(s)}})
	}
	l, err := lake.Open(b.Context(), lake.Options{Dir: b.TempDir(), Now: func() time.Time { return noon }})
	if err != nil {
		b.Fatal(err)
	}
	kept, err := openAside(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	p := &partition{l: &Loader{o: Options{Lake: l, Now: func() time.Time { return noon }, MaxRows: 1 << 30, MaxSize: 1 << 30}, aside: kept}}
	used, events := cpu(), 0
	seq := uint64(0)
	for b.Loop() {
		batch := newBatch(p, lake.Marks{Events: seq, Rejections: seq, Hours: seq})
		for _, f := range list {
			seq++
			f.Seq = seq
			if err := batch.add(f); err != nil {
				b.Fatal(err)
			}
		}
		events += len(batch.Events)
		if err := p.commit(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((cpu()-used).Nanoseconds())/float64(events), "cpu-ns/event")
	b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
}
