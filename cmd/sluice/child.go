package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// child is this program running as another process, so that what it uses can be told from what its user uses.
type child struct {
	cmd *exec.Cmd
	url string
}

// startChild runs a command of this program that logs where it serves, and waits for that line. Everything it
// logs above info goes to words.
func startChild(ctx context.Context, words io.Writer, args ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.CommandContext(ctx, self, append(args, "--log-format", "json")...)}
	c.cmd.Cancel = func() error { return c.cmd.Process.Signal(syscall.SIGTERM) }
	c.cmd.WaitDelay = time.Minute
	lines, err := c.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	address := make(chan string, 1)
	go func() {
		defer close(address)
		follow(lines, words, address)
	}()
	select {
	case url, ok := <-address:
		if !ok {
			return nil, errors.Join(errors.New("the server ended before it served"), c.cmd.Wait())
		}
		c.url = url
		return c, nil
	case <-time.After(30 * time.Second):
		return nil, errors.Join(errors.New("the server does not begin to serve"), c.stop())
	}
}

// follow reads the log of a child to its end.
func follow(lines io.Reader, words io.Writer, address chan<- string) {
	scan := bufio.NewScanner(lines)
	for scan.Scan() {
		var line struct {
			Level string `json:"level"`
			Msg   string `json:"msg"`
			API   string `json:"api"`
		}
		if json.Unmarshal(scan.Bytes(), &line) == nil && (line.Level == "INFO" || line.Level == "DEBUG") {
			if line.Msg == "serving" && line.API != "" {
				address <- line.API
			}
			continue
		}
		fmt.Fprintln(words, scan.Text())
	}
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// stop asks the child to end and waits until it has.
func (c *child) stop() error {
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return c.cmd.Wait()
}

// profileFlag adds a flag, not shown to people, by which a process writes profiles of itself when it ends. The signal
// SIGUSR1 begins the processor's anew: what came before was preparation.
func profileFlag(cmd *cobra.Command) func() (stop func() error, err error) {
	dir := cmd.Flags().String("profile", "", "write cpu.pprof and memory.pprof into this directory at the end")
	_ = cmd.Flags().MarkHidden("profile")
	return func() (func() error, error) {
		if *dir == "" {
			return func() error { return nil }, nil
		}
		if err := os.MkdirAll(*dir, 0o700); err != nil {
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
			m, err := os.Create(filepath.Join(*dir, "memory.pprof"))
			if err != nil {
				return err
			}
			runtime.GC() // so that what is in use is what is really in use
			return errors.Join(pprof.Lookup("allocs").WriteTo(m, 0), m.Close(),
				os.WriteFile(filepath.Join(*dir, "cpu.pprof"), cpu.Bytes(), 0o600))
		}, nil
	}
}
