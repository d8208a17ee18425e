package engines

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Project is a project of dbt: its files by their names.
type Project map[string]string

// Dir writes the project.
func (p Project) Dir(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range p {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// depsAndBuild is in one process because dbt takes long to start.
const depsAndBuild = `
import sys
from dbt.cli.main import dbtRunner
for words in (["deps"], ["build", "--profiles-dir", ".", "--vars", sys.argv[1]]):
    if not dbtRunner().invoke(["--no-use-colors"] + words).success:
        sys.exit(1)
`

// Build runs dbt deps and dbt build in the directory of a project: its models, then its tests.
func Build(t *testing.T, dir string, vars map[string]any) (output string, err error) {
	t.Helper()
	text, err := json.Marshal(vars)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(Installed(t, "dbt"), "bin", "python"), "-c", depsAndBuild, string(text))
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "DO_NOT_TRACK=true")
	out, err := cmd.CombinedOutput()
	return string(out), err
}
