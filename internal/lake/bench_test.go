package lake

import (
	"fmt"
	"testing"
	"time"
)

func BenchmarkCommits(b *testing.B) {
	l := openLake(b, Options{})
	s := newSampler(1, 10, 100)
	rows := s.rows(500, noon)
	begun := time.Now()
	last := begun
	n := 0
	for b.Loop() {
		n++
		if err := l.Commit(b.Context(), Batch{From: Marks{Events: uint64(n - 1)}, To: uint64(n), Events: rows}); err != nil {
			b.Fatal(err)
		}
		if n == 1 || n%1000 == 0 {
			fmt.Println(n, time.Since(last)/time.Duration(max(1, min(n, 1000))), l.Stats().Tables[2].Manifests, l.Stats().Tables[2].Parts)
			last = time.Now()
		}
	}
}

func BenchmarkWrite(b *testing.B) {
	for _, batch := range []int{1, 500} {
		b.Run(fmt.Sprint("batch", batch), func(b *testing.B) {
			l := openLake(b, Options{})
			rows := newSampler(1, 10, batch).rows(100_000, noon)
			n := 0
			for b.Loop() {
				n++
				if err := l.Commit(b.Context(), Batch{From: Marks{Events: uint64(n - 1)}, To: uint64(n), Events: rows}); err != nil {
					b.Fatal(err)
				}
			}
			st := l.Stats().Tables[2]
			b.ReportMetric(float64(st.Bytes)/float64(st.Rows), "bytes/event")
			b.ReportMetric(float64(st.Rows)/b.Elapsed().Seconds(), "events/s")
		})
	}
}
