package sluice

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"testing"
)

// Every place that a page names as a file and a function, `path.go` `Type.Method`, is where the page says.
func TestPlacesExist(t *testing.T) {
	place := regexp.MustCompile("`([A-Za-z0-9_/-]+\\.go)` `([A-Za-z.]+)`")
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	places := place.FindAllStringSubmatch(string(text), -1)
	if least := 25; len(places) < least {
		t.Fatalf("got %d places, want at least %d: is the spelling another one?", len(places), least)
	}
	files := map[string]map[string]bool{}
	for _, found := range places {
		file, function := found[1], found[2]
		if files[file] == nil {
			files[file] = functionsOf(t, file)
		}
		if !files[file][function] {
			t.Errorf("ARCHITECTURE.md names %s in %s, which is not there", function, file)
		}
	}
}

// functionsOf returns the functions of a file, methods with their type: "Decode", "Stream.Append".
func functionsOf(t *testing.T, name string) map[string]bool {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		prefix := ""
		if f.Recv != nil {
			prefix = typeName(f.Recv.List[0].Type) + "."
		}
		out[prefix+f.Name.Name] = true
	}
	return out
}

// typeName is the name of a receiver's type, without pointer and type parameters.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
