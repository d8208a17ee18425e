package sluice

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// imports says which rooms a room may know, as a sentence would: the API does not know there is a lake; the
// stream does not know what an event is; the lake does not know where rows come from. An import that is not
// here is a decision to write down in docs/decisions, not a line to add.
var imports = map[string][]string{
	"gpp":                     {},
	"event":                   {"gpp", "event/internal/jsonscan", "event/internal/pii"},
	"event/internal/jsonscan": {},
	"event/internal/pii":      {},
	"event/rules":             {"event"},
	"client":                  {"event", "gpp"},
	"internal/audit":          {},
	"internal/engine":         {},
	"internal/dataset":        {"internal/engine"},
	"internal/submission":     {"event"},
	"internal/stream":         {"internal/engine"},
	"internal/lake":           {"event", "internal/engine", "internal/submission"},
	"internal/loader":         {"event", "internal/engine", "internal/submission", "internal/stream", "internal/lake"},
	"internal/api":            {"event", "gpp", "internal/dataset", "internal/submission", "internal/stream"},
	"internal/traffic":        {},
	"internal/bench":          {"internal/traffic"},
	"internal/console": {
		"event", "gpp", "internal/audit", "internal/engine", "internal/dataset", "internal/submission", "internal/stream",
		"internal/lake", "internal/loader", "internal/api",
	},
}

// Nothing but the commands is free, and even the sender's program contains no server.
func TestImports(t *testing.T) {
	fset := token.NewFileSet()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != "." || d.Name() == "interop" || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(fset, path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		room := filepath.ToSlash(filepath.Dir(path))
		for _, spec := range file.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			other, ours := strings.CutPrefix(name, "sluice/")
			if ours && !mayImport(room, other) {
				t.Errorf("%s: %s may not import %s", path, room, other)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func mayImport(room, other string) bool {
	switch {
	case room == "cmd/sluice-send" || strings.HasPrefix(room, "cmd/sluice-send/internal/"):
		return !strings.HasPrefix(other, "internal/")
	case room == "cmd/sluice":
		return true
	}
	allowed, known := imports[room]
	return known && slices.Contains(allowed, other)
}
