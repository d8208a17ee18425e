// Package npm holds the programs written in JavaScript that tests of other packages run: type checkers, linters,
// generators. They are pinned in package-lock.json.
package npm

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// Install installs the programs, unless that was done for this lock file, and gives the directory. Several processes may
// call it at once, all of them in the directory of a package beside this one, as tests are.
func Install() (string, error) {
	dir, err := filepath.Abs("../npm")
	if err != nil {
		return "", err
	}
	lock, err := os.ReadFile(filepath.Join(dir, "package-lock.json"))
	if err != nil {
		return "", err
	}
	if bytes.Contains(lock, []byte(`"resolved"`)) {
		return "", fmt.Errorf("package-lock.json names a registry: run npm install in %s, where .npmrc leaves it out", dir)
	}
	one, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer one.Close()
	if err := syscall.Flock(int(one.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", dir, err)
	}
	sum := sha256.Sum256(lock)
	want := hex.EncodeToString(sum[:])
	done := filepath.Join(dir, "node_modules", ".installed") // npm ci begins by removing node_modules
	if got, err := os.ReadFile(done); err == nil && string(got) == want {
		return dir, nil
	}
	cmd := exec.Command("npm", "ci", "--ignore-scripts")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm ci: %w\n%s", err, out)
	}
	return dir, os.WriteFile(done, []byte(want), 0o600)
}
