// Package metadata is the root document of an Iceberg table: its schemas, snapshots and properties, as JSON with a
// checksum.
package metadata

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"sluice/internal/watermark"
)

// ErrDamaged says that bytes are there but are not what was written.
var ErrDamaged = errors.New("damaged")

// Table is a table's root document in Iceberg's format version 2. Members that we never read stay raw.
type Table struct {
	FormatVersion   int               `json:"format-version"`
	TableUUID       string            `json:"table-uuid"`
	Location        string            `json:"location"`
	LastSequence    int64             `json:"last-sequence-number"`
	LastUpdatedMS   int64             `json:"last-updated-ms"`
	LastColumnID    int               `json:"last-column-id"`
	CurrentSchemaID int               `json:"current-schema-id"`
	Schemas         []json.RawMessage `json:"schemas"`
	DefaultSpecID   int               `json:"default-spec-id"`
	Specs           []json.RawMessage `json:"partition-specs"`
	LastPartitionID int               `json:"last-partition-id"`
	DefaultSortID   int               `json:"default-sort-order-id"`
	SortOrders      []json.RawMessage `json:"sort-orders"`
	Properties      map[string]string `json:"properties"`
	CurrentSnapshot *int64            `json:"current-snapshot-id,omitempty"`
	Refs            map[string]Ref    `json:"refs,omitempty"`
	Snapshots       []Snapshot        `json:"snapshots"`
	SnapshotLog     []SnapshotEntry   `json:"snapshot-log"`
	MetadataLog     []LogEntry        `json:"metadata-log"`
}

// Ref is a name of a snapshot.
type Ref struct {
	SnapshotID int64  `json:"snapshot-id"`
	Type       string `json:"type"`
}

// Snapshot is a version of the rows.
type Snapshot struct {
	ID           int64             `json:"snapshot-id"`
	Parent       *int64            `json:"parent-snapshot-id,omitempty"`
	Sequence     int64             `json:"sequence-number"`
	TimestampMS  int64             `json:"timestamp-ms"`
	ManifestList string            `json:"manifest-list"`
	Summary      map[string]string `json:"summary"`
	SchemaID     int               `json:"schema-id"`
}

// SnapshotEntry says when a snapshot became the current one.
type SnapshotEntry struct {
	TimestampMS int64 `json:"timestamp-ms"`
	SnapshotID  int64 `json:"snapshot-id"`
}

// LogEntry is an earlier version of the document.
type LogEntry struct {
	TimestampMS int64  `json:"timestamp-ms"`
	File        string `json:"metadata-file"`
}

// Encode is the document as a file holds it.
func (m *Table) Encode() ([]byte, error) {
	b, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	return seal(b), nil
}

// Decode reads a file that holds a document.
func Decode(b []byte) (*Table, error) {
	document, ok := Unseal(b)
	if !ok {
		return nil, fmt.Errorf("%w: checksum differs", ErrDamaged)
	}
	m := new(Table)
	if err := json.Unmarshal(document, m); err != nil {
		return nil, fmt.Errorf("%w: not the JSON of a table", ErrDamaged)
	}
	if m.FormatVersion != 2 {
		return nil, fmt.Errorf("table format version %d, this program knows 2", m.FormatVersion)
	}
	if m.Properties == nil {
		m.Properties = map[string]string{}
	}
	return m, m.checkVersion()
}

// FormatVersion is that of everything Sluice puts into a table beyond Iceberg's own format: columns, properties,
// footers. A table says it as the property VersionProperty, and every commit raises it to that of the program. A
// program raises it when an older one must not work with the table.
const (
	FormatVersion   = 1
	VersionProperty = "sluice.table-version"
)

// ErrVersion says that a table is of a later version than this program knows.
var ErrVersion = errors.New("the table has version")

// checkVersion says whether this program knows the table's version. Other programs may remove a property, which is no
// harm.
func (m *Table) checkVersion() error {
	text, ok := m.Properties[VersionProperty]
	if !ok {
		return nil
	}
	if n, err := strconv.Atoi(text); err != nil || n > FormatVersion {
		return fmt.Errorf("%w %.20q, this program knows %d: use the sluice that wrote it, or a newer one", ErrVersion, text,
			FormatVersion)
	}
	return nil
}

// Current is the snapshot readers see, nil before the first commit.
func (m *Table) Current() *Snapshot {
	if m.CurrentSnapshot == nil || *m.CurrentSnapshot < 0 {
		return nil
	}
	return m.Snapshot(*m.CurrentSnapshot)
}

// Snapshot is that of an id; nil if the table does not keep it.
func (m *Table) Snapshot(id int64) *Snapshot {
	for i := len(m.Snapshots) - 1; i >= 0; i-- {
		if m.Snapshots[i].ID == id {
			return &m.Snapshots[i]
		}
	}
	return nil
}

// History is the current snapshot, and those before it.
func (m *Table) History() (older []Snapshot, cur *Snapshot) {
	cur = m.Current()
	for i := range m.Snapshots {
		if cur == nil || m.Snapshots[i].ID != cur.ID {
			older = append(older, m.Snapshots[i])
		}
	}
	return older, cur
}

// Metadata files are named as Hadoop's catalog names them, so that DuckDB and Spark open the directory.
const (
	Dir      = "metadata"
	HintName = Dir + "/version-hint.text"
)

// Name is that of the file of a version.
func Name(version int64) string {
	return path.Join(Dir, "v"+strconv.FormatInt(version, 10)+".metadata.json")
}

// VersionOf is the version of a file by its name.
func VersionOf(name string) (int64, bool) {
	base, ok := strings.CutSuffix(path.Base(name), ".metadata.json")
	if !ok || !strings.HasPrefix(base, "v") {
		return 0, false
	}
	n, err := strconv.ParseInt(base[1:], 10, 64)
	return n, err == nil && n > 0
}

// TrimLog drops what the log says of snapshots that are gone.
func (m *Table) TrimLog() {
	m.SnapshotLog = slices.DeleteFunc(slices.Clone(m.SnapshotLog), func(e SnapshotEntry) bool {
		return m.Snapshot(e.SnapshotID) == nil
	})
}

// Progress is what of the stream the table holds. A snapshot that another program made does not say, so its parent is
// asked, and the table's properties where that is gone.
func (m *Table) Progress() watermark.Progress {
	if cur := m.Current(); cur != nil {
		if at, ok := m.ProgressAt(cur); ok {
			return at
		}
	}
	p, _ := watermark.Read(m.Properties)
	return p
}

// ProgressAt is Progress as of a snapshot. It is not ok if neither the snapshot nor one before it that is kept says.
func (m *Table) ProgressAt(s *Snapshot) (watermark.Progress, bool) {
	for ; s != nil; s = m.Snapshot(*s.Parent) {
		if p, ok := watermark.Read(s.Summary); ok {
			return p, true
		}
		if s.Parent == nil {
			break
		}
	}
	return watermark.Progress{}, false
}

// newUUID is the id of a new table.
func newUUID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails: crypto/rand ends the program instead
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// NewSnapshotID is that of a new snapshot.
func NewSnapshotID() int64 {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return int64(binary.LittleEndian.Uint64(b[:]) >> 1)
}
