package stream

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// bareFile is the reference for Append: callers that wait together share one write and one sync of a plain file.
type bareFile struct {
	f    *os.File
	mu   sync.Mutex
	cond sync.Cond
	open *bareGroup
}

type bareGroup struct {
	buf  []byte
	done chan struct{}
	err  error
}

func (b *bareFile) append(record []byte) error {
	b.mu.Lock()
	if b.open == nil {
		b.open = &bareGroup{done: make(chan struct{})}
		b.cond.Signal()
	}
	g := b.open
	g.buf = append(g.buf, record...)
	b.mu.Unlock()
	<-g.done
	return g.err
}

func (b *bareFile) run(ctx context.Context) {
	context.AfterFunc(ctx, func() { b.mu.Lock(); b.cond.Broadcast(); b.mu.Unlock() })
	for {
		b.mu.Lock()
		for b.open == nil && ctx.Err() == nil {
			b.cond.Wait()
		}
		g := b.open
		b.open = nil
		b.mu.Unlock()
		if g == nil {
			return
		}
		if _, g.err = b.f.Write(g.buf); g.err == nil {
			g.err = b.f.Sync()
		}
		close(g.done)
	}
}

// BenchmarkAppend measures the group commit against a bare file with the same callers and records, and prints the ratio
// of their throughputs: on a noisy machine that is the figure to trust.
func BenchmarkAppend(b *testing.B) {
	for _, c := range []struct{ callers, size int }{{1, 500}, {64, 500}, {512, 500}, {16, 200_000}} {
		b.Run(fmt.Sprintf("callers=%d/size=%d", c.callers, c.size), func(b *testing.B) {
			record := make([]byte, c.size)
			f, err := os.Create(filepath.Join(b.TempDir(), "bare"))
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			bare := &bareFile{f: f}
			bare.cond.L = &bare.mu
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			go bare.run(ctx)
			s := runStream(b, openEngine(b, b.TempDir()), Options{})
			b.SetBytes(int64(c.size))
			b.ResetTimer()
			cpu := cpuTime(b)
			ours := spread(b, c.callers, func() error { _, err := s.Append(ctx, record); return err })
			b.StopTimer()
			cpu = cpuTime(b) - cpu
			st := s.Stats()
			ref := spread(b, c.callers, func() error { return bare.append(record) })
			b.ReportMetric(float64(b.N)/ours.Seconds(), "appends/s")
			b.ReportMetric(float64(cpu.Microseconds())/float64(b.N), "cpu-µs/op")
			b.ReportMetric(ref.Seconds()/ours.Seconds(), "of-bare-file")
			b.ReportMetric(float64(st.Records)/float64(st.Frames), "records/frame")
		})
	}
}

// spread calls do b.N times from so many goroutines.
func spread(b *testing.B, callers int, do func() error) time.Duration {
	b.Helper()
	return spreadOver(b, b.N, callers, do)
}

func spreadOver(b *testing.B, n, callers int, do func() error) time.Duration {
	b.Helper()
	start := time.Now()
	var left atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := do(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return time.Since(start)
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var ru syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &ru); err != nil {
		b.Fatal(err)
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}

// BenchmarkScan measures how fast a reader drains frames of the size a loaded server writes.
func BenchmarkScan(b *testing.B) {
	for _, size := range []int{1_000, 300_000, 1_000_000} {
		b.Run(fmt.Sprintf("frame=%d", size), func(b *testing.B) {
			s := runStream(b, openEngine(b, b.TempDir()), Options{})
			record := make([]byte, size)
			const total = 64 << 20
			n := min(total/size, 4000)
			if err := each(16, n, func() error { _, err := s.Append(b.Context(), record); return err }); err != nil {
				b.Fatal(err)
			}
			var bytes int64
			cpu := cpuTime(b)
			for b.Loop() {
				if err := s.Scan(b.Context(), 0, 0, func(f Frame) error {
					for _, r := range f.Records {
						bytes += int64(len(r))
					}
					return f.Damaged
				}); err != nil {
					b.Fatal(err)
				}
			}
			cpu = cpuTime(b) - cpu
			b.SetBytes(bytes / int64(b.N))
			b.ReportMetric(cpu.Seconds()*1e9/float64(bytes), "cpu-ns/B")
		})
	}
}

func each(callers, n int, do func() error) error {
	var left atomic.Int64
	left.Store(int64(n))
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for left.Add(-1) >= 0 && errs[i] == nil {
				errs[i] = do()
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// BenchmarkKeyJournal measures how long a start reads the journal of 30 million keys, by the time for two million.
func BenchmarkKeyJournal(b *testing.B) {
	const keys, block = 2_000_000, 10_000
	j := keyJournal{dir: b.TempDir(), stream: "a"}
	if _, err := j.load(new(keyTable), 1); err != nil {
		b.Fatal(err)
	}
	for i := range uint64(keys) {
		k := testKey(i)
		j.add(&k, Position{Seq: i + 1})
		if i%block == block-1 {
			if err := j.flush([]uint64{i + 1}); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := j.close([]uint64{keys}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		j, table := keyJournal{dir: j.dir, stream: "a"}, new(keyTable)
		if _, err := j.load(table, 1); err != nil || table.len() != keys {
			b.Fatal(table.len(), err)
		}
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)*30_000_000/keys, "s/30M-keys")
}

// BenchmarkAppendKeyed measures records with a key beside the same ones without, in turns.
func BenchmarkAppendKeyed(b *testing.B) {
	s := runStream(b, openEngine(b, b.TempDir()), Options{})
	record := make([]byte, 500)
	var key atomic.Int64
	var took, cpu [2]time.Duration
	keyed := func() error {
		_, err := s.AppendKeyed(b.Context(), strconv.FormatInt(key.Add(1), 10), record)
		return err
	}
	plain := func() error {
		_, err := s.Append(b.Context(), record)
		return err
	}
	b.ReportAllocs()
	const rounds = 20
	for i := range 2 * rounds {
		before := cpuTime(b)
		took[i%2] += spreadOver(b, b.N/rounds+1, 64, []func() error{keyed, plain}[i%2])
		cpu[i%2] += cpuTime(b) - before
	}
	b.ReportMetric(float64(took[1])/float64(took[0]), "rate-of-plain")
	b.ReportMetric(float64(cpu[0])/float64(max(cpu[1], 1)), "cpu-of-plain")
}
