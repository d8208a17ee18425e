package lake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/user"
	"path"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// storage is all that a table asks of the place it lies in. Names are relative and use slashes. A bucket can
// serve it: writing whole objects, writing one only if it is not there, ranged reads, listing, deletion.
type storage interface {
	// Create starts a new object. It is visible once Close has returned nil, and on stable storage at the latest
	// when a CreateExclusive that began afterwards has made its own object visible.
	Create(name string) (io.WriteCloser, error)
	// CreateExclusive writes a whole object unless there is one by that name: then it answers fs.ErrExist. After
	// nil it is on stable storage; after errUncertain it may be there; after any other error it is not.
	CreateExclusive(name string, data []byte) error
	// Replace writes a whole object over what is there. It may be lost in a crash, never torn.
	Replace(name string, data []byte) error
	Open(name string) (object, error)
	Exists(name string) (bool, error)
	List(dir string) ([]listed, error)
	Remove(name string) error
	// Sync makes what was created and removed before it durable.
	Sync() error
	// Share holds off Alone until the returned function is called; Alone waits for every Share.
	Share(ctx context.Context) (release func(), err error)
	Alone(ctx context.Context) (release func(), err error)
	// Location is what other programs call an object.
	Location(name string) string
}

// errUncertain says that a commit may have happened.
var errUncertain = errors.New("the outcome is not known")

type object interface {
	io.ReaderAt
	io.Closer
	Size() int64
}

// listed is one entry of a listing. Dir entries have no other member.
type listed struct {
	name string
	dir  bool
	size int64
}

// disk keeps objects as files below root, readable by their owner alone: hashes of addresses can be reversed. ShareWith
// opens a root for a group; then whatever comes later is open for it, too.
type disk struct {
	root   string
	shared bool // a group may read

	mu    sync.Mutex
	made  map[string]bool   // directories known to be durable
	dirty map[string]uint64 // directories with names that may not be: a number that changes with each
	names uint64
}

func openDisk(root string) (*disk, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	d := &disk{root: root, made: map[string]bool{}, dirty: map[string]uint64{}}
	if err := d.makeDir(""); err != nil {
		return nil, err
	}
	info, err := os.Stat(root)
	if err != nil {
		return nil, err
	}
	d.shared = info.Mode()&groupReads == groupReads
	return d, nil
}

// groupReads is how a directory looks that ShareWith has opened.
const groupReads = os.ModeSetgid | 0o050

func (d *disk) fileMode() os.FileMode {
	if d.shared {
		return 0o640
	}
	return 0o600
}

// ShareWith lets a group read everything in a lake's directory, now and later, and pass through the directory it lies
// in. It takes no right from anybody.
func ShareWith(dir, group string) error {
	g, err := user.LookupGroup(group)
	if err != nil {
		return fmt.Errorf("there is no group %s on this machine: make it, or name another one", group)
	}
	gid, err := strconv.Atoi(g.Gid)
	if err != nil {
		return err
	}
	for _, table := range []string{rejectionsTable, hoursTable, eventsTable} {
		if err := os.MkdirAll(filepath.Join(dir, table), 0o700); err != nil {
			return err
		}
	}
	parent := filepath.Dir(dir)
	info, err := os.Stat(parent)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o011 == 0 { // nobody but the owner passes: let the group
		if err := errors.Join(os.Chown(parent, -1, gid), os.Chmod(parent, info.Mode().Perm()|0o010)); err != nil {
			return err
		}
	}
	return filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		mode := os.FileMode(0o640)
		if e.IsDir() {
			mode = os.ModeSetgid | 0o750
		}
		err = errors.Join(os.Chown(name, -1, gid), os.Chmod(name, mode))
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile
		}
		return err
	})
}

func (d *disk) path(name string) string     { return filepath.Join(d.root, filepath.FromSlash(name)) }
func (d *disk) Location(name string) string { return d.path(name) }

// makeDir makes a directory and its parents durable, each before anything is put into it.
func (d *disk) makeDir(dir string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.makeDirLocked(d.path(dir))
}

func (d *disk) makeDirLocked(dir string) error {
	if d.made[dir] {
		return nil
	}
	err := os.Mkdir(dir, 0o700)
	if err == nil && d.shared { // the group is inherited; the umask must not take its rights
		err = os.Chmod(dir, groupReads|0o700)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := d.makeDirLocked(filepath.Dir(dir)); err != nil {
			return err
		}
		return d.makeDirLocked(dir)
	case err != nil && !errors.Is(err, fs.ErrExist):
		return err
	}
	// Also when it was there: whoever made it may have crashed before this sync.
	if err := syncDir(filepath.Dir(dir)); err != nil {
		return err
	}
	d.made[dir] = true
	return nil
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (d *disk) Create(name string) (io.WriteCloser, error) {
	if err := d.makeDir(path.Dir(name)); err != nil {
		return nil, err
	}
	f, err := d.openNew(d.path(name))
	if errors.Is(err, fs.ErrNotExist) { // another process has swept the empty directory away
		d.forget(path.Dir(name))
		if err := d.makeDir(path.Dir(name)); err != nil {
			return nil, err
		}
		f, err = d.openNew(d.path(name))
	}
	if err != nil {
		return nil, err
	}
	return &diskWriter{d: d, f: f}, nil
}

func (d *disk) openNew(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, d.fileMode())
	if err == nil && d.shared {
		err = f.Chmod(d.fileMode()) // whatever the umask is
	}
	return f, err
}

