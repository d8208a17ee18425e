package iceberg

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"path"
	"strconv"
	"strings"
	"time"
)

// errDamaged says that bytes are there but are not what was written.
var errDamaged = errors.New("damaged")

// metadata is a table's root document in Iceberg's format version 2. Members that we never read stay raw.
type metadata struct {
	FormatVersion   int                `json:"format-version"`
	TableUUID       string             `json:"table-uuid"`
	Location        string             `json:"location"`
	LastSequence    int64              `json:"last-sequence-number"`
	LastUpdatedMS   int64              `json:"last-updated-ms"`
	LastColumnID    int                `json:"last-column-id"`
	CurrentSchemaID int                `json:"current-schema-id"`
	Schemas         []json.RawMessage  `json:"schemas"`
	DefaultSpecID   int                `json:"default-spec-id"`
	Specs           []json.RawMessage  `json:"partition-specs"`
	LastPartitionID int                `json:"last-partition-id"`
	DefaultSortID   int                `json:"default-sort-order-id"`
	SortOrders      []json.RawMessage  `json:"sort-orders"`
	Properties      map[string]string  `json:"properties"`
	CurrentSnapshot *int64             `json:"current-snapshot-id,omitempty"`
	Refs            map[string]ref     `json:"refs,omitempty"`
	Snapshots       []snapshot         `json:"snapshots"`
	SnapshotLog     []snapshotLogEntry `json:"snapshot-log"`
	MetadataLog     []metadataLogEntry `json:"metadata-log"`
}

type ref struct {
	SnapshotID int64  `json:"snapshot-id"`
	Type       string `json:"type"`
}

type snapshot struct {
	ID           int64             `json:"snapshot-id"`
	Parent       *int64            `json:"parent-snapshot-id,omitempty"`
	Sequence     int64             `json:"sequence-number"`
	TimestampMS  int64             `json:"timestamp-ms"`
	ManifestList string            `json:"manifest-list"`
	Summary      map[string]string `json:"summary"`
	SchemaID     int               `json:"schema-id"`
}

type snapshotLogEntry struct {
	TimestampMS int64 `json:"timestamp-ms"`
	SnapshotID  int64 `json:"snapshot-id"`
}

type metadataLogEntry struct {
	TimestampMS int64  `json:"timestamp-ms"`
	File        string `json:"metadata-file"`
}

// newMetadata is the first version of a table: no snapshot yet.
func newMetadata(l *layout, location string, now time.Time) (*metadata, error) {
	schema, err := json.Marshal(l.schema)
	if err != nil {
		return nil, err
	}
	spec := l.spec()
	specJSON, err := json.Marshal(&spec)
	if err != nil {
		return nil, err
	}
	m := &metadata{
		FormatVersion:   2,
		TableUUID:       newUUID(),
		Location:        location,
		LastUpdatedMS:   now.UnixMilli(),
		LastColumnID:    l.schema.HighestFieldID(),
		Schemas:         []json.RawMessage{schema},
		Specs:           []json.RawMessage{specJSON},
		LastPartitionID: dayField,
		DefaultSortID:   sortOrderID,
		SortOrders:      []json.RawMessage{json.RawMessage(`{"order-id":0,"fields":[]}`), l.sortOrder()},
		Properties: map[string]string{
			"write.format.default": "parquet",
			// Others may write too, but expiry and clean-up are ours: they know the watermark.
			"gc.enabled":    "false",
			versionProperty: strconv.Itoa(FormatVersion),
		},
		Snapshots:   []snapshot{},
		SnapshotLog: []snapshotLogEntry{},
		MetadataLog: []metadataLogEntry{},
	}
	return m, m.describe(l)
}

// commentProperty is where engines look for what a table is.
const commentProperty = "comment"

// describe gives the table and the columns of all its schemas the descriptions that a layout has for them. They are for
// people, so a table that was made with others gets these with its next commit, without a schema of a new id.
func (m *metadata) describe(l *layout) error {
	if l.comment != "" {
		m.Properties[commentProperty] = l.comment
	}
	for i, text := range m.Schemas {
		var schema map[string]json.RawMessage
		var fields []map[string]json.RawMessage
		if json.Unmarshal(text, &schema) != nil || json.Unmarshal(schema["fields"], &fields) != nil {
			return fmt.Errorf("%w: not the JSON of a schema", errDamaged)
		}
		for _, f := range fields {
			var id int
			if json.Unmarshal(f["id"], &id) != nil {
				return fmt.Errorf("%w: a column without an id", errDamaged)
			}
			if l.docs[id] != "" {
				f["doc"], _ = json.Marshal(l.docs[id])
			}
		}
		schema["fields"], _ = json.Marshal(fields)
		m.Schemas[i], _ = json.Marshal(schema)
	}
	return nil
}

func newUUID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails: crypto/rand ends the program instead
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

func newSnapshotID() int64 {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return int64(binary.LittleEndian.Uint64(b[:]) >> 1)
}

