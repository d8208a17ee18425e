package lake

import (
	"fmt"
	"syscall"
	"testing"
	"time"
)

// cpu is the processor time this process has used: on a busy machine the clock on the wall says little.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkCommit is the cost of a small commit after so many others.
func BenchmarkCommit(b *testing.B) {
	for _, before := range []int{0, 1000} {
		b.Run(fmt.Sprint("after", before), func(b *testing.B) {
			l := openLake(b, Options{})
			rows := newSampler(1, 10, 100).rows(100, noon)
			for range before {
				commit(b, l, rows)
			}
			used := cpu()
			for b.Loop() {
				commit(b, l, rows)
			}
			b.ReportMetric(float64((cpu()-used).Microseconds())/float64(b.N), "cpu-µs/commit")
		})
	}
}

// BenchmarkWrite is the cost of rows in large commits, and their size.
func BenchmarkWrite(b *testing.B) {
	for _, batch := range []int{1, 500} {
		b.Run(fmt.Sprint("batch", batch), func(b *testing.B) {
			l := openLake(b, Options{})
			rows := newSampler(1, 10, batch).rows(100_000, noon)
			used := cpu()
			for b.Loop() {
				commit(b, l, rows)
			}
			st := eventsOf(l)
			b.ReportMetric(float64(st.Bytes)/float64(st.Rows), "bytes/event")
			b.ReportMetric(float64((cpu()-used).Nanoseconds())/float64(st.Rows), "cpu-ns/event")
		})
	}
}

// BenchmarkCompact is the cost of a row in a compaction, and its size after it.
func BenchmarkCompact(b *testing.B) {
	for _, batch := range []int{1, 500} {
		b.Run(fmt.Sprint("batch", batch), func(b *testing.B) {
			var used time.Duration
			var rows, bytes, stored int64
			for b.Loop() {
				b.StopTimer()
				now := noon
				l := openLake(b, Options{Now: func() time.Time { return now }})
				s := newSampler(1, 10, batch)
				for range 8 {
					commit(b, l, s.rows(25_000, noon))
				}
				now = noon.Add(48 * time.Hour)
				begun := cpu()
				b.StartTimer()
				compactAll(b, l)
				used += cpu() - begun
				rows += 200_000
				st := eventsOf(l)
				bytes, stored = bytes+st.Bytes, stored+st.Rows
			}
			b.ReportMetric(float64(bytes)/float64(stored), "bytes/event")
			b.ReportMetric(float64(used.Nanoseconds())/float64(rows), "cpu-ns/event")
		})
	}
}

// BenchmarkScan is the cost of a row that is read whole.
func BenchmarkScan(b *testing.B) {
	l := openLake(b, Options{})
	commit(b, l, newSampler(1, 10, 500).rows(100_000, noon))
	used := cpu()
	n := 0
	for b.Loop() {
		for _, err := range l.Scan(b.Context(), Query{}) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
	}
	b.ReportMetric(float64((cpu()-used).Nanoseconds())/float64(n), "cpu-ns/event")
}
