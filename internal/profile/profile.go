// Package profile lets a process write profiles of itself.
package profile

import (
	"bytes"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"syscall"
)

// Start begins a processor profile; stop writes cpu.pprof and memory.pprof into a directory. The signal SIGUSR1 starts
// the processor profile again: what came before was preparation. "" does nothing.
func Start(dir string) (stop func() error, err error) {
	if dir == "" {
		return func() error { return nil }, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	var cpu bytes.Buffer
	if err := pprof.StartCPUProfile(&cpu); err != nil {
		return nil, err
	}
	anew, done, ended := make(chan os.Signal, 1), make(chan struct{}), make(chan error, 1)
	signal.Notify(anew, syscall.SIGUSR1)
	go func() {
		for {
			select {
			case <-anew:
				pprof.StopCPUProfile()
				cpu.Reset()
				if err := pprof.StartCPUProfile(&cpu); err != nil {
					ended <- err
					return
				}
			case <-done:
				pprof.StopCPUProfile()
				ended <- nil
				return
			}
		}
	}()
	return func() error {
		close(done)
		if err := <-ended; err != nil {
			return err
		}
		m, err := os.Create(filepath.Join(dir, "memory.pprof"))
		if err != nil {
			return err
		}
		runtime.GC() // so that what is in use is what is really in use
		return errors.Join(pprof.Lookup("allocs").WriteTo(m, 0), m.Close(),
			os.WriteFile(filepath.Join(dir, "cpu.pprof"), cpu.Bytes(), 0o600))
	}, nil
}
