package stream

import (
	"fmt"
	"sync/atomic"
	"syscall"
)

// Disk is what a file system has left.
type Disk struct {
	Size, Free int64 // bytes
	Files      int64 // free entries for files; negative where there is no such limit
}

const (
	// minFiles is how many files the disk must still be able to hold: the engine starts a file per block and writes its
	// indexes aside. The figure is arbitrary.
	minFiles = 64
	// spaceStep is after how many written bytes the disk is asked again, whatever the time.
	spaceStep = 8 << 20
)

// space knows whether the disk has room. Near the end nothing is taken, because an engine that meets a full disk takes
// nothing at all until it is restarted.
type space struct {
	disk     func() (Disk, error) // nil when the disk is another machine's
	headroom int64

	free    atomic.Int64 // at the last look
	need    atomic.Int64 // below which the disk counts as full
	written atomic.Int64 // since then
	short   atomic.Bool
}

func (sp *space) init(o Options, dir string) {
	sp.headroom, sp.disk = o.Headroom, o.Disk
	if sp.disk == nil && dir != "" {
		sp.disk = func() (Disk, error) { return statDisk(dir) }
	}
}

// look asks the disk. A disk that cannot be asked counts as full.
func (sp *space) look() error {
	if sp.disk == nil {
		return nil
	}
	sp.written.Store(0)
	d, err := sp.disk()
	if err != nil {
		sp.short.Store(true)
		return fmt.Errorf("look at the disk: %w", err)
	}
	need := sp.headroom
	if need == 0 {
		need = max(16<<20, min(512<<20, d.Size/20))
	}
	sp.free.Store(d.Free)
	sp.need.Store(need)
	sp.short.Store(d.Free < need || d.Files >= 0 && d.Files < minFiles)
	return nil
}

// wrote counts bytes and looks when many were written since the last look, or enough to use up what was free.
func (sp *space) wrote(n int) {
	if sp.disk == nil {
		return
	}
	now := sp.written.Add(int64(n))
	if step := min(spaceStep, sp.free.Load()-sp.need.Load()); now >= step && now-int64(n) < step {
		_ = sp.look() // a failure shows in short
	}
}

// statDisk asks the file system that holds dir.
func statDisk(dir string) (Disk, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return Disk{}, fmt.Errorf("statfs %s: %w", dir, err)
	}
	d := Disk{Size: int64(st.Blocks) * int64(st.Bsize), Free: int64(st.Bavail) * int64(st.Bsize), Files: -1}
	if st.Files > 0 {
		d.Files = int64(st.Ffree)
	}
	return d, nil
}
