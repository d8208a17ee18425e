package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"sluice/internal/enginetest"
)

// A server names the files with secrets that it reads and that others can read too, before it reads them.
func TestServeNamesOpenFiles(t *testing.T) {
	t.Parallel()
	open := filepath.Join(t.TempDir(), "secret")
	if err := errors.Join(os.WriteFile(open, nil, 0o644), os.Chmod(open, 0o644)); err != nil {
		t.Fatal(err)
	}
	said := fails(t, 1, "serve", "--data", t.TempDir(), "--listen", "127.0.0.1:0", "--ops", "", "--tls-cert", open, "--tls-key", open)
	wants(t, "the log", said, "others can read a file with a secret", "chmod go= "+open)
}

// What the data directory keeps secret is closed to others, or the server does not start.
func TestOpenDataDirectory(t *testing.T) {
	t.Parallel()
	open := func() string {
		t.Helper()
		dir := t.TempDir()
		quarantine := filepath.Join(dir, "quarantine")
		if err := errors.Join(os.Mkdir(quarantine, 0o700), os.Chmod(quarantine, 0o755), os.Chmod(dir, 0o755)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	srv, dir := enginetest.Start(t, ""), open()
	said := fails(t, 1, "serve", "--data", dir, "--listen", "127.0.0.1:0", "--ops", "", "--nats", address(srv))
	wants(t, "with an engine elsewhere", said, "chmod go= "+filepath.Join(dir, "quarantine"))
	own := open()
	start(t, own) // closes the directory
	if info, err := os.Stat(own); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("got mode %#o of the data directory, %v, want 0700", info.Mode().Perm(), err)
	}
}
