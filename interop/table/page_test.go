package table

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sluice/internal/lake"
)

// page is docs/tables.md.
func page(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "tables.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var marked = regexp.MustCompile("(?s)<!-- (query|run): ([a-z-]+) -->\n```(?:sql|sh)\n(.*?)```\n")

// blocks are the marked blocks of the page by name: queries, or shell lines.
func blocks(t *testing.T, kind string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, m := range marked.FindAllStringSubmatch(page(t), -1) {
		if m[1] == kind {
			out[m[2]] = m[3]
		}
	}
	if len(out) == 0 {
		t.Fatalf("the page has no %s", kind)
	}
	return out
}

// columnsOfPage reads a table of columns off the page: "name type null" each.
func columnsOfPage(t *testing.T, table string) (out []string) {
	t.Helper()
	_, rest, ok := strings.Cut(page(t), "<!-- columns: "+table+" -->\n")
	if !ok {
		t.Fatalf("the page has no columns of %s", table)
	}
	for i, line := range strings.Split(rest, "\n") {
		if !strings.HasPrefix(line, "|") {
			break
		}
		if i < 2 {
			continue
		}
		cells := strings.Split(line, "|")
		if len(cells) != 6 || strings.TrimSpace(cells[4]) == "" {
			t.Fatalf("got the line %q, want four cells, the last with a meaning", line)
		}
		typ := strings.NewReplacer("&lt;", "<", "&gt;", ">").Replace(strings.TrimSpace(cells[2]))
		out = append(out, strings.Trim(strings.TrimSpace(cells[1]), "`")+" "+typ+" "+strings.TrimSpace(cells[3]))
	}
	return out
}

// columnsOfTable reads the schema of the newest version, as a program does that goes by the version hint.
func columnsOfTable(t *testing.T, dir, table string) (out []string) {
	t.Helper()
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(dir, table, "metadata", name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	var meta struct {
		Current int `json:"current-schema-id"`
		Schemas []struct {
			ID     int `json:"schema-id"`
			Fields []struct {
				Name     string
				Type     any
				Required bool
			}
		}
	}
	version := strings.TrimSpace(string(read("version-hint.text")))
	if err := json.Unmarshal(read("v"+version+".metadata.json"), &meta); err != nil {
		t.Fatal(err)
	}
	for _, s := range meta.Schemas {
		if s.ID != meta.Current {
			continue
		}
		for _, f := range s.Fields {
			typ := fmt.Sprint(f.Type)
			if list, ok := f.Type.(map[string]any); ok {
				typ = fmt.Sprintf("%v<%v>", list["type"], list["element"])
			}
			null := "yes"
			if f.Required {
				null = "no"
			}
			out = append(out, f.Name+" "+typ+" "+null)
		}
	}
	return out
}

// The page describes each column as the table has it: name, type and whether it can be null, in the same order.
func TestColumnsOfThePage(t *testing.T) {
	now := noon
	dir := t.TempDir()
	open(t, dir, &now)
	for _, table := range lake.TableNames() {
		got, want := columnsOfPage(t, table), columnsOfTable(t, dir, table)
		if len(want) == 0 || !slices.Equal(got, want) {
			t.Errorf("%s: the page has\n%s\nthe table has\n%s", table, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// No block of SQL under "Queries" escapes the test that runs them.
func TestEveryQueryIsMarked(t *testing.T) {
	_, queries, _ := strings.Cut(page(t), "\n## Queries\n")
	queries, _, _ = strings.Cut(queries, "\n## ")
	if got, want := strings.Count(queries, "```sql"), strings.Count(queries, "<!-- query: "); got != want || got == 0 {
		t.Errorf("got %d blocks of SQL and %d names, want one for each", got, want)
	}
}
