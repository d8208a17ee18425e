package iceberg

import (
	"encoding/json"
	"time"

	"sluice/internal/metadata"
)

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
	m := metadata.New(metadata.Layout{
		Schema: schema, LastColumnID: l.schema.HighestFieldID(), Spec: specJSON, LastPartitionID: dayField,
		SortID: sortOrderID, SortColumns: l.order,
	}, location, now)
	return m, m.Describe(l.comment, l.docs)
}
