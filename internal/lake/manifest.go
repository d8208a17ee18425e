package lake

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/iceberg-go"
)

const formatVersion = 2

// manifest lists parts. It never changes, so it is read once.
type manifest struct {
	name    string
	file    iceberg.ManifestFile // as manifest lists spell it
	parts   []*part              // the living
	damaged error                // it cannot be read; it is carried along, so that a repaired one is seen again
}

// entry is a part on its way into a manifest.
type entry struct {
	part   *part
	status iceberg.ManifestEntryStatus
}

// writeManifest makes a manifest durable that snapshot id, the sequence'th, adds to the table.
func (t *table) writeManifest(id, sequence int64, entries []entry) (*manifest, error) {
	var list []iceberg.ManifestEntry
	m := &manifest{}
	least := sequence
	for _, e := range entries {
		file, err := e.part.dataFile(t.layout, t.store)
		if err != nil {
			return nil, err
		}
		snap := id
		if e.status == iceberg.EntryStatusEXISTING {
			snap = e.part.snapshot
		}
		b := iceberg.NewManifestEntryBuilder(e.status, &snap, file)
		if e.status != iceberg.EntryStatusADDED {
			b = b.SequenceNum(e.part.sequence).FileSequenceNum(e.part.sequence)
		}
		if e.status != iceberg.EntryStatusDELETED {
			m.parts = append(m.parts, e.part)
		}
		if e.status == iceberg.EntryStatusEXISTING {
			least = min(least, e.part.sequence)
		}
		list = append(list, b.Build())
	}
	var buf bytes.Buffer
	file, err := iceberg.WriteManifest("m0", &buf, formatVersion, t.spec, t.layout.schema, id, list)
	if err != nil {
		return nil, fmt.Errorf("encode manifest: %w", err)
	}
	m.name = sealedName(newName(), buf.Bytes(), manifestSuffix)
	m.file = numbered(file, t.store.Location(m.name), sequence, least)
	return m, writeAll(t.store, m.name, buf.Bytes())
}

// numbered gives a manifest its location, and the sequence numbers that iceberg-go leaves open until a list is written: ours are
// known, and the same value goes into every list that follows.
func numbered(f iceberg.ManifestFile, location string, sequence, least int64) iceberg.ManifestFile {
	return iceberg.NewManifestFile(formatVersion, location, f.Length(), f.PartitionSpecID(), f.SnapshotID()).
		SequenceNum(sequence, least).
		AddedFiles(f.AddedDataFiles()).AddedRows(f.AddedRows()).
		ExistingFiles(f.ExistingDataFiles()).ExistingRows(f.ExistingRows()).
		DeletedFiles(f.DeletedDataFiles()).DeletedRows(f.DeletedRows()).
		Partitions(f.Partitions()).Build()
}

// writeList makes the list of a snapshot's manifests durable and returns its name.
func (t *table) writeList(id, sequence int64, parent *int64, manifests []*manifest) (string, error) {
	var files []iceberg.ManifestFile
	for _, m := range manifests {
		files = append(files, m.file)
	}
	var buf bytes.Buffer
	err := iceberg.WriteManifestList(formatVersion, &buf, id, parent, &sequence, 0, files)
	if err != nil {
		return "", fmt.Errorf("encode manifest list: %w", err)
	}
	name := sealedName(fmt.Sprintf("snap-%d-%s", id, newName()), buf.Bytes(), listSuffix)
	return name, writeAll(t.store, name, buf.Bytes())
}

// listFiles reads the list of a snapshot's manifests.
func (t *table) listFiles(s *snapshot) ([]iceberg.ManifestFile, error) {
	name, ok := below(s.ManifestList, metadataDir)
	if !ok {
		return nil, fmt.Errorf("%w: a manifest list outside of the table", errDamaged)
	}
	b, err := readAll(t.store, name)
	if err != nil {
		return nil, err
	}
	if !sealed(name, b, listSuffix) {
		return nil, fmt.Errorf("%w: checksum of the manifest list differs", errDamaged)
	}
	files, err := decodeList(b)
	if err != nil {
		return nil, fmt.Errorf("%w: manifest list", errDamaged)
	}
	return files, nil
}

