// Package loopdisk is an ext4 file system on a loop device whose power a test can cut. It needs root.
package loopdisk

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

// Disk is an ext4 file system in a file, on a loop device of its own, that a test can cut off, fill and mount again.
type Disk struct {
	t     *testing.T
	image string
	Dir   string // where it is mounted
	dev   string // loop device; "" when there is none
	up    bool   // mounted
}

// Need fails the test where it cannot be run, with the reason.
func Need(t *testing.T, programs ...string) {
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

// New makes a disk of so many mebibytes, with mkfs options, and mounts it. It is gone when the test ends.
func New(t *testing.T, mebibytes int64, options ...string) *Disk {
	t.Helper()
	Need(t, "losetup", "mkfs.ext4", "mount", "umount")
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		t.Fatalf("this fault needs loop devices: %v", err)
	}
	base := t.TempDir()
	d := &Disk{t: t, image: filepath.Join(base, "image"), Dir: filepath.Join(base, "disk")}
	t.Cleanup(d.discard)
	f, err := os.Create(d.image)
	if err == nil {
		err = f.Truncate(mebibytes << 20)
	}
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		err = os.Mkdir(d.Dir, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	d.must("mkfs.ext4", append(append([]string{"-q", "-m", "0"}, options...), d.image)...)
	d.Mount()
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

func (d *Disk) must(name string, args ...string) string {
	d.t.Helper()
	out, err := run(name, args...)
	if err != nil {
		d.t.Fatal(err)
	}
	return out
}

// Mount attaches the image to a loop device and mounts it, which replays the journal.
func (d *Disk) Mount() {
	d.t.Helper()
	d.dev = d.must("losetup", "--find", "--show", d.image)
	d.must("mount", "-t", "ext4", d.dev, d.Dir)
	d.up = true
}

// Unmount takes the disk away and lets go of the loop device. Processes on it must have ended.
func (d *Disk) Unmount() error {
	if d.up {
		var err error
		for range 50 { // the kernel may still be closing the files of a killed process
			if _, err = run("umount", d.Dir); err == nil {
				break
			}
			<-time.After(100 * time.Millisecond)
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

func (d *Disk) discard() {
	if err := d.Unmount(); err != nil {
		d.t.Errorf("left behind: %v", err)
		_, _ = run("umount", "--lazy", d.Dir)
	}
}

// Leftovers names the loop devices whose image was one of ours.
func Leftovers() string {
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

// Cut takes the power from the disk and returns when it began to. A sync that is under way meanwhile may say that all
// went well though it did not (TestSyncsDuringTheCut): with the power of a whole machine gone nobody could hear that, so
// no answer counts that came later.
func (d *Disk) Cut() (began time.Time) {
	d.t.Helper()
	f, err := os.Open(d.Dir)
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

// Sync writes everything down.
func (d *Disk) Sync() {
	d.t.Helper()
	f, err := os.Open(d.Dir)
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		d.t.Fatal(err)
	}
}

// Space is what the disk has left.
func (d *Disk) Space() (bytes, files uint64) {
	d.t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(d.Dir, &st); err != nil {
		d.t.Fatal(err)
	}
	return st.Bavail * uint64(st.Bsize), st.Ffree
}
