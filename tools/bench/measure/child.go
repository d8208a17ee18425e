package measure

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// child is the program as a process of its own, so that what it uses can be measured apart from what the sender uses.
type child struct {
	cmd *exec.Cmd
	url string
	ops string // address of the operators' listener
}

// startChild runs a command of the program that logs where it serves, and waits for that line. Everything it
// logs above info goes to words.
func startChild(ctx context.Context, program string, words io.Writer, args ...string) (*child, error) {
	c := &child{cmd: exec.CommandContext(ctx, program, args...)}
	c.cmd.Cancel = func() error { return c.cmd.Process.Signal(syscall.SIGTERM) }
	c.cmd.WaitDelay = time.Minute
	lines, err := c.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	address := make(chan serving, 1)
	go func() {
		defer close(address)
		follow(lines, words, address)
	}()
	select {
	case at, ok := <-address:
		if !ok {
			return nil, errors.Join(errors.New("the server ended before it served"), c.cmd.Wait())
		}
		c.url, c.ops = at.API, strings.TrimSuffix(at.Ops, "/")
		return c, nil
	case <-time.After(30 * time.Second):
		return nil, errors.Join(errors.New("the server does not begin to serve"), c.stop())
	}
}

// serving is where a server serves.
type serving struct {
	API string `json:"api"`
	Ops string `json:"ops"`
}

// follow reads the log of a child to its end.
func follow(lines io.Reader, words io.Writer, address chan<- serving) {
	scan := bufio.NewScanner(lines)
	for scan.Scan() {
		var line struct {
			Level string `json:"level"`
			Msg   string `json:"msg"`
			serving
		}
		if json.Unmarshal(scan.Bytes(), &line) == nil && (line.Level == "INFO" || line.Level == "DEBUG") {
			if line.Msg == "serving" && line.API != "" {
				address <- line.serving
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
