package bucket

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/identifier"
	"sluice/internal/lake"
)

// A program that goes by the version hint finds everything that the version names, also right after an erasure: in a bucket the
// hint is written once a minute, and before anything is deleted.
func TestHintAfterErasure(t *testing.T) {
	g := startGateway(t)
	l := openLake(t, open(t, g.url))
	some := rows(6)
	load(t, l, 0, some[:3])
	load(t, l, 0, some[3:])
	done, err := l.Erase(t.Context(), lake.Choice{Kinds: []identifier.Kind{identifier.Email}, Match: identifier.ID{Kind: identifier.Email, Value: some[0].EmailSHA256}.In}, nil)
	if err != nil || done.Rows != 1 {
		t.Fatalf("erase: got %+v, %v, want one row", done, err)
	}
	table := filepath.Join(g.dir, "lake", "events", "metadata")
	hint, err := os.ReadFile(filepath.Join(table, "version-hint.text"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(table, "v"+string(hint)+".metadata.json"))
	if err != nil {
		t.Fatal(err)
	}
	var m struct {
		Snapshots []struct {
			List string `json:"manifest-list"`
		}
	}
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	if len(m.Snapshots) == 0 {
		t.Errorf("version %s: got no snapshot", hint)
	}
	for _, s := range m.Snapshots {
		if _, err := os.Stat(filepath.Join(filepath.Dir(g.dir), strings.TrimPrefix(s.List, "s3://"))); err != nil {
			t.Errorf("version %s, which the hint names: %v", hint, err)
		}
	}
}
