package main

import (
	"os"
	"path/filepath"
	"testing"

	"sluice/internal/enginetest"
	"sluice/internal/secretfile"
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

// A server names the files with secrets that it reads and that others can read too, before it reads them.
func TestServeNamesOpenFiles(t *testing.T) {
	open := secretFile(t, 0o644)
	said := fails(t, 1, "serve", "--data", t.TempDir(), "--listen", "127.0.0.1:0", "--ops", "", "--tls-cert", open, "--tls-key", open)
	wants(t, "the log", said, "others can read a file with a secret", "chmod go= "+open)
}

// What the data directory keeps secret is closed to others, or the server does not start.
func TestOpenDataDirectory(t *testing.T) {
	dir := t.TempDir()
	quarantine := filepath.Join(dir, "quarantine")
	if err := os.Mkdir(quarantine, 0o700); err != nil {
		t.Fatal(err)
	}
	chmod := func(path string, mode os.FileMode) {
		t.Helper()
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
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
		chmod(dir, c.top)
		chmod(quarantine, c.secret)
		if err := secretfile.CheckDataDir(dir); (err != nil) != c.open {
			t.Errorf("modes %#o and %#o: got %v, want an error: %v", c.top, c.secret, err, c.open)
		}
	}
	srv := enginetest.Start(t, "")
	said := fails(t, 1, "serve", "--data", dir, "--listen", "127.0.0.1:0", "--ops", "", "--nats", address(srv))
	wants(t, "with an engine elsewhere", said, "chmod go= "+quarantine)
	own := t.TempDir()
	if err := os.Mkdir(filepath.Join(own, "quarantine"), 0o700); err != nil {
		t.Fatal(err)
	}
	chmod(own, 0o755)
	chmod(filepath.Join(own, "quarantine"), 0o755)
	start(t, own) // closes the directory
	if info, err := os.Stat(own); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("got mode %#o of the data directory, %v, want 0700", info.Mode().Perm(), err)
	}
}
