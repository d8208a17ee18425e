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

// tool builds a program of the folder tools.
func tool(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	run(t, "go", "build", "-o", path, "./tools/"+name)
	return path
}

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
	if want := run(t, tool(t, "sbom"), "-notice"); !bytes.Equal(got, want) {
		t.Error("NOTICE is not what the programs link: run make notice")
	}
	// Asked without the tool: what this system links is in the list.
	out := run(t, "go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}{{end}}{{end}}", "./cmd/sluice", "./cmd/sluice-send")
	modules := 0
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimSpace(line); line != "" {
			modules++
			if !bytes.Contains(got, []byte("\n"+line+": ")) {
				t.Errorf("%s is not in NOTICE", line)
			}
		}
	}
	if modules < 10 {
		t.Errorf("only %d modules: the test shows nothing", modules)
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
	sbom := tool(t, "sbom")
	out := run(t, sbom, "-version", "v1.2.3", program)
	if again := run(t, sbom, "-version", "v1.2.3", program); !bytes.Equal(out, again) {
		t.Error("the same program gives two documents")
	}
	var doc struct {
		BOMFormat, SpecVersion, SerialNumber string
		Components                           []struct {
			PURL     string
			Licenses []struct{ License struct{ ID string } }
		}
		Dependencies []struct{ DependsOn []string }
	}
	if err := json.Unmarshal(out, &doc); err != nil {
		t.Fatal(err)
	}
	if doc.BOMFormat != "CycloneDX" || doc.SpecVersion != "1.6" || !regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(doc.SerialNumber) {
		t.Errorf("got %s %s %s", doc.BOMFormat, doc.SpecVersion, doc.SerialNumber)
	}
	found := map[string]bool{}
	for _, c := range doc.Components {
		found[c.PURL] = len(c.Licenses) == 1 && c.Licenses[0].License.ID != ""
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
	if len(doc.Dependencies) != 1 || len(doc.Dependencies[0].DependsOn) != len(info.Deps)+1 {
		t.Errorf("got dependencies %v, want one list with Go and %d modules", doc.Dependencies, len(info.Deps))
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
