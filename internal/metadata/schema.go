package metadata

import (
	"encoding/json"
	"fmt"
)

// commentProperty is where engines look for what a table is.
const commentProperty = "comment"

// Describe gives the table and the columns of all its schemas the descriptions that a layout has for them. They are for
// people, so a table that was made with others gets these with its next commit, without a schema of a new id.
func (m *Table) Describe(comment string, docs map[int]string) error {
	if comment != "" {
		m.Properties[commentProperty] = comment
	}
	for i, text := range m.Schemas {
		var schema map[string]json.RawMessage
		var fields []map[string]json.RawMessage
		if json.Unmarshal(text, &schema) != nil || json.Unmarshal(schema["fields"], &fields) != nil {
			return fmt.Errorf("%w: not the JSON of a schema", ErrDamaged)
		}
		for _, f := range fields {
			var id int
			if json.Unmarshal(f["id"], &id) != nil {
				return fmt.Errorf("%w: a column without an id", ErrDamaged)
			}
			if docs[id] != "" {
				f["doc"], _ = json.Marshal(docs[id])
			}
		}
		schema["fields"], _ = json.Marshal(fields)
		m.Schemas[i], _ = json.Marshal(schema)
	}
	return nil
}

// Column is a column of a schema: its field id, and what the JSON of its field is made from.
type Column struct {
	ID    int
	Field any
}

// AddColumns makes a schema with all these columns the current one, and says whether the current one lacked any.
// Columns that are not among them stay. highest is the highest id of a field, those of elements of lists included.
func (m *Table) AddColumns(columns []Column, highest int) (added bool, err error) {
	next := m.CurrentSchemaID + 1
	var current map[string]json.RawMessage
	for _, text := range m.Schemas {
		var s map[string]json.RawMessage
		var id int
		if json.Unmarshal(text, &s) != nil || s["schema-id"] != nil && json.Unmarshal(s["schema-id"], &id) != nil {
			return false, fmt.Errorf("%w: not the JSON of a schema", ErrDamaged)
		}
		if id == m.CurrentSchemaID {
			current = s
		}
		next = max(next, id+1)
	}
	var fields []json.RawMessage
	if json.Unmarshal(current["fields"], &fields) != nil {
		return false, fmt.Errorf("%w: no current schema", ErrDamaged)
	}
	known := map[int]bool{}
	for _, text := range fields {
		var f struct{ ID int }
		if json.Unmarshal(text, &f) != nil {
			return false, fmt.Errorf("%w: not the JSON of a field", ErrDamaged)
		}
		known[f.ID] = true
	}
	have := len(fields)
	for _, c := range columns {
		if known[c.ID] {
			continue
		}
		text, err := json.Marshal(c.Field)
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
	m.CurrentSchemaID, m.LastColumnID = next, max(m.LastColumnID, highest)
	return true, nil
}

// sortOrder is the order of rows by columns, of which these are the field ids.
func sortOrder(id int, columns []int) json.RawMessage {
	type field struct {
		Transform string `json:"transform"`
		SourceID  int    `json:"source-id"`
		Direction string `json:"direction"`
		NullOrder string `json:"null-order"`
	}
	order := struct {
		ID     int     `json:"order-id"`
		Fields []field `json:"fields"`
	}{ID: id}
	for _, column := range columns {
		order.Fields = append(order.Fields, field{"identity", column, "asc", "nulls-last"})
	}
	b, _ := json.Marshal(order)
	return b
}
