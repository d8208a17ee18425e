package iceberg

import (
	"context"
	"encoding/json"
	"fmt"

	apache "github.com/apache/iceberg-go"
)

// A table gets new columns by Iceberg's schema evolution: the current schema and the new fields become a schema of a new id.
// Files that were written before stay as they are, and every reader takes what they lack for null. Older snapshots keep the
// id of the schema they were written with.

// addColumns makes a schema with every column of a layout the current one, and says whether the current one lacked any.
// Columns that the layout does not know stay.
func (m *metadata) addColumns(l *layout) (added bool, err error) {
	next := m.CurrentSchemaID + 1
	var current map[string]json.RawMessage
	for _, text := range m.Schemas {
		var s map[string]json.RawMessage
		var id int
		if json.Unmarshal(text, &s) != nil || s["schema-id"] != nil && json.Unmarshal(s["schema-id"], &id) != nil {
			return false, fmt.Errorf("%w: not the JSON of a schema", errDamaged)
		}
		if id == m.CurrentSchemaID {
			current = s
		}
		next = max(next, id+1)
	}
	var fields []json.RawMessage
	if json.Unmarshal(current["fields"], &fields) != nil {
		return false, fmt.Errorf("%w: no current schema", errDamaged)
	}
	known := map[int]bool{}
	for _, text := range fields {
		var f struct{ ID int }
		if json.Unmarshal(text, &f) != nil {
			return false, fmt.Errorf("%w: not the JSON of a field", errDamaged)
		}
		known[f.ID] = true
	}
	have := len(fields)
	for _, f := range l.schema.Fields() {
		if known[f.ID] {
			continue
		}
		text, err := json.Marshal(f)
		if err != nil {
			return false, err
		}
		fields = append(fields, text)
	}
	if len(fields) == have {
		return false, nil
	}
	if current["fields"], err = json.Marshal(fields); err != nil {
		return false, err
	}
	current["schema-id"] = json.RawMessage(fmt.Sprint(next))
	text, err := json.Marshal(current)
	if err != nil {
		return false, err
	}
	m.Schemas = append(m.Schemas[:len(m.Schemas):len(m.Schemas)], text)
	m.CurrentSchemaID, m.LastColumnID = next, max(m.LastColumnID, l.schema.HighestFieldID())
	return true, nil
}

// evolve commits the columns that the table lacks. Every other commit would, too: a state has them from the moment it is
// read.
//
// Steps: T.expire, T.metadata, T.committed.
func (t *table) evolve(ctx context.Context) error {
	_, err := t.update(ctx, func(s *state) (*change, error) {
		if !s.widened {
			return nil, nil
		}
		t.log.Info("columns are added to the table", "schema", s.meta.CurrentSchemaID)
		return &change{}, nil
	})
	if err != nil {
		return fmt.Errorf("add columns to %s: %w", t.layout.name, err)
	}
	return nil
}

// schemaOf is the schema of the layout under the id that the table has for it.
func (t *table) schemaOf(m *metadata) *apache.Schema {
	return apache.NewSchema(m.CurrentSchemaID, t.layout.schema.Fields()...)
}
