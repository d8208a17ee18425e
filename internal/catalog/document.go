package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"

	"sluice/internal/lake"
)

// documents keeps the answers for the newest version of each table: many clients ask, and a version lives for seconds.
type documents struct {
	mu      sync.Mutex
	entries map[string]*entry
}

// entry is the answers for one version of a table.
type entry struct {
	document  *lake.Document
	all, refs answer
}

type answer struct {
	body []byte
	tag  string // strong entity tag, in its quotes
}

// get returns the answers for the newest version of a table.
func (d *documents) get(ctx context.Context, t Tables, name string) (*entry, error) {
	d.mu.Lock()
	e := d.entries[name]
	d.mu.Unlock()
	var known *lake.Document
	if e != nil {
		known = e.document
	}
	document, err := t.Document(ctx, name, known)
	if err != nil {
		return nil, err
	}
	if document == known {
		return e, nil
	}
	if e, err = newEntry(document); err != nil {
		return nil, fmt.Errorf("table %s: %w", name, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.entries == nil {
		d.entries = map[string]*entry{}
	}
	d.entries[name] = e
	return e, nil
}

func newEntry(d *lake.Document) (*entry, error) {
	refs, err := referenced(d.Bytes)
	if err != nil {
		return nil, err
	}
	e := &entry{document: d}
	if e.all, err = newAnswer(d.Location, d.Bytes); err == nil {
		e.refs, err = newAnswer(d.Location, refs)
	}
	return e, err
}

func newAnswer(location string, metadata []byte) (answer, error) {
	body, err := json.Marshal(struct {
		Location string            `json:"metadata-location"`
		Metadata json.RawMessage   `json:"metadata"`
		Config   map[string]string `json:"config"`
	}{location, metadata, map[string]string{}})
	sum := sha256.Sum256(body)
	return answer{body, `"` + hex.EncodeToString(sum[:16]) + `"`}, err
}

// referenced is a table's document with only the snapshots that a branch or tag names.
func referenced(document []byte) ([]byte, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(document, &members); err != nil {
		return nil, err
	}
	type id struct {
		Snapshot int64 `json:"snapshot-id"`
	}
	var refs map[string]id
	if members["refs"] != nil {
		if err := json.Unmarshal(members["refs"], &refs); err != nil {
			return nil, err
		}
	}
	wanted := map[int64]bool{}
	for _, ref := range refs {
		wanted[ref.Snapshot] = true
	}
	for _, name := range []string{"snapshots", "snapshot-log"} {
		var list []json.RawMessage
		if members[name] == nil {
			continue
		}
		if err := json.Unmarshal(members[name], &list); err != nil {
			return nil, err
		}
		kept := []json.RawMessage{}
		for _, item := range list {
			var one id
			if err := json.Unmarshal(item, &one); err != nil {
				return nil, err
			}
			if wanted[one.Snapshot] {
				kept = append(kept, item)
			}
		}
		b, err := json.Marshal(kept)
		if err != nil {
			return nil, err
		}
		members[name] = b
	}
	return json.Marshal(members)
}
