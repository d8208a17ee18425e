package iceberg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/internal/metadata"
)

// Document is the root document of a table, as of one version.
type Document struct {
	Location string // where the metadata file lies, as its own documents spell it
	Version  int64  // of the file
	Bytes    []byte // JSON, without the checksum at the end of the file

	end string // of the file
}

// Document returns the newest version of the table's root document that can be read. A caller that has it already
// passes it in, and gets it back without a read. The store is asked each time: an erasure by another process deletes
// files at once, and no reader may be led to them after that.
func (t *table) Document(ctx context.Context, known *Document) (*Document, error) {
	for attempt := 0; ; attempt++ {
		s, err := t.ask(ctx)
		if err != nil {
			return nil, fmt.Errorf("metadata of %s: %w", t.layout.name, err)
		}
		location := t.store.Location(metadata.Name(s.read))
		if known != nil && known.end == s.end && known.Location == location {
			return known, nil
		}
		b, err := t.store.Read(ctx, metadata.Name(s.read))
		if isMissing(err) && attempt < 3 { // newer versions came and this one was removed
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("metadata of %s: %w", t.layout.name, err)
		}
		document, ok := metadata.Unseal(b)
		if !ok {
			return nil, fmt.Errorf("metadata of %s: %w: checksum differs", t.layout.name, metadata.ErrDamaged)
		}
		return &Document{Location: location, Version: s.read, Bytes: document, end: endOf(b)}, nil
	}
}

// Kept is a snapshot that can still be read.
type Kept struct {
	ID         int64
	At         time.Time
	Watermarks map[uint8]uint64 // up to where in each partition of the stream it holds everything
	Stream     string           // the identity of that stream
	Deleted    string           // see Witness.Mark
}

// ErrNoSnapshot says that a table has no such snapshot, or none at all.
var ErrNoSnapshot = errors.New("no such snapshot")

// Snapshot returns a snapshot that is kept; 0 is the newest. One that another program made has the watermarks of the
// one before it. Without one it returns ErrNoSnapshot.
func (t *table) Snapshot(ctx context.Context, id int64) (Kept, error) {
	s, err := t.refresh(ctx)
	if err != nil {
		return Kept{}, err
	}
	snap := s.meta.Current()
	if id != 0 {
		snap = s.meta.Snapshot(id)
	}
	if snap == nil {
		return Kept{}, ErrNoSnapshot
	}
	at, ok := s.meta.ProgressAt(snap)
	if !ok {
		return Kept{}, ErrNoSnapshot
	}
	when := time.UnixMilli(snap.TimestampMS).UTC()
	return Kept{ID: snap.ID, At: when, Watermarks: at.Watermarks, Stream: at.Stream, Deleted: at.Deleted}, nil
}
