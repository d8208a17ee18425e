package iceberg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	apache "github.com/apache/iceberg-go"

	"sluice/internal/metadata"
	"sluice/internal/objectstore"
)

const formatVersion = 2

// manifest lists files. It never changes, so it is read once.
type manifest struct {
	name    string
	file    apache.ManifestFile // as manifest lists spell it
	files   []*dataFile         // the living
	damaged error               // it cannot be read; it is carried along, so that a repaired one is seen again
}

// entry is a file on its way into a manifest.
type entry struct {
	file   *dataFile
	status apache.ManifestEntryStatus
}

// writeManifest writes a manifest that snapshot id, the sequence'th, adds.
func (t *table) writeManifest(
	ctx context.Context, c *change, of *metadata.Table, id, sequence int64, entries []entry,
) (*manifest, error) {
	var list []apache.ManifestEntry
	m := &manifest{}
	least := sequence
	for _, e := range entries {
		file, err := e.file.dataFile(t.layout, t.store)
		if err != nil {
			return nil, err
		}
		snap := id
		if e.status == apache.EntryStatusEXISTING {
			snap = e.file.snapshot
		}
		b := apache.NewManifestEntryBuilder(e.status, &snap, file)
		if e.status != apache.EntryStatusADDED {
			b = b.SequenceNum(e.file.sequence).FileSequenceNum(e.file.sequence)
		}
		if e.status != apache.EntryStatusDELETED {
			m.files = append(m.files, e.file)
		}
		if e.status == apache.EntryStatusEXISTING {
			least = min(least, e.file.sequence)
		}
		list = append(list, b.Build())
	}
	var buf bytes.Buffer
	schema := apache.NewSchema(of.CurrentSchemaID, t.layout.schema.Fields()...)
	file, err := apache.WriteManifest("m0", &buf, formatVersion, t.spec, schema, id, list)
	if err != nil {
		return nil, fmt.Errorf("encode manifest: %w", err)
	}
	m.name = metadata.SealedName(newName(), buf.Bytes(), manifestSuffix)
	m.file = numbered(file, t.store.Location(m.name), sequence, least)
	return m, t.write(ctx, c, m.name, buf.Bytes())
}

// write makes a file of a commit durable, with others if there are any.
func (t *table) write(ctx context.Context, c *change, name string, content []byte) error {
	c.written = append(c.written, name)
	return c.with.Do(func() error { return objectstore.WriteAll(ctx, t.store, name, content) })
}

// numbered gives a manifest its location, and the sequence numbers that iceberg-go leaves open until a list is written:
// ours are known, and the same value goes into every list that follows.
func numbered(f apache.ManifestFile, location string, sequence, least int64) apache.ManifestFile {
	return apache.NewManifestFile(formatVersion, location, f.Length(), f.PartitionSpecID(), f.SnapshotID()).
		SequenceNum(sequence, least).
		AddedFiles(f.AddedDataFiles()).AddedRows(f.AddedRows()).
		ExistingFiles(f.ExistingDataFiles()).ExistingRows(f.ExistingRows()).
		DeletedFiles(f.DeletedDataFiles()).DeletedRows(f.DeletedRows()).
		Partitions(f.Partitions()).Build()
}

// writeList writes the list of a snapshot's manifests, and returns its name.
func (t *table) writeList(
	ctx context.Context, c *change, id, sequence int64, parent *int64, manifests []*manifest,
) (string, error) {
	var files []apache.ManifestFile
	for _, m := range manifests {
		files = append(files, m.file)
	}
	var buf bytes.Buffer
	err := apache.WriteManifestList(formatVersion, &buf, id, parent, &sequence, 0, files)
	if err != nil {
		return "", fmt.Errorf("encode manifest list: %w", err)
	}
	name := metadata.SealedName(fmt.Sprintf("snap-%d-%s", id, newName()), buf.Bytes(), listSuffix)
	return name, t.write(ctx, c, name, buf.Bytes())
}

// listFiles reads the list of a snapshot's manifests.
func (t *table) listFiles(ctx context.Context, s *metadata.Snapshot) ([]apache.ManifestFile, error) {
	name, ok := below(s.ManifestList, metadata.Dir)
	if !ok {
		return nil, fmt.Errorf("%w: a manifest list outside of the table", metadata.ErrDamaged)
	}
	b, err := t.store.Read(ctx, name)
	if err != nil {
		return nil, err
	}
	if !metadata.Sealed(name, b, listSuffix) {
		return nil, fmt.Errorf("%w: checksum of the manifest list differs", metadata.ErrDamaged)
	}
	files, err := decodeList(b)
	if err != nil {
		return nil, fmt.Errorf("%w: manifest list", metadata.ErrDamaged)
	}
	return files, nil
}

