package sdk

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sluice/interop/service"
)

// What all tests use, made once: the program under test, and the two SDKs installed from their packages.
var (
	program string // sluice
	nodeDir string // holds node_modules/sluice-client
	pyDir   string // holds sluice_client
)

const root = "../.."

func TestMain(m *testing.M) {
	code := 1
	defer func() { os.Exit(code) }()
	dir, err := os.MkdirTemp("", "sluice-sdk-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer os.RemoveAll(dir)
	if err := prepare(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	code = m.Run()
}

func prepare(dir string) error {
	nodeDir, pyDir = filepath.Join(dir, "node"), filepath.Join(dir, "python")
	packages := filepath.Join(dir, "packages")
	for _, d := range []string{nodeDir, pyDir, packages} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return err
		}
	}
	var err error
	if program, err = service.Build(root, dir); err != nil {
		return err
	}
	archive, err := run(root+"/sdk/node", "npm", "pack", "--silent", "--pack-destination", packages)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(nodeDir, "package.json"), []byte(`{"name":"shop","private":true}`), 0o600); err != nil {
		return err
	}
	if _, err := run(nodeDir, "npm", "install", "--offline", "--no-audit", "--no-fund", filepath.Join(packages, archive)); err != nil {
		return err
	}
	wheel, err := run(root+"/sdk/python", "python3", "build_wheel.py", packages)
	if err != nil {
		return err
	}
	_, err = run(pyDir, "python3", "-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check", "--target", pyDir, wheel)
	return err
}

// run runs a command in a directory and gives its output, trimmed.
func run(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	var out, words strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &words
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", cmd, err, out.String(), words.String())
	}
	return strings.TrimSpace(out.String()), nil
}

// language is how the programs of an SDK are run.
type language struct {
	name    string
	command []string
	env     string
	smoke   string
	load    string
}

func languages() []language {
	return []language{
		// Node looks for a package beside the program: the programs are copied to where it is installed.
		{"node", []string{"node"}, "SLUICE_SDK=" + nodeDir, "smoke.cjs", "load.mjs"},
		{"python", []string{"python3"}, "PYTHONPATH=" + pyDir, "smoke.py", "load.py"},
	}
}

// start gives the command that runs a program of testdata with the SDK as users have it.
func (l *language) start(t *testing.T, file, url, key string, env ...string) *exec.Cmd {
	t.Helper()
	code, err := os.ReadFile(filepath.Join("testdata", file))
	must(t, err)
	dir := pyDir
	if l.name == "node" {
		dir = nodeDir
	}
	path := filepath.Join(dir, file)
	must(t, os.WriteFile(path, code, 0o600))
	cmd := exec.CommandContext(t.Context(), l.command[0], append(l.command[1:], path)...)
	cmd.Env = append(os.Environ(), l.env, "SLUICE_URL="+url, "SLUICE_API_KEY="+key)
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
