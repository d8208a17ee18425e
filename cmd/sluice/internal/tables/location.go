// Package tables knows where the tables of a service are: a directory or a bucket, as the operator says and as the
// engine has recorded.
package tables

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"sluice/internal/engine"
	"sluice/internal/lake"
	"sluice/internal/objectstore"
	"sluice/internal/stream"
)

// Location is where the tables are: a directory, or a bucket.
type Location struct {
	Dir string // "" for a bucket
	S3  objectstore.S3Options
}

func (p Location) String() string {
	if p.Dir != "" {
		return p.Dir
	}
	return strings.TrimSuffix("s3://"+p.S3.Bucket+"/"+p.S3.Prefix, "/")
}

// Address is the place as nodes compare it, and as the engine records it.
func (p Location) Address() (string, error) {
	if p.Dir == "" {
		return p.String(), nil
	}
	path, err := filepath.Abs(p.Dir)
	return (&url.URL{Scheme: "file", Path: path}).String(), err
}

// Of is where the tables of an engine are: as it has recorded, which --lake, said, may repeat; else as said, else
// in the data directory. With other tables a service would look like one without events.
func Of(ctx context.Context, e *engine.Engine, dir string, said Location, o objectstore.S3Options) (Location, error) {
	if e.Mode() == engine.External {
		return tablesOfCluster(ctx, e, dir, said)
	}
	if said == (Location{}) {
		return Recorded(ctx, e, dir, o)
	}
	recorded, err := e.Tables(ctx)
	if errors.Is(err, engine.ErrNotFound) {
		return said, nil
	}
	if err != nil {
		return Location{}, err
	}
	here, err := said.recorded(dir)
	if err != nil || here == recorded {
		return said, err
	}
	if recorded == "" {
		recorded = filepath.Join(dir, "lake")
	}
	return Location{},
		fmt.Errorf("the tables of this service are at %s, and --lake says %s: leave --lake out to use them; "+
			"to move them, run sluice lake copy --to with the new place, stop the server, and run sluice lake use with it",
			recorded, said)
}

// tablesOfCluster rejects a command that would read other tables than those of the cluster.
func tablesOfCluster(ctx context.Context, e *engine.Engine, dir string, said Location) (Location, error) {
	if said == (Location{}) {
		said.Dir = filepath.Join(dir, "lake")
	}
	r, err := e.Record(ctx)
	if errors.Is(err, engine.ErrNotFound) || err == nil && r.Lake == "" {
		return said, nil
	}
	if err != nil {
		return said, err
	}
	here, err := said.Address()
	if err == nil && here != r.Lake {
		err = fmt.Errorf("the tables of the cluster are at %s, and this command would read %s: name them with --lake",
			r.Lake, here)
	}
	return said, err
}

// Recorded is where an embedded engine has recorded that its tables are; without a record in the data directory.
func Recorded(ctx context.Context, e *engine.Engine, dir string, o objectstore.S3Options) (Location, error) {
	recorded, err := e.Tables(ctx)
	if errors.Is(err, engine.ErrNotFound) || err == nil && recorded == "" {
		return Location{Dir: filepath.Join(dir, "lake")}, nil
	}
	if err != nil {
		return Location{}, err
	}
	place, err := Parse("the recorded place", recorded, o)
	if err != nil {
		return Location{}, fmt.Errorf("the tables of this service are at %s: %w", recorded, err)
	}
	return place, nil
}

// recorded is the place as an embedded engine records it: "" for the data directory, so that this can be moved.
func (p Location) recorded(dir string) (string, error) {
	own, err := Location{Dir: filepath.Join(dir, "lake")}.Address()
	if err != nil {
		return "", err
	}
	address, err := p.Address()
	if address == own {
		return "", err
	}
	return address, err
}