// readList reads the manifests of a snapshot. Those that known has are not read again.
func (t *table) readList(ctx context.Context, s *metadata.Snapshot, known []*manifest) ([]*manifest, error) {
	if s == nil {
		return nil, nil
	}
	files, err := t.listFiles(ctx, s)
	if err != nil {
		return nil, err
	}
	out := make([]*manifest, 0, len(files))
	for _, f := range files {
		m, err := t.openManifest(ctx, f, known)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

// openManifest is the manifest that a list names: the one that is known, or read now.
func (t *table) openManifest(ctx context.Context, f apache.ManifestFile, known []*manifest) (*manifest, error) {
	name, ok := below(f.FilePath(), metadata.Dir)
	if !ok {
		return nil, fmt.Errorf("%w: a manifest outside of the table", metadata.ErrDamaged)
	}
	i := slices.IndexFunc(known, func(m *manifest) bool { return m.name == name && m.damaged == nil })
	if i >= 0 {
		return known[i], nil
	}
	m := &manifest{name: name, file: f}
	err := t.readManifest(ctx, m)
	if errors.Is(err, metadata.ErrDamaged) {
		m.damaged, m.files = err, nil
		err = nil
	}
	return m, err
}

func (t *table) readManifest(ctx context.Context, m *manifest) error {
	b, err := t.store.Read(ctx, m.name)
	if isMissing(err) {
		return fmt.Errorf("%w: manifest is missing", metadata.ErrDamaged)
	}
	if err != nil {
		return err
	}
	if int64(len(b)) != m.file.Length() {
		return fmt.Errorf("%w: manifest has another length", metadata.ErrDamaged)
	}
	if !metadata.Sealed(m.name, b, manifestSuffix) {
		return fmt.Errorf("%w: checksum of the manifest differs", metadata.ErrDamaged)
	}
	entries, err := decodeManifest(m.file, b)
	if err != nil {
		return fmt.Errorf("%w: manifest", metadata.ErrDamaged)
	}
	rows := int64(0)
	for _, e := range entries {
		p, err := readDataFile(t.layout, e)
		if err != nil {
			return fmt.Errorf("%w: manifest: %w", metadata.ErrDamaged, err)
		}
		rows += p.rows
		m.files = append(m.files, p)
	}
	if rows != m.file.AddedRows()+m.file.ExistingRows() {
		return fmt.Errorf("%w: manifest lists other rows than it should", metadata.ErrDamaged)
	}
	return nil
}

// decodeManifest keeps a decoder that was written for whole files from ending the program over a broken one.
func decodeManifest(f apache.ManifestFile, b []byte) (entries []apache.ManifestEntry, err error) {
	defer recovered(&err)
	return apache.ReadManifest(f, bytes.NewReader(b), true)
}

func decodeList(b []byte) (files []apache.ManifestFile, err error) {
	defer recovered(&err)
	return apache.ReadManifestList(bytes.NewReader(b))
}

// recovered turns the panic of a decoder that was given damaged bytes into an error. It keeps no value of it: a
// panic's text could quote what was being decoded.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = errors.New("decoder gave up")
	}
}

// The ends of names. See metadata.SealedName.
const (
	manifestSuffix = "-m0.avro"
	listSuffix     = ".avro"
)

// mergeFactor is how many manifests of like size are merged into one. So a table has few manifests, a commit
// rewrites few entries, and both grow with the logarithm of the number of files. Arbitrary beyond that.
const mergeFactor = 16

// swallow chooses which manifests a new one of n entries swallows, and returns the others.
func swallow(manifests []*manifest, n int) (swallowed, kept []*manifest) {
	kept = slices.Clone(manifests)
	for limit := mergeFactor; ; limit *= mergeFactor {
		if n >= limit {
			continue
		}
		small := func(m *manifest) bool { return m.damaged == nil && len(m.files) < limit }
		count := 0
		for _, m := range kept {
			if small(m) {
				count++
			}
		}
		if count+1 < mergeFactor {
			return swallowed, kept
		}
		for _, m := range kept {
			if small(m) {
				swallowed = append(swallowed, m)
				n += len(m.files)
			}
		}
		kept = slices.DeleteFunc(kept, small)
	}
}
