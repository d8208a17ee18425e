package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// backedUp is a backup of a service with an event.
func backedUp(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	key, _ := provisioned(t, dir, "shop")
	s := start(t, dir, "--commit-every", "200ms")
	if a, err := s.post(key, "/v1/events", marked("shop", "m")); err != nil || a.status != 200 {
		t.Fatalf("got %d %s, %v", a.status, a.body, err)
	}
	backup := filepath.Join(t.TempDir(), "backup")
	sluice(t, "backup", backup, "--data", dir)
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Fatalf("got exit code %d", code)
	}
	return backup
}

// entriesOf says of everything below a directory what it is, when it was changed and what is in it.
func entriesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		var b []byte
		if err == nil && info.Mode().IsRegular() {
			b, err = os.ReadFile(name)
		}
		if err == nil {
			out[name] = fmt.Sprint(info.Mode(), info.ModTime().UnixNano(), string(b))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A backup is only read: by a restore, and by the commands that look at its tables. So it can be on a medium that cannot be
// written to.
func TestBackupIsOnlyRead(t *testing.T) {
	t.Parallel()
	backup := backedUp(t)
	before := entriesOf(t, backup)
	other, copied := filepath.Join(t.TempDir(), "other"), filepath.Join(t.TempDir(), "copy")
	sluice(t, "restore", backup, "--data", other)
	if got := stored(t, other, "shop"); got["m"] != 1 {
		t.Errorf("got %v, want the event once", got)
	}
	tables := "file://" + filepath.Join(backup, "lake")
	if out := sluice(t, "lake", "files", "events", "--data", other, "--lake", tables); !strings.HasPrefix(out, backup) {
		t.Errorf("got files %q, want those of the backup", out)
	}
	sluice(t, "lake", "check", "--data", other, "--lake", tables)
	sluice(t, "lake", "copy", "--to", "file://"+copied, "--data", other, "--lake", tables)
	if after := entriesOf(t, backup); !maps.Equal(before, after) {
		t.Errorf("the backup was changed: got %d entries, want %d", len(after), len(before))
	}
}

// A restore that was killed leaves a directory that no command uses, and each says what to do.
func TestRestoreKilled(t *testing.T) {
	t.Parallel()
	backup := backedUp(t)
	messages := filepath.Join(backup, "stream", "0.frames")
	other := filepath.Join(t.TempDir(), "other")
	killedAt(t, messages, "restore", backup, "--data", other)
	for _, args := range [][]string{
		{"serve", "--listen", "127.0.0.1:0", "--ops", "127.0.0.1:0"},
		{"export"},
		{"backup", filepath.Join(t.TempDir(), "backup")},
		{"lake", "check"},
		{"dataset", "list"},
		{"audit", "verify"},
		{"restore", backup},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		out, err := self.Run(ctx, append(args, "--data", other)...)
		cancel()
		if err == nil || !strings.Contains(err.Error(), "delete the directory and restore again") {
			t.Errorf("%s: got %q, %v, want an error that says what to do", args[0], out, err)
		}
	}
	if err := os.RemoveAll(other); err != nil {
		t.Fatal(err)
	}
	sluice(t, "restore", backup, "--data", other)
	if got := stored(t, other, "shop"); got["m"] != 1 {
		t.Errorf("got %v, want the event once", got)
	}
}

// A backup whose tables name files outside of them is not restored, and nothing outside is written.
func TestRestoreOfAHostileBackup(t *testing.T) {
	t.Parallel()
	backup := backedUp(t)
	versions, err := filepath.Glob(filepath.Join(backup, "lake", "events", "metadata", "v*.metadata.json"))
	if err != nil || len(versions) != 1 {
		t.Fatalf("got %v, %v, want one version", versions, err)
	}
	b, err := os.ReadFile(versions[0])
	if err != nil {
		t.Fatal(err)
	}
	b = b[:bytes.LastIndexByte(b, '}')+1] // without its checksum
	b = bytes.ReplaceAll(b, []byte("/events/metadata/snap-"), []byte("/events/metadata/../../../../victim-"))
	if err := os.WriteFile(versions[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
	lists, err := filepath.Glob(filepath.Join(backup, "lake", "events", "metadata", "snap-*"))
	if err != nil || len(lists) == 0 {
		t.Fatalf("got %v, %v, want lists", lists, err)
	}
	for _, list := range lists {
		if err := os.Rename(list, filepath.Join(filepath.Dir(backup), strings.Replace(filepath.Base(list), "snap-", "victim-", 1))); err != nil {
			t.Fatal(err)
		}
	}
	place := t.TempDir()
	if out, err := self.Run(t.Context(), "restore", backup, "--data", filepath.Join(place, "other")); err == nil {
		t.Errorf("got %q, want an error", out)
	}
	if left, err := os.ReadDir(place); err != nil || len(left) != 1 {
		t.Errorf("got %v, %v, want the data directory alone", left, err)
	}
}

// A restore that cannot be done says why. What can be seen before anything is written leaves nothing behind; after that it
// also says what to do. Of two backups that were mixed up nothing is restored: erased and suppressed people would be back.
func TestRestoreSaysWhy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir, "--commit-every", "200ms")
	key, _ := provisioned(t, dir, "shop")
	sendMarked(t, s, key, "gone", goneHash, "")
	sendMarked(t, s, key, "stays", otherHash, "")
	backups := t.TempDir()
	older, newer := filepath.Join(backups, "older"), filepath.Join(backups, "newer")
	sluice(t, "backup", older, "--data", dir)
	sluice(t, "erase", "--data", dir, "--email-sha256", goneHash, "--and-suppress", "--yes") // lasts into the next second
	sluice(t, "backup", newer, "--data", dir)
	s.stop(syscall.SIGTERM)
	other := backedUp(t)

	cut := func(name string) func(string) error {
		return func(backup string) error {
			name := filepath.Join(backup, name)
			info, err := os.Stat(name)
			if err != nil {
				return err
			}
			return os.Truncate(name, info.Size()-3)
		}
	}
	remove := func(pattern string) func(string) error {
		return func(backup string) error {
			names, err := filepath.Glob(filepath.Join(backup, pattern))
			if err == nil && len(names) == 0 {
				err = os.ErrNotExist
			}
			if err != nil {
				return err
			}
			return os.Remove(names[0])
		}
	}
	const begun = "delete the directory and restore again"
	for name, c := range map[string]struct {
		backup, erasures string
		damage           func(backup string) error // of a copy of the backup
		want             []string
		begun            bool
	}{
		"erasures of no backup":       {backup: older, erasures: backups + "/none", want: []string{"--erasures", "none is not a whole backup"}},
		"erasures of another service": {backup: older, erasures: other, want: []string{"--erasures", "another service"}},
		"erasures of an older backup": {backup: newer, erasures: older, want: []string{
			"--erasures", madeOf(t, older), madeOf(t, newer), "sluice restore " + older + " --erasures ",
		}},
		"registry is truncated":   {backup: newer, damage: cut("registry.ndjson"), want: []string{"registry.ndjson", "damaged"}},
		"erasures are truncated":  {backup: newer, damage: cut("erased.log"), want: []string{"erased.log", "damaged"}},
		"erasures are missing":    {backup: newer, damage: remove("erased.log"), want: []string{"erased.log", "damaged"}},
		"audit log is missing":    {backup: newer, damage: remove("audit.jsonl"), want: []string{"audit.jsonl", "damaged"}},
		"partition is missing":    {backup: newer, damage: remove("stream/0.json"), want: []string{"0.json"}},
		"Parquet file is missing": {backup: newer, damage: remove("lake/events/data/*/*.parquet"), want: []string{".parquet"}, begun: true},
	} {
		t.Run(name, func(t *testing.T) {
			backup, into := c.backup, filepath.Join(t.TempDir(), "restored")
			if c.damage != nil {
				backup = filepath.Join(t.TempDir(), "damaged")
				if err := os.CopyFS(backup, os.DirFS(c.backup)); err != nil {
					t.Fatal(err)
				}
				if err := c.damage(backup); err != nil {
					t.Fatal(err)
				}
			}
			args := []string{"restore", backup, "--data", into}
			if c.erasures != "" {
				args = append(args, "--erasures", c.erasures)
			}
			words := fails(t, 1, args...)
			wants(t, "the reason", words, c.want...)
			if _, err := os.Stat(into); c.begun != (err == nil) || c.begun != strings.Contains(words, begun) {
				t.Errorf("got %q and a directory: %v, want both: %v", words, err == nil, c.begun)
			}
			if why, do := strings.Index(words, c.want[0]), strings.Index(words, begun); c.begun && why > do {
				t.Errorf("got %q, want the reason first", words)
			}
		})
	}
	restored := filepath.Join(t.TempDir(), "restored")
	sluice(t, "restore", newer, "--data", restored, "--erasures", newer)
	if out := sluice(t, "suppression", "list", "--data", restored); !strings.Contains(out, "email_sha256") {
		t.Errorf("a backup as its own newer one: got the list %q, want one of e-mail addresses", out)
	}
}

// madeOf says when a backup was made.
func madeOf(t *testing.T, backup string) string {
	t.Helper()
	var info backupInfo
	b, err := os.ReadFile(filepath.Join(backup, backupName))
	if err == nil {
		err = json.Unmarshal(b, &info)
	}
	if err != nil {
		t.Fatal(err)
	}
	return info.Made.Format(time.RFC3339)
}
