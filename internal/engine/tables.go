package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// tablesKey is where the place of the tables is in the bucket of settings of an embedded engine.
const tablesKey = "tables"

// tablesRecord says where the tables are that are loaded from an embedded engine.
type tablesRecord struct {
	Place string `json:"place"`
}

// setting reads a value of the bucket of settings, or returns ErrNotFound.
func (e *Engine) setting(ctx context.Context, key string, to any) error {
	b, err := e.Bucket(ctx, Settings)
	if err != nil {
		return err
	}
	found, err := b.Get(ctx, key)
	if err == nil {
		err = json.Unmarshal(found.Value, to)
	}
	return err
}

// keepSetting writes a value of the bucket of settings.
func (e *Engine) keepSetting(ctx context.Context, key string, value any) error {
	b, err := e.Bucket(ctx, Settings)
	if err != nil {
		return err
	}
	data, err := json.Marshal(value)
	if err == nil {
		_, err = b.Put(ctx, key, data)
	}
	return err
}

// Tables returns where the tables are that are loaded from the engine of a data directory, as KeepTables noted: "" is
// in that directory. It returns ErrNotFound where nobody has noted it. A cluster has its Record instead.
func (e *Engine) Tables(ctx context.Context) (string, error) {
	var r tablesRecord
	if err := e.setting(ctx, tablesKey, &r); err != nil {
		return "", fmt.Errorf("read the place of the tables: %w", err)
	}
	return r.Place, nil
}

// KeepTables notes where the tables are.
func (e *Engine) KeepTables(ctx context.Context, place string) error {
	if err := e.keepSetting(ctx, tablesKey, tablesRecord{place}); err != nil {
		return fmt.Errorf("note the place of the tables: %w", err)
	}
	return nil
}

// retentionKey is the setting that says how long the tables of an embedded engine retain rows.
const retentionKey = "table_retention"

// TableRetention is how long the tables retain rows, as the record of a cluster says, or as KeepTableRetention noted;
// -1 is for ever. Where nobody has noted it, it is the default.
func (e *Engine) TableRetention(ctx context.Context) (time.Duration, error) {
	if e.mode == External {
		r, err := e.Record(ctx)
		return r.TableRetention, err
	}
	var out time.Duration
	switch err := e.setting(ctx, retentionKey, &out); {
	case errors.Is(err, ErrNotFound):
		return DefaultTableRetention, nil
	case err != nil:
		return 0, fmt.Errorf("read how long the tables retain rows: %w", err)
	}
	return out, nil
}

// KeepTableRetention notes what the server of a data directory was told, for commands beside it.
func (e *Engine) KeepTableRetention(ctx context.Context, d time.Duration) error {
	if is, err := e.TableRetention(ctx); err == nil && is == d {
		return nil
	}
	return e.keepSetting(ctx, retentionKey, d)
}
