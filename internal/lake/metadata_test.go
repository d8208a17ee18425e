package lake

import (
	"encoding/json"
	"maps"
	"os"
	"testing"
)

// Another program that knows Iceberg may commit, too: its version is taken, and what it added is carried on.
func TestAnotherProgramCommits(t *testing.T) {
	dir := t.TempDir()
	l := openLake(t, Options{Dir: dir})
	s := newSampler(5, 2, 9)
	rows := s.rows(20, noon)
	commit(t, l, rows)
	var document map[string]any
	b, err := os.ReadFile(dir + "/events/metadata/v2.metadata.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &document); err != nil {
		t.Fatal(err)
	}
	document["properties"].(map[string]any)["owner"] = "somebody"
	delete(document["snapshots"].([]any)[0].(map[string]any)["summary"].(map[string]any), "total-records")
	b, err = json.MarshalIndent(document, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/events/metadata/v3.metadata.json", b, 0o600); err != nil {
		t.Fatal(err)
	}
	more := s.rows(20, noon)
	commit(t, l, more)
	same(t, collect(t, l, Query{}), append(rows, more...))
	state := l.events.state.Load()
	if state.version != 4 || state.damaged() || state.meta.Properties["owner"] != "somebody" || state.marks[0] != 2 {
		t.Errorf("got version %d, properties %v, marks %v, want 4 with what was added", state.version, state.meta.Properties, state.marks)
	}
}

func TestWatermarks(t *testing.T) {
	for text, want := range map[string]map[uint8]uint64{
		"": {}, "0:17": {0: 17}, "0:17,1:4,63:1099511627775": {0: 17, 1: 4, 63: 1099511627775}, "x:1,300:2,5": {},
	} {
		got := parseWatermarks(text)
		if !maps.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
		if len(want) > 0 && formatWatermarks(got) != text {
			t.Errorf("got %q, want %q", formatWatermarks(got), text)
		}
	}
}