// readList reads the manifests of a snapshot. Those that known has are not read again.
func (t *table) readList(s *snapshot, known []*manifest) ([]*manifest, error) {
	if s == nil {
		return nil, nil
	}
	files, err := t.listFiles(s)
	if err != nil {
		return nil, err
	}
	out := make([]*manifest, 0, len(files))
	for _, f := range files {
		m, err := t.openManifest(f, known)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

// openManifest is the manifest that a list names: the one that is known, or read now.
func (t *table) openManifest(f iceberg.ManifestFile, known []*manifest) (*manifest, error) {
	name, ok := below(f.FilePath(), metadataDir)
	if !ok {
		return nil, fmt.Errorf("%w: a manifest outside of the table", errDamaged)
	}
	i := slices.IndexFunc(known, func(m *manifest) bool { return m.name == name && m.damaged == nil })
	if i >= 0 {
		return known[i], nil
	}
	m := &manifest{name: name, file: f}
	err := t.readManifest(m)
	if errors.Is(err, errDamaged) {
		m.damaged, m.parts = err, nil
		err = nil
	}
	return m, err
}

func (t *table) readManifest(m *manifest) error {
	b, err := readAll(t.store, m.name)
	if isMissing(err) {
		return fmt.Errorf("%w: manifest is missing", errDamaged)
	}
	if err != nil {
		return err
	}
	if int64(len(b)) != m.file.Length() {
		return fmt.Errorf("%w: manifest has another length", errDamaged)
	}
	if !sealed(m.name, b, manifestSuffix) {
		return fmt.Errorf("%w: checksum of the manifest differs", errDamaged)
	}
	entries, err := decodeManifest(m.file, b)
	if err != nil {
		return fmt.Errorf("%w: manifest", errDamaged)
	}
	rows := int64(0)
	for _, e := range entries {
		p, err := readPart(e)
		if err != nil {
			return fmt.Errorf("%w: manifest: %w", errDamaged, err)
		}
		rows += p.rows
		m.parts = append(m.parts, p)
	}
	if rows != m.file.AddedRows()+m.file.ExistingRows() {
		return fmt.Errorf("%w: manifest lists other rows than it should", errDamaged)
	}
	return nil
}

// decodeManifest keeps a decoder that was written for whole files from ending the program over a broken one.
func decodeManifest(f iceberg.ManifestFile, b []byte) (entries []iceberg.ManifestEntry, err error) {
	defer recovered(&err)
	return iceberg.ReadManifest(f, bytes.NewReader(b), true)
}

func decodeList(b []byte) (files []iceberg.ManifestFile, err error) {
	defer recovered(&err)
	return iceberg.ReadManifestList(bytes.NewReader(b))
}

// Avro has no checksums, and one flipped bit makes another path or another bound of it. So the names of lists and
// manifests end with one of what is in them. The name of a list stands in the metadata, which has a checksum of
// itself, and those of manifests in the list: nothing in the chain can change unseen.
const (
	manifestSuffix = "-m0.avro"
	listSuffix     = ".avro"
)

func sealedName(stem string, content []byte, suffix string) string {
	return fmt.Sprintf("%s/%s-%08x%s", metadataDir, stem, crc32.Checksum(content, castagnoli), suffix)
}

// sealed says whether a file holds what its name says. A name without a checksum is another program's: it is
// taken as it is.
func sealed(name string, content []byte, suffix string) bool {
	stem, ok := strings.CutSuffix(name, suffix)
	at := strings.LastIndexByte(stem, '-')
	if !ok || len(stem)-at-1 != 8 {
		return true
	}
	sum, err := strconv.ParseUint(stem[at+1:], 16, 32)
	return err != nil || uint32(sum) == crc32.Checksum(content, castagnoli)
}

// mergeFactor is how many manifests of like size are merged into one. So a table has few manifests, a commit
// rewrites few entries, and both grow with the logarithm of the number of parts. Arbitrary beyond that.
const mergeFactor = 16

// merge chooses which manifests a new one of n entries swallows, and returns the others.
func merge(manifests []*manifest, n int) (swallowed, kept []*manifest) {
	kept = slices.Clone(manifests)
	for limit := mergeFactor; ; limit *= mergeFactor {
		if n >= limit {
			continue
		}
		small := func(m *manifest) bool { return m.damaged == nil && len(m.parts) < limit }
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
				n += len(m.parts)
			}
		}
		kept = slices.DeleteFunc(kept, small)
	}
}