func (d *disk) forget(dir string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.made, d.path(dir))
}

// diskWriter is a file whose content is durable when it is closed. Its name is so after the next syncNames: one
// sync of a directory does for all files of a commit.
type diskWriter struct {
	d   *disk
	f   *os.File
	err error
}

func (w *diskWriter) Write(p []byte) (int, error) {
	n, err := w.f.Write(p)
	if err != nil {
		w.err = err
	}
	return n, err
}

func (w *diskWriter) Close() error {
	if w.err != nil { // half a file is of no use to anyone
		return errors.Join(w.err, w.f.Close(), os.Remove(w.f.Name()))
	}
	if err := w.f.Sync(); err != nil {
		return errors.Join(err, w.f.Close(), os.Remove(w.f.Name()))
	}
	w.d.touch(filepath.Dir(w.f.Name()))
	return w.f.Close()
}

// syncNames makes the names of all files that were closed before it durable, but for those in one directory.
func (d *disk) syncNames(but string) error {
	d.mu.Lock()
	dirs := maps.Clone(d.dirty)
	d.mu.Unlock()
	for dir, names := range dirs {
		if dir == but {
			continue
		}
		if err := syncDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) { // swept away, so nobody's
			return err
		}
		d.mu.Lock()
		if d.dirty[dir] == names { // else one more came meanwhile
			delete(d.dirty, dir)
		}
		d.mu.Unlock()
	}
	return nil
}

// CreateExclusive writes beside the name and links: a link never replaces, and is there whole or not at all. The
// sync of its directory comes after the link and takes the names before it along: file systems keep the order of
// names in a directory, and should one not, a version that lists what is not there is passed over when it is read.
func (d *disk) CreateExclusive(name string, data []byte) error {
	tmp := name + "." + newName() + tmpSuffix
	w, err := d.Create(tmp)
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	if err := errors.Join(err, w.Close()); err != nil {
		return err
	}
	dir := filepath.Dir(d.path(name))
	err = d.syncNames(dir)
	if err == nil {
		err = os.Link(d.path(tmp), d.path(name))
	}
	_ = os.Remove(d.path(tmp)) // else the sweep finds it
	if err != nil {
		return err
	}
	if err := syncDir(dir); err != nil {
		return errors.Join(errUncertain, err)
	}
	return nil
}

func (d *disk) Replace(name string, data []byte) error {
	tmp := d.path(name + "." + newName() + tmpSuffix)
	f, err := d.openNew(tmp)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return os.Rename(tmp, d.path(name))
}

type diskObject struct {
	*os.File
	size int64
}

func (o diskObject) Size() int64 { return o.size }

func (d *disk) Open(name string) (object, error) {
	f, err := os.Open(d.path(name))
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return diskObject{f, info.Size()}, nil
}

func (d *disk) Exists(name string) (bool, error) {
	_, err := os.Stat(d.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (d *disk) List(dir string) ([]listed, error) {
	entries, err := os.ReadDir(d.path(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []listed
	for _, e := range entries {
		l := listed{name: path.Join(dir, e.Name()), dir: e.IsDir()}
		if !l.dir {
			info, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue // removed meanwhile
			}
			if err != nil {
				return nil, err
			}
			l.size = info.Size()
		}
		out = append(out, l)
	}
	return out, nil
}

// Remove deletes a file or an empty directory. What is not there is removed already.
func (d *disk) Remove(name string) error {
	d.forget(name)
	err := os.Remove(d.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	d.touch(filepath.Dir(d.path(name)))
	return err
}

func (d *disk) Sync() error { return d.syncNames("") }

// touch notes that names in a directory have changed.
func (d *disk) touch(dir string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names++
	d.dirty[dir] = d.names
}

// Share and Alone are a lock on a file, so that they hold between processes and end with them: what no snapshot
// lists while nobody writes is an orphan for certain, however young it is.
func (d *disk) Share(ctx context.Context) (func(), error) { return d.lock(ctx, unix.LOCK_SH) }

func (d *disk) Alone(ctx context.Context) (func(), error) { return d.lock(ctx, unix.LOCK_EX) }

func (d *disk) lock(ctx context.Context, how int) (func(), error) {
	f, err := os.OpenFile(d.path("lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		switch err {
		case nil:
			return func() { _ = f.Close() }, nil
		case unix.EINTR:
			continue
		case unix.EWOULDBLOCK: // flock has no wait that a context could end
			select {
			case <-ctx.Done():
				return nil, errors.Join(ctx.Err(), f.Close())
			case <-time.After(lockPause):
			}
		default:
			return nil, errors.Join(fmt.Errorf("lock: %w", err), f.Close())
		}
	}
}

const lockPause = 2 * time.Millisecond // arbitrary, far below a commit

const tmpSuffix = ".tmp"

// readAll reads a small object whole.
func readAll(s storage, name string) ([]byte, error) {
	o, err := s.Open(name)
	if err != nil {
		return nil, err
	}
	b := make([]byte, o.Size())
	_, err = io.ReadFull(io.NewSectionReader(o, 0, o.Size()), b)
	return b, errors.Join(err, o.Close())
}

// writeAll writes a small object whole, durably.
func writeAll(s storage, name string, data []byte) error {
	w, err := s.Create(name)
	if err != nil {
		return err
	}
	_, err = bytes.NewReader(data).WriteTo(w)
	return errors.Join(err, w.Close())
}
