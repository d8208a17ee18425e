// Package gateway starts real S3 servers as processes of their own, for tests: versitygw over a directory, and gofakes3,
// which shares no code with it, over a database file.
package gateway

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path"
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

// Build builds versitygw into a new directory and returns its path. source is where tools/s3 lies.
func Build(source string) (string, error) {
	return build(source, "github.com/versity/versitygw/cmd/versitygw")
}

// BuildSecond builds gofakes3 as Build does versitygw.
func BuildSecond(source string) (string, error) {
	return build(source, "github.com/johannesboyne/gofakes3/cmd/gofakes3")
}

func build(source, name string) (string, error) {
	dir, err := os.MkdirTemp("", "gateway")
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, path.Base(name))
	build := exec.Command("go", "build", "-o", program, name)
	build.Dir = source
	build.Env = append(os.Environ(), "GOFLAGS=-mod=mod")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the S3 server: %w\n%s", err, out)
	}
	return program, nil
}

// Gateway is a running server with one bucket.
type Gateway struct {
	URL string
	Dir string // of the bucket: objects are files; "" for the second server
	cmd *exec.Cmd
}

// Properties are the settings by which programs that read Iceberg tables reach the bucket.
func (g *Gateway) Properties() map[string]string {
	return map[string]string{
		"s3.endpoint": g.URL, "s3.region": Region, "s3.access-key-id": AccessKey, "s3.secret-access-key": SecretKey,
		"s3.force-virtual-addressing": "false",
	}
}

// Start runs versitygw over a directory until Stop.
func Start(program, root string) (*Gateway, error) {
	g := &Gateway{Dir: filepath.Join(root, Bucket)}
	if err := os.Mkdir(g.Dir, 0o700); err != nil {
		return nil, err
	}
	return g, g.run(func(address string) *exec.Cmd {
		cmd := exec.Command(program, "--port", address, "posix", root)
		cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+AccessKey, "ROOT_SECRET_KEY="+SecretKey)
		return cmd
	})
}

// StartSecond runs gofakes3 over a database file in a directory until Stop. It verifies no signature.
func StartSecond(program, root string) (*Gateway, error) {
	g := &Gateway{}
	return g, g.run(func(address string) *exec.Cmd {
		return exec.Command(program, "-host", address, "-backend", "bolt", "-bolt.db", filepath.Join(root, "objects.db"), "-initialbucket", Bucket, "-quiet")
	})
}

// run starts a server on a free port of this machine, and waits until it listens.
func (g *Gateway) run(command func(address string) *exec.Cmd) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	address := l.Addr().String()
	_ = l.Close()
	g.URL = "http://" + address
	g.cmd = command(address)
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var words bytes.Buffer
	g.cmd.Stdout, g.cmd.Stderr = &words, &words
	if err := g.cmd.Start(); err != nil {
		return err
	}
	for deadline := time.Now().Add(20 * time.Second); ; {
		c, err := net.Dial("tcp", address)
		if err == nil {
			return c.Close()
		}
		if time.Now().After(deadline) {
			g.Stop()
			return fmt.Errorf("the S3 server does not listen: %s", words.String())
		}
		<-time.After(20 * time.Millisecond)
	}
}

// Stop ends the server.
func (g *Gateway) Stop() {
	_ = g.cmd.Process.Kill()
	_ = g.cmd.Wait()
}
