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

	"sluice/internal/metadata"
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
	release, err := t.store.LockShared(ctx) // a sweep waits
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
	if err := unused(ctx, to); err != nil {
		return fmt.Errorf("copy %s to %s: %w", t.layout.name, to.Path(""), err)
	}
	used, err := t.used(ctx, s)
	if err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(used))
	for i, name := range names {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := copyObject(ctx, t.store, to, name); err != nil {
			return fmt.Errorf("copy %s: %w", t.store.Path(name), err)
		}
		progress(i+1, len(names))
	}
	if err := t.at("copied"); err != nil {
		return err
	}
	b, err := t.store.Read(ctx, metadata.Name(s.read))
	if err != nil {
		return err
	}
	if err := to.CreateExclusive(ctx, metadata.Name(s.version), b); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if there, err := to.Read(ctx, metadata.Name(s.version)); err != nil || !bytes.Equal(there, b) {
		return errors.Join(ErrInUse, err)
	}
	if err := t.at("hinted"); err != nil {
		return err
	}
	return errors.Join(to.Replace(ctx, metadata.HintName, strconv.AppendInt(nil, s.version, 10), nil), to.Sync(ctx))
}

// Identity tells a table from others. A copy shares it.
type Identity struct {
	ID         string // "" is no table
	Version    int    // see metadata.FormatVersion
	Watermarks map[uint8]uint64
}

// Identify says what table is at a place, if any. It changes nothing.
func Identify(ctx context.Context, at objectstore.Store) (Identity, error) {
	versions, err := (&table{store: at}).versions(ctx)
	if errors.Is(err, ErrNoTable) {
		return Identity{}, nil
	}
	for _, version := range versions { // the newest may be damaged; the identity never changes
		var b []byte
		if b, err = at.Read(ctx, metadata.Name(version)); err != nil {
			continue
		}
		var m *metadata.Table
		if m, err = metadata.Decode(b); err == nil {
			version, _ := strconv.Atoi(m.Properties[metadata.VersionProperty])
			return Identity{m.TableUUID, version, m.Progress().Watermarks}, nil
		}
	}
	return Identity{}, err
}

// unused says whether a place holds no table that was opened there: one that was names its own place.
func unused(ctx context.Context, at objectstore.Store) error {
	hint, err := at.Read(ctx, metadata.HintName)
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
	b, err := at.Read(ctx, metadata.Name(version))
	if err != nil {
		return err
	}
	m, err := metadata.Decode(b)
	if err != nil {
		return err
	}
	if m.Location == at.Location("") {
		return ErrInUse
	}
	return nil
}

// copyObject copies one object, unless it is there whole. Objects never change, so the same size is the same object.
func copyObject(ctx context.Context, from, to objectstore.Store, name string) error {
	in, err := from.Open(ctx, name)
	if err != nil {
		return err
	}
	defer in.Close()
	if there, err := to.Open(ctx, name); err == nil {
		size := there.Size()
		_ = there.Close()
		if size == in.Size() {
			return nil
		}
		if err := to.Remove(ctx, name); err != nil {
			return err
		}
	} else if !isMissing(err) {
		return err
	}
	out, err := to.Create(ctx, name)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, io.NewSectionReader(in, 0, in.Size())); err != nil {
		out.Abort()
		return err
	}
	return out.Close()
}
