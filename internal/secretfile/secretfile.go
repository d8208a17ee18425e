// Package secretfile finds files with secrets that others can read.
package secretfile

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
)

// Warn names every file that others can read, and the command that closes it. A file that is not there is for the
// one who reads it to report.
func Warn(files []string, log *slog.Logger) {
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			continue
		}
		if who := openTo(info, os.Getuid()); who != "" {
			log.Warn("others can read a file with a secret", "file", file, "mode", fmt.Sprintf("%#o", info.Mode().Perm()),
				"command", "chmod "+who+"= "+file)
		}
	}
}

// openTo says who can read a file beside its owner, as chmod names them: "g", "o" or "go". The group of a file that
// belongs to another user does not count: it is how this process reads it.
func openTo(info fs.FileInfo, uid int) (who string) {
	perm := info.Mode().Perm()
	if st, ok := info.Sys().(*syscall.Stat_t); perm&0o070 != 0 && (!ok || int(st.Uid) == uid) {
		who = "g"
	}
	if perm&0o007 != 0 {
		who += "o"
	}
	return who
}

// CheckDataDir returns an error if others can read what the data directory keeps secret: events, hashes of keys, the
// way to the engine. Sluice makes all of it closed; the directory itself it closes at each start, or opens for
// --lake-group.
func CheckDataDir(dir string) error {
	top, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	pass := top.Mode().Perm() & 0o011 // who gets into the directory: group, others
	for _, name := range []string{"engine", "engine.json", "keys", "quarantine"} {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		if perm := info.Mode().Perm(); perm&(pass*7) != 0 {
			return fmt.Errorf("others can read %s, which has the mode %#o: close it with: chmod go= %s", path, perm, path)
		}
	}
	return nil
}
