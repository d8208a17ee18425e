package objectstore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/user"
	"path"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"sluice/internal/durable"
)

// Dir is a Store in a directory. Its files are readable by their owner alone: hashes of addresses can be reversed.
// ShareWith opens a directory for a group; then whatever comes later is open for it, too.
type Dir struct {
	root   string
	shared bool // a group may read

	mu    sync.Mutex
	made  map[string]bool   // directories known to be durable
	dirty map[string]uint64 // directories with names that may not be: a number that changes with each
	names uint64
}

// OpenDir opens a directory. It makes the directory if there is none.
func OpenDir(root string) (*Dir, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	d := &Dir{root: root, made: map[string]bool{}, dirty: map[string]uint64{}}
	if err := d.makeDir(""); err != nil {
		return nil, err
	}
	info, err := os.Stat(root)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: root, Err: syscall.ENOTDIR}
	}
	d.shared = info.Mode()&groupReads == groupReads
	return d, nil
}

// groupReads is how a directory looks that ShareWith has opened.
const groupReads = os.ModeSetgid | 0o050

func (d *Dir) fileMode() os.FileMode {
	if d.shared {
		return 0o640
	}
	return 0o600
}

// ShareWith lets a group read everything in a directory, now and later, and pass through the directory it lies in. It
// makes the directory if there is none, and takes no right from anybody.
func ShareWith(dir, group string) error {
	g, err := user.LookupGroup(group)
	if err != nil {
		return fmt.Errorf("there is no group %s on this machine: make it, or name another one", group)
	}
	gid, err := strconv.Atoi(g.Gid)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
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

func (d *Dir) path(name string) string { return filepath.Join(d.root, filepath.FromSlash(name)) }

// Location is the absolute path of a file.
func (d *Dir) Location(name string) string { return d.path(name) }

// makeDir makes a directory and its parents durable, each before anything is put into it.
func (d *Dir) makeDir(dir string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.makeDirLocked(d.path(dir))
}

func (d *Dir) makeDirLocked(dir string) error {
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
	if err := durable.Sync(filepath.Dir(dir)); err != nil {
		return err
	}
	d.made[dir] = true
	return nil
}

// Create starts a new file.
func (d *Dir) Create(name string) (Writer, error) {
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
	return &dirWriter{d: d, f: f}, nil
}

func (d *Dir) openNew(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, d.fileMode())
	if err == nil && d.shared {
		err = f.Chmod(d.fileMode()) // whatever the umask is
	}
	return f, err
}

func (d *Dir) forget(dir string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.made, d.path(dir))
}

// dirWriter is a file whose content is durable when it is closed. Its name is so after the next syncNames: one
// sync of a directory does for all files of a commit.
type dirWriter struct {
	d   *Dir
	f   *os.File
	err error
}

func (w *dirWriter) Write(p []byte) (int, error) {
	n, err := w.f.Write(p)
	if err != nil {
		w.err = err
	}
	return n, err
}

func (w *dirWriter) Close() error {
	if w.err != nil { // half a file is of no use to anyone
		return errors.Join(w.err, w.f.Close(), os.Remove(w.f.Name()))
	}
	if err := w.f.Sync(); err != nil {
		return errors.Join(err, w.f.Close(), os.Remove(w.f.Name()))
	}
	w.d.touch(filepath.Dir(w.f.Name()))
	return w.f.Close()
}

// Abort removes what there is of the file.
func (w *dirWriter) Abort() {
	_ = w.f.Close()
	_ = os.Remove(w.f.Name())
}

// syncNames makes the names of all files that were closed before it durable, but for those in one directory.
func (d *Dir) syncNames(but string) error {
	d.mu.Lock()
	dirs := maps.Clone(d.dirty)
	d.mu.Unlock()
	for dir, names := range dirs {
		if dir == but {
			continue
		}
		if err := durable.Sync(dir); err != nil && !errors.Is(err, fs.ErrNotExist) { // swept away, so nobody's
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
func (d *Dir) CreateExclusive(name string, data []byte) error {
	tmp := name + "." + newSuffix() + tmpSuffix
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
	if err := durable.Sync(dir); err != nil {
		return errors.Join(ErrUncertain, err)
	}
	return nil
}

// Replace writes beside the name and renames.
func (d *Dir) Replace(name string, data []byte) error {
	tmp := d.path(name + "." + newSuffix() + tmpSuffix)
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

type dirObject struct {
	*os.File
	size int64
}

func (o dirObject) Size() int64 { return o.size }

// Open opens a file to be read.
func (d *Dir) Open(name string) (Object, error) {
	f, err := os.Open(d.path(name))
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return dirObject{f, info.Size()}, nil
}

// Read reads a whole file.
func (d *Dir) Read(name string) ([]byte, error) { return os.ReadFile(d.path(name)) }

// Grace is nothing: a sweep that is alone knows that nobody is writing.
func (d *Dir) Grace() time.Duration { return 0 }

// Exists says whether there is a file or directory by a name.
func (d *Dir) Exists(name string) (bool, error) {
	_, err := os.Stat(d.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// List lists what lies directly in a directory, or all files below it if deep.
func (d *Dir) List(dir string, deep bool) ([]Entry, error) {
	entries, err := os.ReadDir(d.path(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []Entry
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		if e.IsDir() && deep {
			below, err := d.List(name, true)
			if err != nil {
				return nil, err
			}
			out = append(out, below...)
			continue
		}
		if e.IsDir() {
			out = append(out, Entry{Name: name, Dir: true})
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		out = append(out, Entry{Name: name, Size: info.Size(), Modified: info.ModTime()})
	}
	return out, nil
}

// Remove deletes a file or an empty directory. What is not there is removed already.
func (d *Dir) Remove(name string) error {
	d.forget(name)
	err := os.Remove(d.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	d.touch(filepath.Dir(d.path(name)))
	return err
}

// Sync makes what was created and removed before it durable.
func (d *Dir) Sync() error { return d.syncNames("") }

// touch notes that names in a directory have changed.
func (d *Dir) touch(dir string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names++
	d.dirty[dir] = d.names
}

// Share and Alone are a lock on a file, so that they hold between processes and end with them: what no snapshot
// lists while nobody writes is an orphan for certain, however young it is.
func (d *Dir) Share(ctx context.Context) (func(), error) { return d.lock(ctx, durable.Shared) }

// Alone waits until nobody shares.
func (d *Dir) Alone(ctx context.Context) (func(), error) { return d.lock(ctx, durable.Exclusive) }

func (d *Dir) lock(ctx context.Context, how int) (func(), error) {
	f, err := os.OpenFile(d.path("lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
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

// tmpSuffix ends the name of a file that is being written. A crash leaves it behind.
const tmpSuffix = ".tmp"

// newSuffix is part of a name that nobody else uses.
func newSuffix() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	return hex.EncodeToString(b[:])
}

// Sub is the directory below.
func (d *Dir) Sub(name string) Store {
	return &Dir{root: d.path(name), shared: d.shared, made: map[string]bool{}, dirty: map[string]uint64{}}
}