func (l *layout) sortOrder() json.RawMessage {
	type field struct {
		Transform string `json:"transform"`
		SourceID  int    `json:"source-id"`
		Direction string `json:"direction"`
		NullOrder string `json:"null-order"`
	}
	order := struct {
		ID     int     `json:"order-id"`
		Fields []field `json:"fields"`
	}{ID: sortOrderID}
	for _, id := range l.order {
		order.Fields = append(order.Fields, field{"identity", id, "asc", "nulls-last"})
	}
	b, _ := json.Marshal(order)
	return b
}

// A metadata document names every file of the table, and JSON with a flipped bit is mostly still JSON. So it ends
// with a checksum of itself: a line of 32 blanks and tabs, the bits of a CRC-32C, which every JSON reader passes
// over. As a member of the document it would be carried on by other programs that change the rest.
const sealLength = 33

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func seal(document []byte) []byte {
	sum := crc32.Checksum(document, castagnoli)
	for bit := range 32 {
		document = append(document, " \t"[sum>>bit&1])
	}
	return append(document, '\n')
}

// unseal cuts the checksum off. ok is false where the document is not what was sealed; one without a checksum was
// written by another program and is taken as it is.
func unseal(b []byte) (document []byte, ok bool) {
	at := len(b) - sealLength
	if at < 0 || b[len(b)-1] != '\n' {
		return b, true
	}
	sum := uint32(0)
	for bit, c := range b[at : len(b)-1] {
		switch c {
		case ' ':
		case '\t':
			sum |= 1 << bit
		case '\r', '\n':
			return b, false // a tab with a flipped bit
		default:
			return b, true // a damaged line is no JSON, either
		}
	}
	return b[:at], crc32.Checksum(b[:at], castagnoli) == sum
}

func (m *metadata) encode() ([]byte, error) {
	b, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	return seal(b), nil
}

func decodeMetadata(b []byte) (*metadata, error) {
	document, ok := unseal(b)
	if !ok {
		return nil, fmt.Errorf("%w: checksum differs", errDamaged)
	}
	m := new(metadata)
	if err := json.Unmarshal(document, m); err != nil {
		return nil, fmt.Errorf("%w: not the JSON of a table", errDamaged)
	}
	if m.FormatVersion != 2 {
		return nil, fmt.Errorf("table format version %d, this program knows 2", m.FormatVersion)
	}
	if m.Properties == nil {
		m.Properties = map[string]string{}
	}
	return m, m.checkVersion()
}

// FormatVersion is that of everything Sluice puts into a table beyond Iceberg's own format: columns, properties, footers. A
// table says it as the property versionProperty, and every commit raises it to that of the program. A program raises it
// when an older one must not work with the table.
const (
	FormatVersion   = 1
	versionProperty = "sluice.table-version"
)

// ErrVersion says that a table is of a later version than this program knows.
var ErrVersion = errors.New("the table has version")

// checkVersion says whether this program knows the table's version. Other programs may remove a property, which is no harm.
func (m *metadata) checkVersion() error {
	text, ok := m.Properties[versionProperty]
	if !ok {
		return nil
	}
	if n, err := strconv.Atoi(text); err != nil || n > FormatVersion {
		return fmt.Errorf("%w %.20q, this program knows %d: use the sluice that wrote it, or a newer one", ErrVersion, text, FormatVersion)
	}
	return nil
}

// current is the snapshot readers see, nil before the first commit.
func (m *metadata) current() *snapshot {
	if m.CurrentSnapshot == nil || *m.CurrentSnapshot < 0 {
		return nil
	}
	return m.snapshot(*m.CurrentSnapshot)
}

func (m *metadata) snapshot(id int64) *snapshot {
	for i := len(m.Snapshots) - 1; i >= 0; i-- {
		if m.Snapshots[i].ID == id {
			return &m.Snapshots[i]
		}
	}
	return nil
}

// history is the current snapshot, and those before it.
func (m *metadata) history() (older []snapshot, cur *snapshot) {
	for i := range m.Snapshots {
		if m.CurrentSnapshot != nil && m.Snapshots[i].ID == *m.CurrentSnapshot {
			cur = &m.Snapshots[i]
			continue
		}
		older = append(older, m.Snapshots[i])
	}
	return older, cur
}

// Metadata files are named as Hadoop's catalog names them, so that DuckDB and Spark open the directory.
const (
	metadataDir = "metadata"
	hintName    = metadataDir + "/version-hint.text"
)

func metadataName(version int64) string {
	return path.Join(metadataDir, "v"+strconv.FormatInt(version, 10)+".metadata.json")
}

func metadataVersion(name string) (int64, bool) {
	base, ok := strings.CutSuffix(path.Base(name), ".metadata.json")
	if !ok || !strings.HasPrefix(base, "v") {
		return 0, false
	}
	n, err := strconv.ParseInt(base[1:], 10, 64)
	return n, err == nil && n > 0
}
