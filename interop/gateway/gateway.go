// Package gateway starts a real S3 server, versitygw, as a process of its own, for tests.
package gateway

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// What the server is called by.
const (
	AccessKey = "test"
	SecretKey = "testsecret"
	Bucket    = "tables"
	Region    = "us-east-1"
)

// Build builds the server into a new directory and returns its path. source is where tools/s3 lies.
func Build(source string) (string, error) {
	dir, err := os.MkdirTemp("", "gateway")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "versitygw")
	build := exec.Command("go", "build", "-o", path, "github.com/versity/versitygw/cmd/versitygw")
	build.Dir = source
	build.Env = append(os.Environ(), "GOFLAGS=-mod=mod")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the S3 server: %w\n%s", err, out)
	}
	return path, nil
}

// Gateway is a running server with one bucket.
type Gateway struct {
	URL string
	Dir string // of the bucket: objects are files
	cmd *exec.Cmd
}

// Start runs the server over a directory until Stop.
func Start(program, root string) (*Gateway, error) {
	g := &Gateway{Dir: filepath.Join(root, Bucket)}
	if err := os.Mkdir(g.Dir, 0o700); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := l.Addr().String()
	_ = l.Close()
	g.URL = "http://" + address
	g.cmd = exec.Command(program, "--port", address, "posix", root)
	g.cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+AccessKey, "ROOT_SECRET_KEY="+SecretKey)
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var words bytes.Buffer
	g.cmd.Stdout, g.cmd.Stderr = &words, &words
	if err := g.cmd.Start(); err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(20 * time.Second); ; {
		c, err := net.Dial("tcp", address)
		if err == nil {
			return g, c.Close()
		}
		if time.Now().After(deadline) {
			g.Stop()
			return nil, fmt.Errorf("the S3 server does not listen: %s", words.String())
		}
		<-time.After(20 * time.Millisecond)
	}
}

// Stop ends the server.
func (g *Gateway) Stop() {
	_ = g.cmd.Process.Kill()
	_ = g.cmd.Wait()
}
