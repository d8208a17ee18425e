// Package objectstore keeps objects by name: in a directory, or in a bucket of an S3-compatible store.
package objectstore

import (
	"context"
	"errors"
	"io"
	"path"
	"path/filepath"
	"time"
)

// Store is a place that objects lie in. Names are relative, use slashes, and have no "." or ".." in them: no method
// reaches what lies outside of the place. A Store may be used by many goroutines, and several processes may use one
// place. The end of a context ends a request to a bucket at once; work in a directory goes on to its end.
type Store interface {
	// Create starts a new object; ctx is for all of its writing. It is visible once Close has returned nil, and on stable
	// storage at the latest when a CreateExclusive that began afterwards has made its own object visible.
	Create(ctx context.Context, name string) (Writer, error)
	// CreateExclusive writes a whole object unless there is one by that name: then it answers fs.ErrExist. After
	// nil it is on stable storage; after ErrUncertain it may be there; after any other error it is not.
	CreateExclusive(ctx context.Context, name string, data []byte) error
	// Replace writes a whole object over what is there, unless keep says of what is there that it stays; nil replaces
	// always. In a directory no other Replace comes between the look and the write. It may be lost in a crash, never torn.
	Replace(ctx context.Context, name string, data []byte, keep func(there []byte) bool) error
	// Open opens an object to be read; ctx is for all of its reading. fs.ErrNotExist when there is none. An open file of a
	// directory stays readable when it is removed; an object of a bucket does not, which is why a bucket has a Grace.
	Open(ctx context.Context, name string) (Object, error)
	// Read reads a small object whole; fs.ErrNotExist when there is none.
	Read(ctx context.Context, name string) ([]byte, error)
	// ReadEnd reads the last n bytes of an object, which is at least so long, as it is now and not as somebody remembers
	// it.
	ReadEnd(ctx context.Context, name string, n int) ([]byte, error)
	Exists(ctx context.Context, name string) (bool, error)
	// List lists what lies directly in a directory, or below it if deep.
	List(ctx context.Context, dir string, deep bool) ([]Entry, error)
	// Remove deletes an object. What is not there is removed already.
	Remove(ctx context.Context, name string) error
	// Sync makes what was created and removed before it durable.
	Sync(ctx context.Context) error
	// LockShared holds off LockExclusive until release is called, and LockExclusive everybody else. A store without such a
	// lock has a Grace: for so long after it was written an object may be about to be listed.
	LockShared(ctx context.Context) (release func(), err error)
	LockExclusive(ctx context.Context) (release func(), err error)
	Grace() time.Duration
	// ReadOnly says whether the place was opened to be read only. Then whatever writes answers ErrReadOnly.
	ReadOnly() bool
	// Location is the URL of an object, as Iceberg's documents name it; "" is the place itself. Path is what people and
	// programs open it by: a path, or the URL of an object in a bucket.
	Location(name string) string
	Path(name string) string
	// Sub is the place below a name. The locks of the two are not the same.
	Sub(name string) Store
}

// Writer is an object that is being written.
type Writer interface {
	io.Writer
	// Close makes the object visible. After an error it is not there, or nobody will read it.
	Close() error
	// Abort gives the object up. Nothing of it is visible.
	Abort()
}

// Object is an object that is open to be read.
type Object interface {
	io.ReaderAt
	io.Closer
	Size() int64
}

// Entry is one entry of a listing. A Dir has no other member but its name.
type Entry struct {
	Name     string
	Dir      bool
	Size     int64
	Modified time.Time
}

// ErrUncertain says that a write may have happened.
var ErrUncertain = errors.New("the outcome is not known")

// ErrReadOnly says that a place was opened to be read only.
var ErrReadOnly = errors.New("it was opened to be read only")

// WriteAll writes a small object whole, as Create does.
func WriteAll(ctx context.Context, s Store, name string, data []byte) error {
	w, err := s.Create(ctx, name)
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return errors.Join(err, w.Close())
}

// isLocal says whether a name stays inside of its place; "" is the place itself.
func isLocal(name string) bool {
	return name == "" || filepath.IsLocal(name) && path.Clean(name) == name
}

// errOutside says that a name leads out of its place.
var errOutside = errors.New("the name leads out of the place")
