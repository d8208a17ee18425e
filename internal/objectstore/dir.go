package objectstore

import (
	"context"
	"crypto/rand"
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
	"time"

	"sluice/internal/durable"
)

// Dir is a Store in a directory. Its files are readable by their owner alone: hashes of addresses can be reversed.
// ShareWith opens a directory for a group; then whatever comes later is open for it, too. Nothing outside of the
// directory that was opened can be reached, by a name or by a symbolic link.
type Dir struct {
	place    *place
	sub      string // this place below the root; "" is the root
	shared   bool   // a group may read
	readOnly bool   // nothing is written, not even a lock

	mu    sync.Mutex
	made  map[string]bool   // directories below the root known to be durable
	dirty map[string]uint64 // directories with names that may not be: a number that changes with each
	names uint64
}

// place is the directory that lies at a path now: somebody may put another one there, such as a copy.
type place struct {
	path string
	mu   sync.Mutex
	root *os.Root
	info os.FileInfo // of root
}

// open returns the directory at the path; fs.ErrNotExist when there is none.
func (p *place) open() (*os.Root, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	info, err := os.Stat(p.path)
	if err != nil {
		return nil, err
	}
	if p.root != nil && os.SameFile(info, p.info) {
		return p.root, nil
	}
	root, err := os.OpenRoot(p.path)
	if err != nil {
		return nil, err
	}
	if info, err = root.Stat("."); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	p.root, p.info = root, info // the one before may be in use
	return root, nil
}

// do does something in the directory at the path.
func (p *place) do(work func(*os.Root) error) error {
	root, err := p.open()
	if err != nil {
		return err
	}
	return work(root)
}

// OpenDir opens a directory. It makes the directory if there is none.
func OpenDir(dir string) (*Dir, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := makeDurable(dir); err != nil {
		return nil, err
	}
	p := &place{path: dir}
	if _, err := p.open(); err != nil {
		return nil, err
	}
	shared := p.info.Mode()&groupReads == groupReads
	return &Dir{place: p, shared: shared, made: map[string]bool{}, dirty: map[string]uint64{}}, nil
}

// OpenDirToRead opens a directory that is there, for somebody who only reads: it may be on a medium that cannot be
// written to.
func OpenDirToRead(dir string) (*Dir, error) {
	d, err := NewDirToRead(dir)
	if err != nil {
		return nil, err
	}
	_, err = d.place.open()
	return d, err
}

// NewDirToRead is a directory that may come later, for somebody who only reads.
func NewDirToRead(dir string) (*Dir, error) {
	dir, err := filepath.Abs(dir)
	return &Dir{place: &place{path: dir}, readOnly: true}, err
}

// makeDurable makes a directory and its parents durable, each before anything is put into it.
func makeDurable(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeDurable(filepath.Dir(dir)); err != nil {
			return err
		}
		err = os.Mkdir(dir, 0o700)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return durable.Sync(filepath.Dir(dir)) // also when it was there: whoever made it may have crashed before this
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

// path is a name below the root. One that leads out of this place becomes one that the root rejects.
func (d *Dir) path(name string) string {
	if !isLocal(name) {
		return "../" + name
	}
	return path.Join(".", d.sub, name)
}

// Path is the absolute path of a file.
func (d *Dir) Path(name string) string { return filepath.Join(d.place.path, d.sub, name) }

// Location is the path of a file with the scheme before it. Nothing in it is escaped: that is how Hadoop's file system
// spells such a URL, and every reader of Iceberg after it takes what follows the scheme for the path.
func (d *Dir) Location(name string) string { return "file://" + d.Path(name) }

// makeDir makes a directory, by its path, and its parents durable, each before anything is put into it.
func (d *Dir) makeDir(dir string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.makeDirLocked(dir)
}

func (d *Dir) makeDirLocked(dir string) error {
	if d.readOnly {
		return ErrReadOnly
	}
	if d.made[dir] || dir == "." {
		return nil
	}
	root, err := d.place.open()
	if err != nil {
		return err
	}
	err = root.Mkdir(dir, 0o700)
	if err == nil && d.shared { // the group is inherited; the umask must not take its rights
		err = root.Chmod(dir, groupReads|0o700)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) && path.Dir(dir) != ".":
		delete(d.made, path.Dir(dir)) // somebody may have removed it
		if err := d.makeDirLocked(path.Dir(dir)); err != nil {
			return err
		}
		return d.makeDirLocked(dir)
	case err != nil && !errors.Is(err, fs.ErrExist):
		return err
	}
	// Also when it was there: whoever made it may have crashed before this sync.
	if err := d.syncDir(path.Dir(dir)); err != nil {
		return err
	}
	d.made[dir] = true
	return nil
}

// syncDir brings the names in a directory, by its path, to stable storage.
func (d *Dir) syncDir(dir string) error {
	root, err := d.place.open()
	if err != nil {
		return err
	}
	f, err := root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Create starts a new file.
func (d *Dir) Create(_ context.Context, name string) (Writer, error) {
	file := d.path(name)
	if err := d.makeDir(path.Dir(file)); err != nil {
		return nil, err
	}
	f, err := d.openNew(file)
	if errors.Is(err, fs.ErrNotExist) { // another process has swept the empty directory away
		d.forget(path.Dir(file))
		if err := d.makeDir(path.Dir(file)); err != nil {
			return nil, err
		}
		f, err = d.openNew(file)
	}
	if err != nil {
		return nil, err
	}
	return &dirWriter{d: d, f: f, path: file}, nil
}

// openNew makes a file by its path.
func (d *Dir) openNew(file string) (*os.File, error) {
	if d.readOnly {
		return nil, ErrReadOnly
	}
	root, err := d.place.open()
	if err != nil {
		return nil, err
	}
	f, err := root.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, d.fileMode())
	if err != nil || !d.shared {
		return f, err
	}
	if err := f.Chmod(d.fileMode()); err != nil { // whatever the umask is
		return nil, errors.Join(err, f.Close(), root.Remove(file))
	}
	return f, nil
}

