package lake

import (
	"bytes"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"sluice/internal/objectstore"
)

// A group that a lake is shared with reads every file, those of later commits and compactions too; others read none.
func TestShareWith(t *testing.T) {
	gid := os.Getgid()
	if os.Getuid() == 0 {
		gid = 100 // users, which every Debian has, and root is not in
	}
	group, err := user.LookupGroupId(strconv.Itoa(gid))
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(t.TempDir(), "data")
	dir := filepath.Join(data, "lake")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	defer syscall.Umask(syscall.Umask(0o077))
	commit(t, openLake(t, Options{Store: at(t, dir)}), newSampler(1, 1, 1).rows(10, noon))
	if err := objectstore.ShareWith(dir, group.Name); err != nil {
		t.Fatal(err)
	}
	l := openLake(t, Options{Store: at(t, dir)})
	for range 20 {
		commit(t, l, newSampler(1, 1, 1).rows(10, noon))
	}
	compactAll(t, l)
	for _, name := range files(t, dir) {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(name) == "lock" {
			continue // ours alone
		}
		if mode := info.Mode().Perm(); mode != 0o640 || int(info.Sys().(*syscall.Stat_t).Gid) != gid {
			t.Errorf("%s: got mode %o of group %d, want 640 of %d", name, mode, info.Sys().(*syscall.Stat_t).Gid, gid)
		}
	}
	if os.Getuid() != 0 {
		return // nobody else to try it as; the modes above are what the trial would show
	}
	list, err := l.Files(t.Context(), eventsTable)
	if err != nil {
		t.Fatal(err)
	}
	for name := range map[string]bool{list[0]: true, filepath.Join(dir, eventsTable, hintName): true} {
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		passable(t, filepath.Dir(data))
		if got, err := readAs(uint32(gid), name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: got %v for a member of the group, want its content", name, err)
		}
		if _, err := readAs(65534, name); err == nil {
			t.Errorf("%s: got it for a stranger, want a refusal", name)
		}
	}
}

// passable lets everybody through to a temporary directory.
func passable(t *testing.T, dir string) {
	t.Helper()
	for ; dir != "/" && dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o711); err != nil {
			t.Fatal(err)
		}
	}
}

func readAs(gid uint32, name string) ([]byte, error) {
	cmd := exec.Command("cat", name)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: gid}}
	return cmd.Output()
}
