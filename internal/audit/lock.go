package audit

import (
	"os"

	"golang.org/x/sys/unix"
)

// lock waits for the only right to write. The kernel gives it back when the file is closed, however that happens.
func lock(f *os.File) error { return flock(f, unix.LOCK_EX) }

func lockShared(f *os.File) error { return flock(f, unix.LOCK_SH) }

func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		if err != unix.EINTR {
			return err
		}
	}
}
