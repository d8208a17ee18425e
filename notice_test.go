package sluice

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func run(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(name, args...)
	var problem bytes.Buffer
	cmd.Stderr = &problem
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, problem.String())
	}
	return out
}

// NOTICE has every module that a program links, with its license.
func TestNoticeIsComplete(t *testing.T) {
	got, err := os.ReadFile("NOTICE")
	if err != nil {
		t.Fatal(err)
	}
	list, texts, _ := strings.Cut(string(got), "\n"+strings.Repeat("=", 80)+"\n")
	linked := map[string]bool{"Go standard library": true, "uplot 1.6.32": true, "@fontsource-variable/inter 5.3.0": true}
	dirs := map[string]string{}
	for _, system := range []string{"linux", "darwin", "windows"} {
		t.Setenv("GOOS", system)
		for line := range strings.Lines(string(run(t, "go", "list", "-deps", "-f",
			"{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}", "./cmd/sluice", "./cmd/sluice-send"))) {
			if name, dir, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
				linked[name], dirs[name] = true, dir
			}
		}
	}
	if len(linked) < 10 {
		t.Errorf("only %d modules: the test shows nothing", len(linked))
	}
	for name := range linked {
		if !strings.Contains(list, "\n"+name+": ") || !strings.Contains(texts, "\n  "+name+"\n") {
			t.Errorf("%s is not in NOTICE with its license: run make notice", name)
		}
	}
	words := strings.Join(strings.Fields(texts), " ")
	for name, dir := range dirs {
		for _, file := range []string{"LICENSE", "LICENSE.txt", "LICENSE.md", "COPYING", "NOTICE"} {
			text, err := os.ReadFile(filepath.Join(dir, file))
			if err == nil && !strings.Contains(words, strings.Join(strings.Fields(string(text)), " ")) {
				t.Errorf("%s of %s is not in NOTICE as it is: run make notice", file, name)
			}
		}
	}
	for line := range strings.Lines(list) {
		if name, _, ok := strings.Cut(line, ": "); ok && !linked[name] {
			t.Errorf("NOTICE has %s, which no program links: run make notice", name)
		}
	}
}

// What is installed from the SDKs names the license of LICENSE.
func TestSDKsNameTheLicense(t *testing.T) {
	license, err := os.ReadFile("LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	if text := string(license); !strings.Contains(text, "Apache License") || !strings.Contains(text, "Version 2.0") {
		t.Fatal("LICENSE is another one: change what the SDKs name")
	}
	var node struct{ License string }
	b, err := os.ReadFile(filepath.Join("sdk", "node", "package.json"))
	if err == nil {
		err = json.Unmarshal(b, &node)
	}
	if err != nil || node.License != "Apache-2.0" {
		t.Errorf("sdk/node: got license %q, %v, want Apache-2.0", node.License, err)
	}
	wheel := strings.TrimSpace(string(run(t, "python3", filepath.Join("sdk", "python", "build_wheel.py"), t.TempDir())))
	metadata := run(t, "python3", "-c", "import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); print(z.read(next(n for n in z.namelist() if n.endswith('/METADATA'))).decode())", wheel)
	head, _, _ := strings.Cut(string(metadata), "\n\n")
	if !strings.Contains(head, "\nLicense: Apache-2.0\n") {
		t.Errorf("sdk/python: the wheel's metadata names no license:\n%s", head)
	}
}

// The document about a program has every module that Go says is in it, each with a license, and is the same each time.
func TestSBOM(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "sluice-send")
	run(t, "go", "build", "-o", program, "./cmd/sluice-send")
	out := run(t, "tools/sbom", "v1.2.3", program)
	if again := run(t, "tools/sbom", "v1.2.3", program); !bytes.Equal(out, again) {
		t.Error("the same program gives two documents")
	}
	var doc struct {
		BOMFormat, SpecVersion string
		Components             []struct {
			PURL     string
			Licenses []struct{ License struct{ ID string } }
		}
		Dependencies []struct{ DependsOn []string }
	}
	if err := json.Unmarshal(out, &doc); err != nil {
		t.Fatal(err)
	}
	if doc.BOMFormat != "CycloneDX" || doc.SpecVersion != "1.5" {
		t.Errorf("got %s %s", doc.BOMFormat, doc.SpecVersion)
	}
	found := map[string]bool{}
	for _, c := range doc.Components {
		purl, _, _ := strings.Cut(c.PURL, "?") // behind it is the system
		found[purl] = len(c.Licenses) > 0 && c.Licenses[0].License.ID != ""
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range info.Deps {
		if !found["pkg:golang/"+m.Path+"@"+m.Version] {
			t.Errorf("%s %s is not in the document with a license", m.Path, m.Version)
		}
	}
	if len(doc.Dependencies) == 0 || len(doc.Dependencies[0].DependsOn) != len(info.Deps) {
		t.Errorf("got dependencies %v, want those of the program first, %d modules", doc.Dependencies, len(info.Deps))
	}
}

// What we give to others for deployment keeps secrets in memory off the disk, is bounded, and names exactly what it is made of.
func TestDeploy(t *testing.T) {
	read := func(path string) string {
		t.Helper()
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	unit := read("deploy/sluice.service")
	for _, line := range []string{"LimitCORE=0", "MemorySwapMax=0", "NoNewPrivileges=yes"} {
		if !strings.Contains(unit, "\n"+line+"\n") {
			t.Errorf("the unit has no %s", line)
		}
	}
	if !regexp.MustCompile(`\nMemoryMax=\S+\n`).MatchString(unit) || strings.Contains(unit, "OOMScoreAdjust") {
		t.Error("the unit has no MemoryMax, or a privilege over the OOM killer")
	}
	for _, from := range regexp.MustCompile(`(?m)^FROM\s+(\S+)`).FindAllStringSubmatch(read("deploy/Dockerfile"), -1) {
		if from[1] != "scratch" && !strings.Contains(from[1], "@sha256:") {
			t.Errorf("the base image %s is not named by its digest", from[1])
		}
	}
	if !strings.Contains("\n"+read(".dockerignore"), "\n*\n") {
		t.Error(".dockerignore lets in what is not named")
	}
}
