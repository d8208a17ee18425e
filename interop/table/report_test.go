package table

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The program in the report about parquet-go still shows what the report says. When it does not, the library has
// changed: bring docs/internals/parquet-go-report.md and docs/decisions/0040-parquet-writer.md up to date.
func TestReportOfParquetGo(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "internals", "parquet-go-report.md"))
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string) string {
		_, rest, _ := strings.Cut(string(b), "```"+kind+"\n")
		text, _, ok := strings.Cut(rest, "```\n")
		if !ok {
			t.Fatalf("the report has no block of %s", kind)
		}
		return text
	}
	program := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(program, []byte(block("go")), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "go", "run", program).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got, want := string(out), block("text"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
