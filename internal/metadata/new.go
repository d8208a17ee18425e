package metadata

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"
)

// Layout is what a new table looks like to other programs.
type Layout struct {
	Schema, Spec                  json.RawMessage
	LastColumnID, LastPartitionID int
	SortID                        int
	SortColumns                   []int // field ids the rows of a file are sorted by
}

// New is the first version of a table: no snapshot yet.
func New(l Layout, location string, now time.Time) *Table {
	return &Table{
		FormatVersion:   2,
		TableUUID:       newUUID(),
		Location:        location,
		LastUpdatedMS:   now.UnixMilli(),
		LastColumnID:    l.LastColumnID,
		Schemas:         []json.RawMessage{l.Schema},
		Specs:           []json.RawMessage{l.Spec},
		LastPartitionID: l.LastPartitionID,
		DefaultSortID:   l.SortID,
		SortOrders:      []json.RawMessage{json.RawMessage(`{"order-id":0,"fields":[]}`), sortOrder(l.SortID, l.SortColumns)},
		Properties: map[string]string{
			"write.format.default": "parquet",
			// Others may write too, but expiry and clean-up are ours: they know the watermark.
			"gc.enabled":    "false",
			VersionProperty: strconv.Itoa(FormatVersion),
		},
		Snapshots:   []Snapshot{},
		SnapshotLog: []SnapshotEntry{},
		MetadataLog: []LogEntry{},
	}
}

// logVersions is how many versions before it a document names. Arbitrary.
const logVersions = 20

// Next is a copy of a document, for a commit to change: in a table at a location, after the version whose file is
// before, with some properties set.
func (m *Table) Next(location, before string, set map[string]string, now time.Time) *Table {
	next := *m
	next.MetadataLog = append(slices.Clone(m.MetadataLog), LogEntry{m.LastUpdatedMS, before})
	next.MetadataLog = next.MetadataLog[max(0, len(next.MetadataLog)-logVersions):]
	next.Properties = maps.Clone(m.Properties)
	maps.Copy(next.Properties, set)
	next.Properties[VersionProperty] = strconv.Itoa(FormatVersion)
	next.LastUpdatedMS = max(now.UnixMilli(), m.LastUpdatedMS) // Iceberg wants time to stand still rather than go back
	next.Location = location
	return &next
}
