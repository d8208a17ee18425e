package bucket

import (
	"context"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"sluice/internal/objectstore"
	s3 "sluice/interop/gateway"
)

const bucket = s3.Bucket

// program is the S3 server, built once.
var program = sync.OnceValues(func() (string, error) { return s3.Build("../../tools/s3") })

// built has the directories to remove at the end.
var (
	builtMu sync.Mutex
	built   []string
)

// buildOnce builds a program, and has its directory removed at the end.
func buildOnce(t *testing.T, program func() (string, error)) string {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	builtMu.Lock()
	defer builtMu.Unlock()
	built = append(built, filepath.Dir(path))
	return path
}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, dir := range built {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// gateway is a real S3 server in its own process, over a directory.
type gateway struct {
	url string
	dir string // of the bucket: objects are files
}

func startGateway(t *testing.T) *gateway {
	t.Helper()
	g, err := s3.Start(buildOnce(t, program), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Stop)
	return &gateway{url: g.URL, dir: g.Dir}
}

func options(url string) objectstore.S3Options {
	return objectstore.S3Options{
		Bucket: bucket, Prefix: "lake", Endpoint: url, Region: s3.Region, PathStyle: true, AccessKey: s3.AccessKey, SecretKey: s3.SecretKey,
		Timeout: 3 * time.Second,
	}
}

func open(t *testing.T, url string) *objectstore.S3 {
	t.Helper()
	s, err := objectstore.OpenS3(context.Background(), options(url))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newSpoiler(t *testing.T, g *gateway) *s3.Spoiler {
	t.Helper()
	p := s3.NewSpoiler(&s3.Gateway{URL: g.url, Dir: g.dir}, httptest.NewServer)
	t.Cleanup(p.Close)
	return p
}
