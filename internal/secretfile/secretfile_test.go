package secretfile

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func secretFile(t *testing.T, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOpenFilesAreNamed(t *testing.T) {
	for _, c := range []struct {
		mode   os.FileMode
		uid    int // of this process, beside that of the owner
		closes string
	}{
		{0o600, 0, ""},
		{0o400, 0, ""},
		{0o640, 0, "g"},
		{0o604, 0, "o"},
		{0o644, 0, "go"},
		{0o660, 0, "g"},
		{0o640, 1, ""}, // root owns it, and the group of the service reads it
		{0o644, 1, "o"},
	} {
		path := secretFile(t, c.mode)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := openTo(info, os.Getuid()+c.uid); got != c.closes {
			t.Errorf("mode %#o, another owner %v: got %q, want %q", c.mode, c.uid != 0, got, c.closes)
		}
	}
	var log bytes.Buffer
	open := secretFile(t, 0o644)
	Warn([]string{"", "/does/not/exist", secretFile(t, 0o600), open}, slog.New(slog.NewTextHandler(&log, nil)))
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "chmod go= "+open) {
		t.Errorf("got %q, want one line with the command for %s", got, open)
	}
}

// A directory of secrets may be open to those who cannot get into the one above it.
func TestDataDir(t *testing.T) {
	dir := t.TempDir()
	quarantine := filepath.Join(dir, "quarantine")
	if err := os.Mkdir(quarantine, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		top, secret os.FileMode
		open        bool
	}{
		{0o755, 0o700, false},
		{0o700, 0o755, false}, // nobody gets in
		{0o710, 0o705, false}, // only the group gets in
		{0o710, 0o750, true},
		{0o755, 0o755, true},
	} {
		if err := errors.Join(os.Chmod(dir, c.top), os.Chmod(quarantine, c.secret)); err != nil {
			t.Fatal(err)
		}
		if err := CheckDataDir(dir); (err != nil) != c.open {
			t.Errorf("modes %#o and %#o: got %v, want an error: %v", c.top, c.secret, err, c.open)
		}
	}
}
