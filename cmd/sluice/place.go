package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"sluice/internal/engine"
	"sluice/internal/lake"
	"sluice/internal/objectstore"
	"sluice/internal/stream"
)

// address is the place as nodes compare it, and as the engine records it.
func (p lakePlace) address() (string, error) {
	if p.dir == "" {
		return p.String(), nil
	}
	path, err := filepath.Abs(p.dir)
	return (&url.URL{Scheme: "file", Path: path}).String(), err
}

// placeOfLake is where the tables are that a command works on: as --lake says, else as the engine has recorded, else in
// --data. It is for commands that open no engine.
func placeOfLake(cmd *cobra.Command) (lakePlace, error) {
	said, err := saidPlace(cmd)
	if err != nil || said != (lakePlace{}) {
		return said, err
	}
	o := engineOptions(cmd)
	holds, err := engine.HoldsStream(o.Dir)
	if err != nil || !holds && o.URL == "" {
		return lakePlace{dir: filepath.Join(o.Dir, "lake")}, err
	}
	e, err := openEngine(cmd)
	if err != nil {
		return lakePlace{}, err
	}
	defer e.Close()
	return commandTables(cmd, e)
}

// commandTables is tablesOf for a command.
func commandTables(cmd *cobra.Command, e *engine.Engine) (lakePlace, error) {
	said, err := saidPlace(cmd)
	if err != nil {
		return lakePlace{}, err
	}
	return tablesOf(cmd.Context(), e, engineOptions(cmd).Dir, said, s3Flags(cmd))
}

// tablesOf is where the tables of an engine are: as it has recorded, which --lake, said, may repeat; else as said, else
// in the data directory. With other tables a service would look like one without events.
func tablesOf(ctx context.Context, e *engine.Engine, dir string, said lakePlace, o objectstore.S3Options) (lakePlace, error) {
	if e.Mode() == engine.External {
		return tablesOfCluster(ctx, e, dir, said)
	}
	if said == (lakePlace{}) {
		return recordedPlace(ctx, e, dir, o)
	}
	recorded, err := e.Tables(ctx)
	if errors.Is(err, engine.ErrNotFound) {
		return said, nil
	}
	if err != nil {
		return lakePlace{}, err
	}
	here, err := said.recorded(dir)
	if err != nil || here == recorded {
		return said, err
	}
	if recorded == "" {
		recorded = filepath.Join(dir, "lake")
	}
	return lakePlace{}, fmt.Errorf("the tables of this service are at %s, and --lake says %s: leave --lake out to use them; "+
		"to move them, run sluice lake copy --to with the new place, stop the server, and run sluice lake use with it", recorded, said)
}

// tablesOfCluster rejects a command that would read other tables than those of the cluster.
func tablesOfCluster(ctx context.Context, e *engine.Engine, dir string, said lakePlace) (lakePlace, error) {
	if said == (lakePlace{}) {
		said.dir = filepath.Join(dir, "lake")
	}
	r, err := e.Record(ctx)
	if errors.Is(err, engine.ErrNotFound) || err == nil && r.Lake == "" {
		return said, nil
	}
	if err != nil {
		return said, err
	}
	here, err := said.address()
	if err == nil && here != r.Lake {
		err = fmt.Errorf("the tables of the cluster are at %s, and this command would read %s: name them with --lake", r.Lake, here)
	}
	return said, err
}

// recordedPlace is where an embedded engine has recorded that its tables are; without a record in the data directory.
func recordedPlace(ctx context.Context, e *engine.Engine, dir string, o objectstore.S3Options) (lakePlace, error) {
	recorded, err := e.Tables(ctx)
	if errors.Is(err, engine.ErrNotFound) || err == nil && recorded == "" {
		return lakePlace{dir: filepath.Join(dir, "lake")}, nil
	}
	if err != nil {
		return lakePlace{}, err
	}
	place, err := placeAt("the recorded place", recorded, o)
	if err != nil {
		return lakePlace{}, fmt.Errorf("the tables of this service are at %s: %w", recorded, err)
	}
	return place, nil
}

// recorded is the place as an embedded engine records it: "" for the data directory, so that this can be moved.
func (p lakePlace) recorded(dir string) (string, error) {
	own, err := lakePlace{dir: filepath.Join(dir, "lake")}.address()
	if err != nil {
		return "", err
	}
	address, err := p.address()
	if address == own {
		return "", err
	}
	return address, err
}

// keepPlace records where the tables of an embedded engine are, if that is not recorded. Whoever loads calls it once
// the tables are open: a place that cannot be opened is not recorded.
func keepPlace(ctx context.Context, e *engine.Engine, dir string, place lakePlace) error {
	if _, err := e.Tables(ctx); !errors.Is(err, engine.ErrNotFound) {
		return err
	}
	return movePlace(ctx, e, dir, place)
}

// tablesKept rejects the place of an embedded engine where its tables were and are no more, unless the stream holds all
// that was ever accepted: tables that are made anew there would look whole.
func tablesKept(ctx context.Context, e *engine.Engine, s *stream.Stream, place lakePlace) error {
	if _, err := e.Tables(ctx); err != nil {
		if errors.Is(err, engine.ErrNotFound) { // there were none yet
			err = nil
		}
		return err
	}
	if id, _, err := tablesThere(ctx, place); id != "" || err != nil {
		return err
	}
	bounds, err := s.Bounds(ctx)
	for _, b := range bounds {
		if b.First > 1 {
			return fmt.Errorf("the tables of this service were at %s and are gone, and the stream no longer holds all that was in them: "+
				"put them back, or make new ones of what it holds with: sluice lake reload", place)
		}
	}
	return err
}

// movePlace records where the tables of an embedded engine are from now on.
func movePlace(ctx context.Context, e *engine.Engine, dir string, place lakePlace) error {
	text, err := place.recorded(dir)
	if err != nil {
		return err
	}
	return e.KeepTables(ctx, text)
}

// tablesThere is the identity of the tables at a place, "" where there are none, and up to where they hold the stream.
func tablesThere(ctx context.Context, place lakePlace) (string, map[uint8]uint64, error) {
	if _, err := os.Stat(place.dir); place.dir != "" && errors.Is(err, fs.ErrNotExist) {
		return "", nil, nil
	}
	store, err := place.openToRead(ctx)
	if err != nil {
		return "", nil, err
	}
	there, err := lake.Identity(ctx, store)
	return there.ID, there.Watermarks, err
}
