//go:build faults

package faults

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// disk is an ext4 file system in a file, on a loop device of its own, that a test can cut off, fill and mount again.
type disk struct {
	t     *testing.T
	image string
	dir   string // where it is mounted
	dev   string // loop device; "" when there is none
	up    bool   // mounted
}

// need fails the test where it cannot be run, with the reason.
func need(t *testing.T, programs ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this fault needs root: it mounts file systems and traces processes")
	}
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Fatalf("this fault needs %s: %v (make setup installs it)", p, err)
		}
	}
}

// newDisk makes a disk of so many mebibytes, with mkfs options, and mounts it. It is gone when the test ends.
func newDisk(t *testing.T, mebibytes int64, options ...string) *disk {
	t.Helper()
	need(t, "losetup", "mkfs.ext4", "mount", "umount")
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		t.Fatalf("this fault needs loop devices: %v", err)
	}
	base := t.TempDir()
	d := &disk{t: t, image: filepath.Join(base, "image"), dir: filepath.Join(base, "disk")}
	t.Cleanup(d.discard)
	f, err := os.Create(d.image)
	if err == nil {
		err = f.Truncate(mebibytes << 20)
	}
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		err = os.Mkdir(d.dir, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	d.must("mkfs.ext4", append(append([]string{"-q", "-m", "0"}, options...), d.image)...)
	d.mount()
	return d
}

// run runs a tool and returns what it printed.
func run(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", name, err, bytes.TrimSpace(out))
	}
	return string(bytes.TrimSpace(out)), nil
}

func (d *disk) must(name string, args ...string) string {
	d.t.Helper()
	out, err := run(name, args...)
	if err != nil {
		d.t.Fatal(err)
	}
	return out
}

// mount attaches the image to a loop device and mounts it, which replays the journal.
func (d *disk) mount() {
	d.t.Helper()
	d.dev = d.must("losetup", "--find", "--show", d.image)
	d.must("mount", "-t", "ext4", d.dev, d.dir)
	d.up = true
}

// unmount takes the disk away and lets go of the loop device. Processes on it must have ended.
func (d *disk) unmount() error {
	if d.up {
		var err error
		for range 50 { // the kernel may still be closing the files of a killed process
			if _, err = run("umount", d.dir); err == nil {
				break
			}
			pause(100 * time.Millisecond)
		}
		if err != nil {
			return err
		}
		d.up = false
	}
	if d.dev != "" {
		if _, err := run("losetup", "--detach", d.dev); err != nil {
			return err
		}
		d.dev = ""
	}
	return nil
}

func (d *disk) discard() {
	if err := d.unmount(); err != nil {
		d.t.Errorf("left behind: %v", err)
		_, _ = run("umount", "--lazy", d.dir)
	}
}

// leftovers names the loop devices whose image was one of ours.
func leftovers() string {
	out, err := run("losetup", "--all")
	if err != nil || !strings.Contains(out, filepath.Join(os.TempDir(), "Test")) {
		return ""
	}
	return out
}

// EXT4_IOC_SHUTDOWN is _IOR('X', 125, uint32); with NOLOGFLUSH the journal in memory is dropped, too: from this instant
// nothing reaches the image, like a disk that has lost its power.
const (
	ext4Shutdown = 2<<30 | 4<<16 | 'X'<<8 | 125
	noLogFlush   = 2
)

// cut takes the power from the disk and returns when it began to. A sync that is under way meanwhile may say that all
// went well though it did not (TestSyncsDuringTheCut): with the power of a whole machine gone nobody could hear that, so
// no answer counts that came later.
func (d *disk) cut() (began time.Time) {
	d.t.Helper()
	f, err := os.Open(d.dir)
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	began = time.Now()
	if err := unix.IoctlSetPointerInt(int(f.Fd()), ext4Shutdown, noLogFlush); err != nil {
		d.t.Fatalf("shut the file system down: %v", err)
	}
	return began
}

// sync writes everything down.
func (d *disk) sync() {
	d.t.Helper()
	f, err := os.Open(d.dir)
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		d.t.Fatal(err)
	}
}

// space is what the disk has left.
func (d *disk) space() (bytes, files uint64) {
	d.t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(d.dir, &st); err != nil {
		d.t.Fatal(err)
	}
	return st.Bavail * uint64(st.Bsize), st.Ffree
}
