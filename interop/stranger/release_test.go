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
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	root    = "../.."
	version = "v1.0.0"
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
	_, err := run(root, nil, "make", "release", "PLATFORMS=linux/amd64", "SENDERS=windows/amd64", "DIST="+to)
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
		"sluice-send-" + version + "-windows-amd64.zip", "sluice-client-1.0.0.tgz", "sluice_client-1.0.0-py3-none-any.whl",
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
		for _, how := range []string{"version", "--version"} {
			said, err := run(dir, nil, "./"+program, how)
			must(t, err)
			if !regexp.MustCompile(`^` + program + ` 1\.0\.0 \(commit [0-9a-f]{40}, go1\.[^)]*\)$`).MatchString(said) {
				t.Errorf("got %q, want version, commit and Go version", said)
			}
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

// link is a link of Markdown to something that is no address of its own.
var link = regexp.MustCompile(`\]\(([^)#:\s]+)(#[^)]*)?\)`)

// Whoever follows a link of a page in an archive finds what it names.
func TestLinksOfTheArchives(t *testing.T) {
	dir := unpacked(t)
	sender := "sluice-send-" + version + "-windows-amd64"
	_, err := run(dir, nil, "python3", "-m", "zipfile", "-e", filepath.Join(dist, sender+".zip"), ".")
	must(t, err)
	pages, links := 0, 0
	must(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".md") {
			return err
		}
		pages++
		text, err := os.ReadFile(name)
		for _, m := range link.FindAllSubmatch(text, -1) {
			links++
			if _, err := os.Stat(filepath.Join(filepath.Dir(name), string(m[1]))); err != nil {
				t.Errorf("%s: %s is not in the archive", strings.TrimPrefix(name, dir), m[1])
			}
		}
		return err
	}))
	if _, err := os.Stat(filepath.Join(dir, sender, "sending.md")); err != nil || pages < 15 || links < 100 {
		t.Errorf("%d pages with %d links, %v: the test shows nothing", pages, links, err)
	}
}

// The commands of the archive's README are those of its programs.
func TestReadmeOfTheArchive(t *testing.T) {
	dir := unpacked(t)
	readme, err := os.ReadFile(filepath.Join(dir, "README.md"))
	must(t, err)
	if !strings.HasPrefix(string(readme), "# Sluice 1.0.0\n") {
		t.Errorf("it begins with %.30q", readme)
	}
	commands := regexp.MustCompile(`(?m)^\./(sluice.*?)(\s+#.*)?$`).FindAllSubmatch(readme, -1)
	for _, m := range commands {
		_, err := run(dir, nil, "./sluice", append(strings.Fields(string(m[1]))[1:], "--help")...)
		must(t, err)
	}
	if len(commands) < 4 {
		t.Errorf("%d commands: the test shows nothing", len(commands))
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
		`"created":"1970-01-01T00:00:00Z"`, `"org.opencontainers.image.version":"1.0.0"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
