package openapi

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sluice/interop/npm"
	"sluice/interop/service"
)

const root = "../.."

// sent is what every sender prints: the status of an event, the problem of a batch, and what the look-up found.
const sent = "RECEIVED 1 MISSING_FIELD 1 1"

// served writes what the running service serves at path into a file.
func served(t *testing.T, s *service.Service, path, file string) string {
	t.Helper()
	must(t, os.WriteFile(file, s.Get(path), 0o600))
	return file
}

func start(t *testing.T) *service.Service {
	t.Helper()
	program, err := service.Build(root, t.TempDir())
	must(t, err)
	return service.Start(t, program, "shop")
}

// Clients are generated from /openapi.json, they compile, and they send to the service that serves it.
func TestClients(t *testing.T) {
	s := start(t)
	env := append(os.Environ(), "SLUICE_URL="+s.URL, "SLUICE_API_KEY="+s.Key,
		"EMAIL_SHA256=8e43ca37701228e74983efdbd0cff5c16b3b1e5d4e29a7c05626d4d25a018e11")
	t.Run("go", func(t *testing.T) {
		dir := t.TempDir()
		must(t, os.CopyFS(dir, os.DirFS("clients")))
		document := served(t, s, "/openapi.json", filepath.Join(dir, "openapi.json"))
		must(t, os.Mkdir(filepath.Join(dir, "oapi"), 0o700))
		run(t, dir, env, "go", "tool", "oapi-codegen", "-generate", "types,client", "-package", "oapi", "-o", "oapi/api.go", document)
		run(t, dir, env, "go", "tool", "ogen", "--config", "ogen.yml", "--target", "ogen", "--package", "ogen", document)
		for _, name := range []string{"oapi", "ogen"} {
			if got := run(t, dir, env, "go", "run", "./testdata/"+name); got != sent {
				t.Errorf("%s: got %q, want %q", name, got, sent)
			}
		}
	})
	t.Run("typescript", func(t *testing.T) {
		dir, tools := workshop(t)
		document := served(t, s, "/openapi.json", filepath.Join(dir, "openapi.json"))
		code, err := os.ReadFile("testdata/send.ts")
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, "send.ts"), code, 0o600))
		must(t, os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"type":"module"}`), 0o600))
		run(t, dir, env, tools+"openapi-typescript", document, "-o", "api.ts")
		run(t, dir, env, tools+"tsc", "--strict", "--noUncheckedIndexedAccess", "--module", "nodenext", "--target", "es2022", "--types", "node", "send.ts")
		if got := run(t, dir, env, "node", "send.js"); got != sent {
			t.Errorf("got %q, want %q", got, sent)
		}
	})
	if seen := s.Stored(6); len(seen) != 3 {
		t.Errorf("got the orders %v, want two of each client", seen)
	}
}

// Linters find nothing in /openapi.json, and the strictest validator takes the JSON Schema.
func TestLint(t *testing.T) {
	s := start(t)
	dir, tools := workshop(t)
	document := served(t, s, "/openapi.json", filepath.Join(dir, "openapi.json"))
	schema := served(t, s, "/v1/schema/events", filepath.Join(dir, "schema.json"))
	must(t, os.CopyFS(filepath.Join(dir, "testdata"), os.DirFS("testdata")))
	env := append(os.Environ(), "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true")
	run(t, dir, env, tools+"redocly", "lint", "--config", "testdata/redocly.yaml", document)
	run(t, dir, env, tools+"spectral", "lint", "--ruleset", "testdata/spectral.yaml", "--fail-severity", "hint", document)
	if got := run(t, dir, env, "node", "testdata/strict.cjs", schema); got != "ok" {
		t.Errorf("got %q", got)
	}
}

// workshop is a directory in which the pinned programs of npm are found, and where their commands are.
func workshop(t *testing.T) (dir, tools string) {
	t.Helper()
	installed, err := npm.Install()
	must(t, err)
	dir = t.TempDir()
	must(t, os.Symlink(filepath.Join(installed, "node_modules"), filepath.Join(dir, "node_modules")))
	return dir, filepath.Join(installed, "node_modules", ".bin") + "/"
}

// run runs a command that must succeed, and gives its output, trimmed.
func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, env
	var out, words strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &words
	if err := cmd.Run(); err != nil {
		t.Fatal(fmt.Errorf("%s: %w\n%s%s", cmd, err, out.String(), words.String()))
	}
	return strings.TrimSpace(out.String())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
