package objectstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"sluice/internal/durable"
)

// LockShared and LockExclusive are a lock on a file, so that they hold between processes and end with them: what no
// snapshot lists while nobody writes is an orphan for certain, however young it is.
func (d *Dir) LockShared(ctx context.Context) (func(), error) { return d.lock(ctx, durable.Shared) }

// LockExclusive waits until nobody else has the lock.
func (d *Dir) LockExclusive(ctx context.Context) (func(), error) {
	return d.lock(ctx, durable.Exclusive)
}

func (d *Dir) lock(ctx context.Context, how int) (func(), error) {
	flag := os.O_RDWR | os.O_CREATE
	if d.readOnly {
		flag = os.O_RDONLY
	}
	root, err := d.place.open()
	if err != nil {
		return nil, err
	}
	f, err := root.OpenFile(d.path("lock"), flag, 0o600)
	if d.readOnly && errors.Is(err, fs.ErrNotExist) {
		return func() {}, nil // nobody has written here
	}
	if err != nil {
		return nil, err
	}
	return await(ctx, f, how)
}

// lockDir locks a directory, by its path, against others that lock it.
func (d *Dir) lockDir(ctx context.Context, dir string) (func(), error) {
	if d.readOnly {
		return nil, ErrReadOnly
	}
	root, err := d.place.open()
	if err != nil {
		return nil, err
	}
	f, err := root.Open(dir)
	if err != nil {
		return nil, err
	}
	return await(ctx, f, durable.Exclusive)
}

// await waits for a lock on an open file, which the returned function closes.
func await(ctx context.Context, f *os.File, how int) (func(), error) {
	for {
		err := durable.TryLock(f, how)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, durable.ErrLocked) {
			return nil, errors.Join(fmt.Errorf("lock: %w", err), f.Close())
		}
		select { // the lock has no wait that a context could end
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), f.Close())
		case <-time.After(lockPause):
		}
	}
}

const lockPause = 2 * time.Millisecond // arbitrary, far below a commit
