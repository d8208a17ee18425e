package stream

import (
	"encoding/binary"
	"testing"
	"time"

	"sluice/internal/engine"
	"sluice/internal/enginetest"
)

// BenchmarkMove moves frames of four records of 700 bytes, one of them with a key, into three servers.
func BenchmarkMove(b *testing.B) {
	const frames = 20_000
	from := openEngine(b, b.TempDir())
	ps, err := from.Partitions(b.Context(), engine.PartitionOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer ps.Close()
	for last := uint64(0); last < frames; {
		run := make([][]byte, 250)
		for i := range run {
			frame := beginFrame(nil)
			for range 4 {
				frame = appendRecord(frame, make([]byte, 700))
			}
			var k slotKey
			binary.BigEndian.PutUint64(k.key[len(k.key)-8:], (last+uint64(i))*0x9E3779B97F4A7C15)
			frame = appendKeys(frame, []slotKey{k})
			sealFrame(frame, 4)
			run[i] = frame
		}
		if last, err = ps.List[0].PublishRun(b.Context(), last, run); err != nil {
			b.Fatal(err)
		}
	}
	nodes := enginetest.StartCluster(b, 3)
	to := openCluster(b, engine.Options{URL: nodes.URL(), Token: enginetest.Token, Replicas: 3, Join: true})
	b.ResetTimer()
	for b.Loop() {
		m, err := OpenMove(b.Context(), MoveOptions{
			From: from, To: to, Limits: engine.PartitionOptions{Count: 3, Origin: &engine.Origin{ID: ps.ID, Created: time.Unix(1, 0)}},
		})
		if err != nil {
			b.Fatal(err)
		}
		begun := time.Now()
		if n, err := m.Frames(b.Context()); err != nil || n != frames {
			b.Fatalf("got %d frames, %v", n, err)
		}
		half := time.Now()
		if n, err := m.Keys(b.Context()); err != nil || n != frames {
			b.Fatalf("got %d keys, %v", n, err)
		}
		b.ReportMetric(frames/half.Sub(begun).Seconds(), "frames/s")
		b.ReportMetric(frames/time.Since(half).Seconds(), "keys/s")
		m.Close()
	}
}
