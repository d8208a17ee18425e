// Package gateway starts real S3 servers as processes of their own, for tests: versitygw over a directory, and gofakes3,
// which shares no code with it, over a database file. With S3_SERVER=minio it is MinIO in place of versitygw.
package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// What the server is called by.
const (
	AccessKey = "test"
	SecretKey = "testsecret"
	Bucket    = "tables"
	Region    = "us-east-1"
)

// IsMinIO says that the tests run with MinIO, which takes minutes to build: the objects of its bucket are no plain files.
var IsMinIO = os.Getenv("S3_SERVER") == "minio"

// Build builds versitygw into a new directory and returns its path. source is where tools/s3 lies.
func Build(source string) (string, error) {
	if IsMinIO {
		return build(filepath.Join(filepath.Dir(source), "minio"), "github.com/minio/minio")
	}
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

	Versions string // where objects are that were deleted; "" keeps none

	command func(address string) *exec.Cmd
	cmd     *exec.Cmd
	words   bytes.Buffer  // what the server printed; read it once ended is closed
	ended   chan struct{} // closed once the process is gone
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
	if IsMinIO {
		return startMinIO(program, root)
	}
	g := &Gateway{Dir: filepath.Join(root, Bucket)}
	if err := os.Mkdir(g.Dir, 0o700); err != nil {
		return nil, err
	}
	g.command = func(address string) *exec.Cmd {
		cmd := exec.Command(program, "--port", address, "posix", root)
		cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+AccessKey, "ROOT_SECRET_KEY="+SecretKey)
		return cmd
	}
	return g, g.run()
}

func startMinIO(program, root string) (*Gateway, error) {
	g := &Gateway{command: func(address string) *exec.Cmd {
		cmd := exec.Command(program, "server", "--quiet", "--address", address, root)
		cmd.Env = append(os.Environ(), "MINIO_ROOT_USER="+AccessKey, "MINIO_ROOT_PASSWORD="+SecretKey, "MINIO_UPDATE=off", "MINIO_BROWSER=off")
		return cmd
	}}
	if err := g.run(); err != nil {
		return nil, err
	}
	c, err := g.client()
	if err == nil {
		err = retry(20*time.Second, func(ctx context.Context) error { return c.MakeBucket(ctx, Bucket, minio.MakeBucketOptions{}) })
	}
	if err != nil {
		g.Stop()
		return nil, err
	}
	return g, nil
}

// retry calls something again until it works, or for so long: a server that listens may not answer yet.
func retry(within time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	for {
		err := do(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (g *Gateway) client() (*minio.Client, error) {
	return minio.New(strings.TrimPrefix(g.URL, "http://"), &minio.Options{Creds: credentials.NewStaticV4(AccessKey, SecretKey, ""), Region: Region})
}

// StartVersioned is Start with a bucket that keeps versions of what is deleted; with lock nobody can delete those either.
func StartVersioned(program, root string, lock bool) (*Gateway, error) {
	objects := filepath.Join(root, "objects")
	g := &Gateway{Dir: filepath.Join(objects, Bucket), Versions: filepath.Join(root, "versions")}
	if err := errors.Join(os.Mkdir(objects, 0o700), os.Mkdir(g.Versions, 0o700)); err != nil {
		return nil, err
	}
	g.command = func(address string) *exec.Cmd {
		cmd := exec.Command(program, "--port", address, "posix", "--versioning-dir", g.Versions, objects)
		cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+AccessKey, "ROOT_SECRET_KEY="+SecretKey)
		return cmd
	}
	if err := g.run(); err != nil {
		return nil, err
	}
	if err := g.makeBucket(lock); err != nil {
		g.Stop()
		return nil, err
	}
	return g, nil
}

func (g *Gateway) makeBucket(lock bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c, err := g.client()
	if err != nil {
		return err
	}
	if err := c.MakeBucket(ctx, Bucket, minio.MakeBucketOptions{ObjectLocking: lock}); err != nil {
		return err
	}
	return c.EnableVersioning(ctx, Bucket)
}

// Kept counts the versions that the server keeps of objects that were deleted or replaced.
func (g *Gateway) Kept() (n int, err error) {
	if g.Versions == "" {
		return 0, nil
	}
	err = filepath.WalkDir(g.Versions, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			n++
		}
		return err
	})
	return n, err
}

// StartSecond runs gofakes3 until Stop. It verifies no signature, and keeps objects in memory: with its database file it
// reads objects from a map of the file that is gone once the file grows, and ends with a fault.
func StartSecond(program string) (*Gateway, error) {
	g := &Gateway{command: func(address string) *exec.Cmd {
		return exec.Command(program, "-host", address, "-backend", "memory", "-initialbucket", Bucket, "-quiet")
	}}
	return g, g.run()
}

// run starts a server on a free port of this machine, and waits until it listens.
func (g *Gateway) run() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	_ = l.Close()
	g.URL = "http://" + l.Addr().String()
	return g.Restart()
}

// Restart starts a server that was stopped, at the same address, and waits until it listens.
func (g *Gateway) Restart() error {
	address := strings.TrimPrefix(g.URL, "http://")
	g.cmd = g.command(address)
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	g.words.Reset()
	g.cmd.Stdout, g.cmd.Stderr = &g.words, &g.words
	if err := g.cmd.Start(); err != nil {
		return err
	}
	cmd, ended := g.cmd, make(chan struct{})
	g.ended = ended
	go func() { _ = cmd.Wait(); close(ended) }()
	deadline := time.After(20 * time.Second)
	for {
		c, err := net.Dial("tcp", address)
		if err == nil {
			return c.Close()
		}
		select {
		case <-ended:
			return g.Fate()
		case <-deadline:
			g.Stop()
			return fmt.Errorf("the S3 server does not listen: %s", g.words.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Fate is nil while the server runs; else how it ended, and what it printed.
func (g *Gateway) Fate() error {
	select {
	case <-g.ended:
		return fmt.Errorf("the S3 server ended by itself: %s: %s", g.cmd.ProcessState, g.words.String())
	default:
		return nil
	}
}

// Stop ends the server.
func (g *Gateway) Stop() {
	_ = g.cmd.Process.Kill()
	<-g.ended
}
