package engine

import (
	"context"
	"encoding/json"
	"fmt"
)

// tablesKey is where the place of the tables is in the bucket of settings of an embedded engine.
const tablesKey = "tables"

// tablesRecord says where the tables are that are loaded from an embedded engine.
type tablesRecord struct {
	Place string `json:"place"`
}

// Tables returns where the tables are that are loaded from the engine of a data directory, as KeepTables noted: "" is in
// that directory. It returns ErrNotFound where nobody has noted it. A cluster has its Record instead.
func (e *Engine) Tables(ctx context.Context) (string, error) {
	b, err := e.Bucket(ctx, Settings)
	if err != nil {
		return "", err
	}
	found, err := b.Get(ctx, tablesKey)
	if err != nil {
		return "", err
	}
	var r tablesRecord
	if err := json.Unmarshal(found.Value, &r); err != nil {
		return "", fmt.Errorf("read the place of the tables: %w", err)
	}
	return r.Place, nil
}

// KeepTables notes where the tables are.
func (e *Engine) KeepTables(ctx context.Context, place string) error {
	b, err := e.Bucket(ctx, Settings)
	if err != nil {
		return err
	}
	data, err := json.Marshal(tablesRecord{place})
	if err == nil {
		_, err = b.Put(ctx, tablesKey, data)
	}
	if err != nil {
		return fmt.Errorf("note the place of the tables: %w", err)
	}
	return nil
}