// Keep records where the tables of an embedded engine are, if that is not recorded. Whoever loads calls it once
// the tables are open: a place that cannot be opened is not recorded.
func Keep(ctx context.Context, e *engine.Engine, dir string, place Location) error {
	if _, err := e.Tables(ctx); !errors.Is(err, engine.ErrNotFound) {
		return err
	}
	return Move(ctx, e, dir, place)
}

// Kept rejects the place of an embedded engine where its tables were and are no more, unless the stream holds all
// that was ever accepted: tables that are made anew there would look whole.
func Kept(ctx context.Context, e *engine.Engine, s *stream.Stream, place Location) error {
	if _, err := e.Tables(ctx); err != nil {
		if errors.Is(err, engine.ErrNotFound) { // there were none yet
			err = nil
		}
		return err
	}
	if id, _, err := There(ctx, place); id != "" || err != nil {
		return err
	}
	bounds, err := s.Bounds(ctx)
	for _, b := range bounds {
		if b.First > 1 {
			return fmt.Errorf("the tables of this service were at %s and are gone, and the stream no longer holds all that was "+
				"in them: put them back, or make new ones of what it holds with: sluice lake reload", place)
		}
	}
	return err
}

// Move records where the tables of an embedded engine are from now on.
func Move(ctx context.Context, e *engine.Engine, dir string, place Location) error {
	text, err := place.recorded(dir)
	if err != nil {
		return err
	}
	return e.KeepTables(ctx, text)
}

// There is the identity of the tables at a place, "" where there are none, and up to where they hold the stream.
func There(ctx context.Context, place Location) (string, map[uint8]uint64, error) {
	if _, err := os.Stat(place.Dir); place.Dir != "" && errors.Is(err, fs.ErrNotExist) {
		return "", nil, nil
	}
	store, err := place.OpenToRead()
	if err != nil {
		return "", nil, err
	}
	there, err := lake.Identity(ctx, store)
	return there.ID, there.Watermarks, err
}

// Parse is the place at a URL, which a flag has. o says which store a bucket is in.
func Parse(flag, place string, o objectstore.S3Options) (Location, error) {
	u, err := url.Parse(place)
	switch {
	case err != nil:
	case u.Scheme == "file" && u.Host == "" && strings.HasPrefix(u.Path, "/"):
		return Location{Dir: filepath.Clean(u.Path)}, nil
	case u.Scheme == "s3" && u.Host != "" && u.RawQuery == "":
		o.Bucket, o.Prefix = u.Host, strings.Trim(u.Path, "/")
		if o.Endpoint == "" && o.Region == "" {
			return Location{}, errors.New("a lake in a bucket needs --s3-endpoint, or --s3-region for Amazon S3")
		}
		if o.Endpoint == "" {
			o.Endpoint = "https://s3." + o.Region + ".amazonaws.com"
		}
		return Location{S3: o}, nil
	}
	return Location{}, errors.New(flag + " is a URL such as file:///var/lib/sluice/lake or s3://bucket/prefix")
}

// Open opens the place. A directory is made if it is not there.
func (p Location) Open(ctx context.Context) (objectstore.Store, error) {
	if p.Dir != "" {
		return p.Connect()
	}
	return objectstore.OpenS3(ctx, p.S3)
}

// Connect is Open without a question to the bucket.
func (p Location) Connect() (objectstore.Store, error) {
	if p.Dir != "" {
		return objectstore.OpenDir(p.Dir)
	}
	return objectstore.NewS3(p.S3)
}

// ConnectToRead is Connect for a node that writes nothing. Nothing need be there yet.
func (p Location) ConnectToRead() (objectstore.Store, error) {
	if p.Dir != "" {
		return objectstore.NewDirToRead(p.Dir)
	}
	p.S3.ReadOnly = true
	return objectstore.NewS3(p.S3)
}

// OpenToRead opens the place for a command that writes nothing. It must be there.
func (p Location) OpenToRead() (objectstore.Store, error) {
	if p.Dir != "" {
		return objectstore.OpenDirToRead(p.Dir)
	}
	return p.ConnectToRead()
}
