package lake

import (
	"encoding/json"
	"os"
	"testing"
)

// Another program that knows Iceberg may commit, too: its version is taken, and what it added is carried on.
func TestAnotherProgramCommits(t *testing.T) {
	dir := t.TempDir()
	l := openLake(t, Options{Store: at(t, dir)})
	s := newSampler(5, 2, 9)
	rows := s.rows(20, noon)
	commit(t, l, rows)
	var root map[string]any
	b, err := os.ReadFile(dir + "/events/metadata/v2.metadata.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &root); err != nil {
		t.Fatal(err)
	}
	root["properties"].(map[string]any)["owner"] = "somebody"
	delete(root["snapshots"].([]any)[0].(map[string]any)["summary"].(map[string]any), "total-records")
	b, err = json.MarshalIndent(root, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/events/metadata/v3.metadata.json", b, 0o600); err != nil {
		t.Fatal(err)
	}
	more := s.rows(20, noon)
	commit(t, l, more)
	same(t, collect(t, l, Query{}), append(rows, more...))
	m := document(t, dir, eventsTable)
	if hint := hintOf(t, dir, eventsTable); hint != "4" || m.Properties["owner"] != "somebody" {
		t.Errorf("got version %s, properties %v, want 4 with what was added", hint, m.Properties)
	}
	if w, err := l.Watermarks(t.Context(), 0); err != nil || w.Events != 2 || l.Stats().Tables[2].Damaged != 0 {
		t.Errorf("got watermarks %+v, %v, want 2", w, err)
	}
}
