package stranger

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	root    = "../.."
	version = "v0.0.0-test"
)

// dist is the release, made once, for this machine's platform.
var dist string

func TestMain(m *testing.M) {
	code := 1
	defer func() { os.Exit(code) }()
	dir, err := os.MkdirTemp("", "sluice-release-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer os.RemoveAll(dir)
	dist = filepath.Join(dir, "dist")
	if err := release(dist); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	code = m.Run()
}

// release makes a release for one platform; make release without PLATFORMS makes all.
func release(to string) error {
	_, err := run(root, nil, "make", "release", "VERSION="+version, "PLATFORMS=linux/amd64", "SENDERS=", "DIST="+to)
	return err
}

// run runs a command in a directory and gives its output, trimmed.
func run(dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var out, words strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &words
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", cmd, err, out.String(), words.String())
	}
	return strings.TrimSpace(out.String()), nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// unpacked is the release's archive of programs, unpacked, and where the programs are.
func unpacked(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	name := "sluice-" + version + "-linux-amd64"
	_, err := run(dir, nil, "tar", "xzf", filepath.Join(dist, name+".tar.gz"))
	must(t, err)
	return filepath.Join(dir, name)
}

// A release has its files, the checksums of all of them, and programs that need nothing of the machine that runs them.
func TestRelease(t *testing.T) {
	out, err := run(dist, nil, "sha256sum", "--check", "SHA256SUMS")
	must(t, err)
	for _, name := range []string{
		"sluice-" + version + "-linux-amd64.tar.gz", "sluice-" + version + "-linux-amd64.image.tar.gz", "sluice-" + version + ".sbom.json",
		"sluice-client-1.0.0.tgz", "sluice_client-1.0.0-py3-none-any.whl",
	} {
		if !strings.Contains(out, name+": OK") {
			t.Errorf("got %s, want a checksum of %s", out, name)
		}
	}
	dir := unpacked(t)
	for _, program := range []string{"sluice", "sluice-send"} {
		f, err := elf.Open(filepath.Join(dir, program))
		must(t, err)
		for _, p := range f.Progs {
			if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
				t.Errorf("%s is linked dynamically", program)
			}
		}
		for _, s := range f.Sections {
			if s.Name == ".symtab" || strings.HasPrefix(s.Name, ".debug_") {
				t.Errorf("%s is not stripped: it has %s", program, s.Name)
			}
		}
		must(t, f.Close())
		said, err := run(dir, nil, "./"+program, "--version")
		must(t, err)
		if !strings.HasPrefix(said, program+" "+version+" (commit ") || strings.Contains(said, "commit unknown") {
			t.Errorf("got %q, want version and commit", said)
		}
	}
	b, err := os.ReadFile(filepath.Join(dist, "sluice-"+version+".sbom.json"))
	must(t, err)
	var sbom struct {
		Format     string `json:"bomFormat"`
		Components []struct{ Name, Version, Purl string }
	}
	must(t, json.Unmarshal(b, &sbom))
	found := false
	for _, c := range sbom.Components {
		found = found || c.Name == "github.com/nats-io/nats-server/v2" && strings.HasPrefix(c.Version, "v2.") && strings.HasPrefix(c.Purl, "pkg:golang/github.com/nats-io/nats-server/v2@v2.")
	}
	if sbom.Format != "CycloneDX" || len(sbom.Components) < 20 || !found {
		t.Errorf("got %d components, NATS among them: %v", len(sbom.Components), found)
	}
}

// A second release of the same source has the same bytes.
func TestReleaseIsReproducible(t *testing.T) {
	again := filepath.Join(t.TempDir(), "dist")
	must(t, release(again))
	first, err := os.ReadFile(filepath.Join(dist, "SHA256SUMS"))
	must(t, err)
	second, err := os.ReadFile(filepath.Join(again, "SHA256SUMS"))
	must(t, err)
	if !bytes.Equal(first, second) {
		t.Errorf("got\n%swant\n%s", second, first)
	}
}

// imageConfig is what the image says about itself.
func imageConfig(t *testing.T) (config []byte) {
	t.Helper()
	f, err := os.Open(filepath.Join(dist, "sluice-"+version+"-linux-amd64.image.tar.gz"))
	must(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	must(t, err)
	for files := tar.NewReader(z); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return config
		}
		must(t, err)
		if strings.HasSuffix(h.Name, ".json") && h.Name != "manifest.json" {
			config, err = io.ReadAll(files)
			must(t, err)
		}
	}
}

func TestImageIsLocked(t *testing.T) {
	got := string(imageConfig(t))
	for _, want := range []string{
		`"User":"65532:65532"`, `"Test":["CMD","/sluice","health"]`, `"Entrypoint":["/sluice"]`, `"Cmd":["serve"]`, `"Volumes":{"/data":{}}`,
		`"created":"1970-01-01T00:00:00Z"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
