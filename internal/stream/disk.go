package stream

import (
	"fmt"
	"sync/atomic"

	"sluice/internal/durable"
)

// Disk is what a file system has left.
type Disk struct {
	Size, Free int64 // bytes
	Files      int64 // free entries for files; negative where there is no such limit
}

const (
	// minFiles is how many files the disk must still be able to hold: the engine starts a file per block and writes its
	// indexes beside them. The figure is arbitrary.
	minFiles = 64
	// spaceStep is after how many written bytes the disk is asked again, whatever the time.
	spaceStep = 8 << 20
)

// disk knows whether there is space. Near the end no record is taken, because an engine that meets a full disk takes
// nothing at all until it is restarted.
type disk struct {
	ask      func() (Disk, error) // nil when the disk is another machine's
	headroom int64

	free    atomic.Int64 // at the last look
	need    atomic.Int64 // below which the disk counts as full
	written atomic.Int64 // since then
}

func (d *disk) init(o Options, dir string) {
	d.headroom, d.ask = o.Headroom, o.Disk
	if d.ask == nil && dir != "" {
		d.ask = func() (Disk, error) { return statDisk(dir) }
	}
}

// look asks the disk, and says whether there is enough space. A disk that cannot be asked has none.
func (d *disk) look() (enough bool, err error) {
	if d.ask == nil {
		return true, nil
	}
	d.written.Store(0)
	now, err := d.ask()
	if err != nil {
		return false, fmt.Errorf("look at the disk: %w", err)
	}
	need := d.headroom
	if need == 0 {
		need = max(16<<20, min(512<<20, now.Size/20))
	}
	d.free.Store(now.Free)
	d.need.Store(need)
	return now.Free >= need && (now.Files < 0 || now.Files >= minFiles), nil
}

// wrote counts bytes. It says that it is time to look: when many were written since the last look, or enough to use up
// what was free.
func (d *disk) wrote(n int) (look bool) {
	if d.ask == nil {
		return false
	}
	now := d.written.Add(int64(n))
	step := min(spaceStep, d.free.Load()-d.need.Load())
	return now >= step && now-int64(n) < step
}

// statDisk asks the file system that holds dir.
func statDisk(dir string) (Disk, error) {
	d, err := durable.Space(dir)
	return Disk{Size: d.Size, Free: d.Free, Files: d.Files}, err
}
