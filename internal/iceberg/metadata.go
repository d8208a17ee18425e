package iceberg

import (
	"encoding/json"
	"strconv"
	"time"

	"sluice/internal/metadata"
)

// FormatVersion is the version of tables that this program knows; ErrVersion is the error about a later one.
const FormatVersion = metadata.FormatVersion

var ErrVersion = metadata.ErrVersion

// newMetadata is the first version of a table: no snapshot yet.
func newMetadata(l *layout, location string, now time.Time) (*metadata.Table, error) {
	schema, err := json.Marshal(l.schema)
	if err != nil {
		return nil, err
	}
	spec := l.spec()
	specJSON, err := json.Marshal(&spec)
	if err != nil {
		return nil, err
	}
	m := &metadata.Table{
		FormatVersion:   2,
		TableUUID:       metadata.NewUUID(),
		Location:        location,
		LastUpdatedMS:   now.UnixMilli(),
		LastColumnID:    l.schema.HighestFieldID(),
		Schemas:         []json.RawMessage{schema},
		Specs:           []json.RawMessage{specJSON},
		LastPartitionID: dayField,
		DefaultSortID:   sortOrderID,
		SortOrders:      []json.RawMessage{json.RawMessage(`{"order-id":0,"fields":[]}`), metadata.SortOrder(sortOrderID, l.order)},
		Properties: map[string]string{
			"write.format.default": "parquet",
			// Others may write too, but expiry and clean-up are ours: they know the watermark.
			"gc.enabled":             "false",
			metadata.VersionProperty: strconv.Itoa(metadata.FormatVersion),
		},
		Snapshots:   []metadata.Snapshot{},
		SnapshotLog: []metadata.SnapshotEntry{},
		MetadataLog: []metadata.LogEntry{},
	}
	return m, m.Describe(l.comment, l.docs)
}
