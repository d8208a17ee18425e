package stranger

import (
	"archive/zip"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A program outside of the repository uses the Go SDK under the path with which it is published, through a module proxy.
func TestGoModuleFromOutside(t *testing.T) {
	const module, release = "example.com/owner/sluice", "v1.2.3"
	dir := t.TempDir()
	source := filepath.Join(dir, "source")
	_, err := run(root, nil, "make", "publish-path", "MODULE="+module, "DEST="+source)
	must(t, err)
	proxy := filepath.Join(dir, "proxy")
	writeModule(t, source, filepath.Join(proxy, filepath.FromSlash(module), "@v"), module, release)

	shop := filepath.Join(dir, "shop")
	must(t, os.Mkdir(shop, 0o700))
	must(t, os.WriteFile(filepath.Join(shop, "go.mod"), []byte("module example.com/shop\n\ngo 1.26\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(shop, "main.go"), []byte(`package main

import (
	"fmt"

	"`+module+`/client"
	"`+module+`/event"
)

func main() {
	_, err := client.New("no address", "no key", client.Options{})
	hash, _ := client.HashEmail(" Jane@Example.com ")
	fmt.Println(hash, err != nil, len(event.Types()))
}
`), 0o600))
	// Other modules come from what this machine has already: a cache of modules is a proxy, too.
	cache, err := run(root, nil, "go", "env", "GOMODCACHE")
	must(t, err)
	env := []string{
		"GOPROXY=file://" + proxy + ",file://" + filepath.Join(cache, "cache", "download"), "GONOSUMDB=*", "GONOSUMCHECK=1", "GOFLAGS=-mod=mod -modcacherw",
		"GOMODCACHE=" + filepath.Join(dir, "cache"), "GOWORK=off",
	}
	_, err = run(shop, env, "go", "get", module+"/client@"+release)
	must(t, err)
	out, err := run(shop, env, "go", "run", ".")
	must(t, err)
	if want := "8c87b489ce35cf2e2f39f80e282cb2e804932a56a213983eeeb428407d43b52d true 45"; out != want {
		t.Errorf("got %q, want %q", out, want)
	}
	if b, err := os.ReadFile(filepath.Join(root, "go.mod")); err != nil || !strings.HasPrefix(string(b), "module sluice\n") {
		t.Errorf("the tree has changed: %v %s", err, b[:min(len(b), 80)])
	}
}

// writeModule puts a version of a module where a file proxy has it. Directories with a go.mod of their own are not a part of it.
func writeModule(t *testing.T, source, to, module, release string) {
	t.Helper()
	must(t, os.MkdirAll(to, 0o700))
	f, err := os.Create(filepath.Join(to, release+".zip"))
	must(t, err)
	z := zip.NewWriter(f)
	must(t, filepath.WalkDir(source, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil && path != source {
				return fs.SkipDir
			}
			return nil
		}
		name, err := filepath.Rel(source, path)
		if err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		w, err := z.Create(module + "@" + release + "/" + filepath.ToSlash(name))
		if err != nil {
			return err
		}
		_, err = w.Write(b)
		return err
	}))
	must(t, z.Close())
	must(t, f.Close())
	b, err := os.ReadFile(filepath.Join(source, "go.mod"))
	must(t, err)
	for name, text := range map[string]string{
		release + ".mod": string(b), release + ".info": `{"Version":"` + release + `","Time":"2026-01-01T00:00:00Z"}`, "list": release + "\n",
	} {
		must(t, os.WriteFile(filepath.Join(to, name), []byte(text), 0o600))
	}
}