func (d *Dir) forget(dir string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.made, dir)
}

// dirWriter is a file whose content is durable when it is closed. Its name is so after the next syncNames: one
// sync of a directory does for all files of a commit.
type dirWriter struct {
	d    *Dir
	f    *os.File
	path string
	err  error
}

func (w *dirWriter) Write(p []byte) (int, error) {
	n, err := w.f.Write(p)
	if err != nil {
		w.err = err
	}
	return n, err
}

func (w *dirWriter) Close() error {
	if w.err == nil {
		w.err = w.f.Sync()
	}
	if w.err != nil { // half a file is of no use to anyone
		return errors.Join(w.err, w.f.Close(), w.d.unlink(w.path))
	}
	w.d.touch(path.Dir(w.path))
	return w.f.Close()
}

// Abort removes what there is of the file.
func (w *dirWriter) Abort() {
	_ = w.f.Close()
	_ = w.d.unlink(w.path)
}

// unlink removes a file or an empty directory by its path.
func (d *Dir) unlink(file string) error {
	return d.place.do(func(root *os.Root) error { return root.Remove(file) })
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
		if err := d.syncDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) { // swept away, so nobody's
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
func (d *Dir) CreateExclusive(ctx context.Context, name string, data []byte) error {
	tmp := name + "." + rand.Text() + tmpSuffix
	w, err := d.Create(ctx, tmp)
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	if err := errors.Join(err, w.Close()); err != nil {
		return err
	}
	dir := path.Dir(d.path(name))
	err = d.syncNames(dir)
	if err == nil {
		err = d.place.do(func(root *os.Root) error { return root.Link(d.path(tmp), d.path(name)) })
	}
	_ = d.unlink(d.path(tmp)) // else the sweep finds it
	if err != nil {
		return err
	}
	if err := d.syncDir(dir); err != nil {
		return errors.Join(ErrUncertain, err)
	}
	return nil
}

// Replace writes beside the name and renames, under a lock on the directory of the name.
func (d *Dir) Replace(ctx context.Context, name string, data []byte, keep func(there []byte) bool) error {
	release, err := d.lockDir(ctx, path.Dir(d.path(name)))
	if err != nil {
		return err
	}
	defer release()
	if keep != nil {
		there, err := d.Read(ctx, name)
		if err == nil && keep(there) {
			return nil
		}
	}
	tmp := d.path(name) + "." + rand.Text() + tmpSuffix
	f, err := d.openNew(tmp)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, d.unlink(tmp))
	}
	return d.place.do(func(root *os.Root) error { return root.Rename(tmp, d.path(name)) })
}

type dirObject struct {
	*os.File
	size int64
}

func (o dirObject) Size() int64 { return o.size }

// Open opens a file to be read.
func (d *Dir) Open(_ context.Context, name string) (Object, error) {
	root, err := d.place.open()
	if err != nil {
		return nil, err
	}
	f, err := root.Open(d.path(name))
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
func (d *Dir) Read(_ context.Context, name string) ([]byte, error) {
	root, err := d.place.open()
	if err != nil {
		return nil, err
	}
	return root.ReadFile(d.path(name))
}

// ReadEnd reads the last bytes of a file.
func (d *Dir) ReadEnd(ctx context.Context, name string, n int) ([]byte, error) {
	o, err := d.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	b := make([]byte, min(int64(n), o.Size()))
	_, err = o.ReadAt(b, o.Size()-int64(len(b)))
	return b, errors.Join(err, o.Close())
}

// ReadOnly says how the directory was opened.
func (d *Dir) ReadOnly() bool { return d.readOnly }

// Grace is nothing: a sweep that is alone knows that nobody is writing.
func (d *Dir) Grace() time.Duration { return 0 }

// Exists says whether there is a file or directory by a name.
func (d *Dir) Exists(_ context.Context, name string) (bool, error) {
	err := d.place.do(func(root *os.Root) error {
		_, err := root.Stat(d.path(name))
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// List lists what lies directly in a directory, or all files below it if deep.
func (d *Dir) List(ctx context.Context, dir string, deep bool) ([]Entry, error) {
	var entries []fs.DirEntry
	root, err := d.place.open()
	if err == nil {
		entries, err = fs.ReadDir(root.FS(), d.path(dir))
	}
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
			below, err := d.List(ctx, name, true)
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
func (d *Dir) Remove(_ context.Context, name string) error {
	if d.readOnly {
		return ErrReadOnly
	}
	d.forget(d.path(name))
	err := d.unlink(d.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	d.touch(path.Dir(d.path(name)))
	return err
}

// Sync makes what was created and removed before it durable.
func (d *Dir) Sync(context.Context) error { return d.syncNames("") }

// touch notes that names in a directory have changed.
func (d *Dir) touch(dir string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names++
	d.dirty[dir] = d.names
}

// tmpSuffix ends the name of a file that is being written. A crash leaves it behind.
const tmpSuffix = ".tmp"

// Sub is the directory below.
func (d *Dir) Sub(name string) Store {
	return &Dir{
		place: d.place, sub: d.path(name), shared: d.shared, readOnly: d.readOnly, made: map[string]bool{},
		dirty: map[string]uint64{},
	}
}
