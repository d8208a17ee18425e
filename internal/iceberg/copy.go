package iceberg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strconv"

	"sluice/internal/objectstore"
)

// ErrInUse says that a place holds a table that somebody works with.
var ErrInUse = errors.New("there is a table already that is in use")

// CopyTo copies the table, as it is now with all its snapshots, to another place, while others commit. What is there
// already is not copied again, so it can be interrupted and repeated, and a later copy brings the place up to date. The
// copy becomes a table of its own when it is opened there: from then on CopyTo answers ErrInUse. progress is called
// after each file.
//
// Order: data files, manifests and lists, then the version that lists them, then the hint. A crash before the version
// leaves files that nothing lists.
//
// Steps: T.copy, T.copied before the version, T.hinted before the hint.
func (t *table) CopyTo(ctx context.Context, to objectstore.Store, progress func(done, total int)) error {
	release, err := t.store.Share(ctx) // a sweep waits
	if err != nil {
		return err
	}
	defer release()
	if err := t.at("copy"); err != nil {
		return err
	}
	s, err := t.refresh(ctx)
	if err != nil {
		return err
	}
	if s.damaged() {
		return fmt.Errorf("copy %s: %w: repair it first", t.layout.name, ErrDamaged)
	}
	if err := unused(to); err != nil {
		return fmt.Errorf("copy %s to %s: %w", t.layout.name, to.Location(""), err)
	}
	used, err := t.used(s)
	if err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(used))
	for i, name := range names {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := copyObject(t.store, to, name); err != nil {
			return fmt.Errorf("copy %s: %w", t.store.Location(name), err)
		}
		progress(i+1, len(names))
	}
	if err := t.at("copied"); err != nil {
		return err
	}
	b, err := t.store.Read(metadataName(s.read))
	if err != nil {
		return err
	}
	if err := to.CreateExclusive(metadataName(s.version), b); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if there, err := to.Read(metadataName(s.version)); err != nil || !bytes.Equal(there, b) {
		return errors.Join(ErrInUse, err)
	}
	if err := t.at("hinted"); err != nil {
		return err
	}
	return errors.Join(to.Replace(hintName, strconv.AppendInt(nil, s.version, 10)), to.Sync())
}

// TableID is the identity of the table at a place, which a copy shares; "" where there is none. It changes nothing.
func TableID(at objectstore.Store) (string, error) {
	versions, err := (&table{store: at}).versions()
	if errors.Is(err, errNoTable) {
		return "", nil
	}
	for _, version := range versions { // the newest may be damaged; the identity never changes
		var b []byte
		if b, err = at.Read(metadataName(version)); err != nil {
			continue
		}
		var m *metadata
		if m, err = decodeMetadata(b); err == nil {
			return m.TableUUID, nil
		}
	}
	return "", err
}

// unused says whether a place holds no table that was opened there: one that was names its own place.
func unused(at objectstore.Store) error {
	hint, err := at.Read(hintName)
	if isMissing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	version, err := strconv.ParseInt(string(hint), 10, 64)
	if err != nil {
		return ErrInUse
	}
	b, err := at.Read(metadataName(version))
	if err != nil {
		return err
	}
	m, err := decodeMetadata(b)
	if err != nil {
		return err
	}
	if m.Location == at.Location("") {
		return ErrInUse
	}
	return nil
}

// copyObject copies one object, unless it is there whole. Objects never change, so the same size is the same object.
func copyObject(from, to objectstore.Store, name string) error {
	in, err := from.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	if there, err := to.Open(name); err == nil {
		size := there.Size()
		_ = there.Close()
		if size == in.Size() {
			return nil
		}
		if err := to.Remove(name); err != nil {
			return err
		}
	} else if !isMissing(err) {
		return err
	}
	out, err := to.Create(name)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, io.NewSectionReader(in, 0, in.Size())); err != nil {
		out.Abort()
		return err
	}
	return out.Close()
}
