// Package objectstore keeps objects by name: in a directory, or in a bucket of an S3-compatible store.
package objectstore

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"
)

// Store is a place that objects lie in. Names are relative and use slashes. A Store may be used by many goroutines,
// and several processes may use one place.
type Store interface {
	// Create starts a new object. It is visible once Close has returned nil, and on stable storage at the latest
	// when a CreateExclusive that began afterwards has made its own object visible.
	Create(name string) (Writer, error)
	// CreateExclusive writes a whole object unless there is one by that name: then it answers fs.ErrExist. After
	// nil it is on stable storage; after ErrUncertain it may be there; after any other error it is not.
	CreateExclusive(name string, data []byte) error
	// Replace writes a whole object over what is there. It may be lost in a crash, never torn.
	Replace(name string, data []byte) error
	// Open opens an object to be read; fs.ErrNotExist when there is none. An open file of a directory stays readable
	// when it is removed; an object of a bucket does not, which is why a bucket has a Grace.
	Open(name string) (Object, error)
	// Read reads a small object whole; fs.ErrNotExist when there is none.
	Read(name string) ([]byte, error)
	Exists(name string) (bool, error)
	// List lists what lies directly in a directory, or below it if deep.
	List(dir string, deep bool) ([]Entry, error)
	// Remove deletes an object. What is not there is removed already.
	Remove(name string) error
	// Sync makes what was created and removed before it durable.
	Sync() error
	// Share holds off Alone until the returned function is called; Alone waits for every Share. A store without such a
	// lock has a Grace: for so long after it was written an object may be about to be listed.
	Share(ctx context.Context) (release func(), err error)
	Alone(ctx context.Context) (release func(), err error)
	Grace() time.Duration
	// Location is what other programs call an object; "" is the place itself.
	Location(name string) string
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

// WriteAll writes a small object whole, as Create does.
func WriteAll(s Store, name string, data []byte) error {
	w, err := s.Create(name)
	if err != nil {
		return err
	}
	_, err = bytes.NewReader(data).WriteTo(w)
	return errors.Join(err, w.Close())
}
