package sdk

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sluice/interop/npm"
	"sluice/interop/service"
)

// The SDKs, installed from their packages, and the real service understand each other.
func TestAgainstTheService(t *testing.T) {
	untrusted := httptest.NewUnstartedServer(nil)
	untrusted.Config.ErrorLog = quiet
	untrusted.StartTLS()
	defer untrusted.Close()
	for _, l := range languages() {
		s := service.Start(t, program, "shop")
		cmd := l.start(t, l.smoke, s.URL, s.Key, "UNTRUSTED_URL="+untrusted.URL)
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != "ok\n" {
			t.Errorf("%s: %v\n%s", l.name, err, out)
		}
	}
}

// The tests of each SDK hold for the package as it is installed, not only for the source.
func TestUnitTestsOfPackages(t *testing.T) {
	vectors, err := filepath.Abs(root + "/sdk/vectors.json")
	must(t, err)
	must(t, os.CopyFS(filepath.Join(nodeDir, "test"), os.DirFS(root+"/sdk/node/test")))
	must(t, os.CopyFS(filepath.Join(pyDir, "tests"), os.DirFS(root+"/sdk/python/tests")))
	files, err := filepath.Glob(filepath.Join(nodeDir, "test", "*.test.js"))
	must(t, err)
	node := exec.CommandContext(t.Context(), "node", append([]string{"--test"}, files...)...)
	node.Dir = nodeDir
	python := exec.CommandContext(t.Context(), "python3", "-m", "unittest", "discover", "-s", "tests")
	python.Dir = pyDir
	for _, cmd := range []*exec.Cmd{node, python} {
		cmd.Env = append(os.Environ(), "SLUICE_VECTORS="+vectors, "PYTHONPATH="+pyDir)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", cmd, err, out)
		}
	}
}

// The hashes of sdk/vectors.json are those of a program that is not ours.
func TestVectorsBySha256sum(t *testing.T) {
	data, err := os.ReadFile(root + "/sdk/vectors.json")
	must(t, err)
	var v struct {
		Hash struct {
			Vectors []struct{ Input, Normal, SHA256 string }
		}
	}
	must(t, json.Unmarshal(data, &v))
	if len(v.Hash.Vectors) == 0 {
		t.Fatal("there are no vectors")
	}
	for _, c := range v.Hash.Vectors {
		cmd := exec.Command("sha256sum")
		cmd.Stdin = strings.NewReader(c.Normal)
		out, err := cmd.Output()
		must(t, err)
		if got, _, _ := bytes.Cut(out, []byte(" ")); string(got) != c.SHA256 {
			t.Errorf("%q: sha256sum says %s, the file %s", c.Normal, got, c.SHA256)
		}
	}
}

// The types of the packages hold for programs in TypeScript, as ES module and as CommonJS, and in Python.
func TestTypes(t *testing.T) {
	tools, err := npm.Install()
	must(t, err)
	code, err := os.ReadFile("testdata/types.ts")
	must(t, err)
	names := []string{"types.mts", "types.cts"}
	for _, name := range names {
		must(t, os.WriteFile(filepath.Join(nodeDir, name), code, 0o600))
	}
	_, err = run(nodeDir, filepath.Join(tools, "node_modules/.bin/tsc"), append([]string{
		"--noEmit", "--strict", "--noUncheckedIndexedAccess", "--exactOptionalPropertyTypes", "--module", "node16", "--target", "es2022",
		"--typeRoots", filepath.Join(tools, "node_modules/@types"), "--types", "node",
	}, names...)...)
	if err != nil {
		t.Error(err)
	}
	code, err = os.ReadFile("testdata/types.py")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(pyDir, "check_types.py"), code, 0o600))
	settings, err := os.ReadFile("testdata/pyright.json")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(pyDir, "pyrightconfig.json"), settings, 0o600))
	if _, err := run(pyDir, filepath.Join(tools, "node_modules/.bin/pyright"), "-p", "."); err != nil {
		t.Error(err)
	}
}
