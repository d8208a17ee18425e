package lake

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the columns into docs/tables.md")

// describedTable is a table as an engine describes it.
type describedTable struct {
	Properties map[string]string
	Schemas    []struct {
		Fields []struct {
			Name     string
			Type     any
			Required bool
			Doc      string
		}
	}
}

func describe(t *testing.T, dir, table string) (d describedTable) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, table, "metadata", "v"+hintOf(t, dir, table)+".metadata.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// docs/tables.md and the tables themselves say the same of each column, and have something to say of each. The page is made:
// make generate.
func TestTablesPage(t *testing.T) {
	dir := t.TempDir()
	openLake(t, Options{Store: at(t, dir)})
	const file = "../../docs/tables.md"
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	for _, table := range TableNames() {
		d := describe(t, dir, table)
		if got := d.Properties["comment"]; got == "" || strings.ContainsAny(got, "`[") {
			t.Errorf("%s: got the comment %q", table, got)
		}
		lines := "| column | type | null | meaning |\n|---|---|---|---|\n"
		for _, f := range d.Schemas[0].Fields {
			text := descriptions[table].columns[f.Name]
			if f.Doc == "" || f.Doc != withoutMarkdown(text) || strings.ContainsAny(f.Doc, "`[") {
				t.Errorf("%s.%s: got the description %q of %q", table, f.Name, f.Doc, text)
			}
			typ := fmt.Sprint(f.Type)
			if list, ok := f.Type.(map[string]any); ok {
				typ = fmt.Sprintf("%v&lt;%v&gt;", list["type"], list["element"])
			}
			lines += fmt.Sprintf("| `%s` | %s | %s | %s |\n", f.Name, typ, map[bool]string{true: "no", false: "yes"}[f.Required], text)
		}
		head, rest, ok := strings.Cut(page, "<!-- columns: "+table+" -->\n")
		_, tail, found := strings.Cut(rest, "\n\n")
		if !ok || !found {
			t.Fatalf("the page has no columns of %s", table)
		}
		page = head + "<!-- columns: " + table + " -->\n" + lines + "\n" + tail
	}
	if bytes.Equal(b, []byte(page)) {
		return
	}
	if !*update {
		t.Fatal("docs/tables.md is not what is made from the tables: run make generate")
	}
	if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A table that was made without descriptions has them from its next commit on.
func TestDescriptionsOfOlderTables(t *testing.T) {
	dir := t.TempDir()
	openLake(t, Options{Store: at(t, dir)})
	file := filepath.Join(dir, eventsTable, "metadata", "v1.metadata.json")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	delete(m["properties"].(map[string]any), "comment")
	for _, f := range m["schemas"].([]any)[0].(map[string]any)["fields"].([]any) {
		delete(f.(map[string]any), "doc")
	}
	if b, err = json.Marshal(m); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	commit(t, openLake(t, Options{Store: at(t, dir)}), newSampler(1, 1, 1).rows(1, noon))
	d := describe(t, dir, eventsTable)
	if d.Properties["comment"] == "" || len(d.Schemas) != 1 {
		t.Errorf("got %d schemas and the comment %q", len(d.Schemas), d.Properties["comment"])
	}
	for _, f := range d.Schemas[0].Fields {
		if f.Doc != withoutMarkdown(descriptions[eventsTable].columns[f.Name]) {
			t.Errorf("%s: got the description %q", f.Name, f.Doc)
		}
	}
}
