package sluice

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// permissions says what each package may import: packages of ours, and third-party modules. The API does not know that
// there is a lake; the stream does not know what an event is; the lake does not know where rows come from. A new row or
// entry is a decision to write down in docs/decisions. An entry that no file uses fails the test, too.
var permissions = map[string]struct{ ours, modules []string }{
	"gpp":                     {},
	"event":                   {ours: []string{"gpp", "event/internal/jsonscan", "event/internal/pii"}, modules: []string{"github.com/bojanz/currency"}},
	"event/internal/jsonscan": {},
	"event/internal/pii":      {modules: []string{"golang.org/x/text"}},
	"event/rules":             {ours: []string{"event"}},
	"client":                  {ours: []string{"event"}, modules: []string{"github.com/klauspost/compress"}},

	"internal/access":        {ours: []string{"internal/audit", "internal/engine"}, modules: []string{"golang.org/x/crypto"}},
	"internal/arrival":       {},
	"internal/audit":         {ours: []string{"internal/durable", "internal/engine"}},
	"internal/clusterstatus": {ours: []string{"internal/cluster", "internal/engine", "internal/loader", "internal/stream"}},
	"internal/backup":        {ours: []string{"internal/durable", "internal/engine", "internal/erasure", "internal/stream", "internal/submission", "internal/suppression"}},
	"internal/cluster":       {ours: []string{"internal/arrival", "internal/engine"}},
	"internal/durable":       {modules: []string{"golang.org/x/sys"}},
	"internal/engine":        {ours: []string{"internal/durable"}, modules: []string{"github.com/nats-io/nats-server/v2", "github.com/nats-io/nats.go"}},
	"internal/enginetest":    {modules: []string{"github.com/nats-io/jwt/v2", "github.com/nats-io/nats.go", "github.com/nats-io/nkeys"}},
	"internal/histogram":     {},
	"internal/servicetest":   {},
	"internal/flagtest":      {modules: []string{"github.com/spf13/cobra", "github.com/spf13/pflag"}},
	"internal/traffictest":   {},
	"internal/dataset":       {ours: []string{"internal/engine", "internal/replica"}},
	"internal/identifier":    {ours: []string{"event"}},
	"internal/replica":       {ours: []string{"internal/engine"}},
	"internal/suppression":   {ours: []string{"event", "internal/engine", "internal/identifier", "internal/replica"}},
	"internal/erasure":       {ours: []string{"event", "internal/engine", "internal/identifier", "internal/purpose"}},
	"internal/deletion":      {ours: []string{"internal/dataset", "internal/erasure", "internal/lake"}},
	"internal/purpose":       {ours: []string{"event"}},
	"internal/submission":    {ours: []string{"event"}},
	"internal/stream":        {ours: []string{"internal/durable", "internal/engine", "internal/histogram"}},
	"internal/listen":        {},
	"internal/failpointtest": {},
	"internal/secretfile":    {},
	"internal/profile":       {},
	"internal/memory":        {},
	"internal/limit":         {},
	"internal/throttle":      {},
	"internal/objectstore":   {ours: []string{"internal/durable"}, modules: []string{"github.com/minio/minio-go/v7"}},
	"internal/parquetfile": {
		ours:    []string{"internal/throttle"},
		modules: []string{"github.com/klauspost/compress", "github.com/parquet-go/parquet-go"},
	},
	"internal/iceberg": {
		ours:    []string{"internal/metadata", "internal/objectstore", "internal/parquetfile", "internal/throttle", "internal/watermark"},
		modules: []string{"github.com/apache/iceberg-go"},
	},
	"internal/metadata":  {ours: []string{"internal/watermark"}},
	"internal/watermark": {},
	"internal/campaign":  {ours: []string{"event"}},
	"internal/measure":   {ours: []string{"event", "internal/engine"}},
	"internal/hours":     {ours: []string{"event", "internal/campaign", "internal/lake", "internal/submission"}, modules: []string{"golang.org/x/sync"}},
	"internal/lake": {
		ours: []string{
			"event", "internal/campaign", "internal/iceberg", "internal/identifier", "internal/metadata", "internal/objectstore", "internal/parquetfile", "internal/submission",
			"internal/throttle", "internal/watermark",
		},
	},
	"internal/loader": {
		ours:    []string{"event", "internal/durable", "internal/engine", "internal/erasure", "internal/hours", "internal/lake", "internal/stream", "internal/submission", "internal/throttle"},
		modules: []string{"golang.org/x/sync"},
	},
	"internal/api": {
		ours: []string{
			"event", "internal/arrival", "internal/campaign", "internal/dataset", "internal/histogram", "internal/journal", "internal/limit", "internal/listen", "internal/stream",
			"internal/submission", "internal/version",
		},
		modules: []string{"github.com/klauspost/compress"},
	},
	"internal/catalog":  {ours: []string{"internal/dataset", "internal/lake", "internal/measure"}},
	"internal/feed":     {ours: []string{"event", "internal/dataset", "internal/engine", "internal/erasure", "internal/lake", "internal/purpose", "internal/stream", "internal/submission"}},
	"internal/demo":     {},
	"internal/version":  {},
	"internal/humanize": {},
	"internal/journal":  {ours: []string{"event"}},
	"internal/trace":    {ours: []string{"internal/api"}, modules: []string{"go.opentelemetry.io/otel"}},
	"internal/alarm": {
		ours: []string{
			"event", "internal/api", "internal/cluster", "internal/dataset", "internal/durable", "internal/engine", "internal/histogram",
			"internal/hours", "internal/humanize", "internal/lake", "internal/loader", "internal/stream",
		},
	},
	"internal/console": {
		ours: []string{
			"event", "internal/access", "internal/alarm", "internal/api", "internal/audit", "internal/campaign", "internal/cluster", "internal/dataset",
			"internal/durable", "internal/engine", "internal/feed", "internal/histogram", "internal/hours", "internal/humanize",
			"internal/iceberg", "internal/journal", "internal/lake", "internal/listen", "internal/loader", "internal/objectstore",
			"internal/stream", "internal/submission",
		},
		modules: []string{"github.com/prometheus/client_golang"},
	},

	"internal/objectstoretest": {ours: []string{"internal/objectstore"}},

	// The sender's program contains no server.
	"cmd/sluice-send/internal/input":   {ours: []string{"client", "event"}, modules: []string{"github.com/klauspost/compress"}},
	"cmd/sluice-send/internal/upload":  {ours: []string{"client", "cmd/sluice-send/internal/input", "event", "internal/durable"}, modules: []string{"golang.org/x/sync"}},
	"cmd/sluice-send/internal/convert": {ours: []string{"client", "cmd/sluice-send/internal/input", "event"}},
	"cmd/sluice-send": {
		ours: []string{
			"client", "cmd/sluice-send/internal/convert", "cmd/sluice-send/internal/input", "cmd/sluice-send/internal/upload",
			"event", "event/rules", "internal/version",
		},
		modules: []string{"github.com/spf13/cobra", "github.com/spf13/pflag", "golang.org/x/term"},
	},
	"examples/feed": {},
	"tools/bench":   {ours: []string{"internal/servicetest", "internal/traffictest", "tools/bench/measure"}},
	"tools/bench/measure": {
		ours:    []string{"internal/dataset", "internal/engine", "internal/lake", "internal/objectstore", "internal/traffictest"},
		modules: []string{"github.com/go-json-experiment/json"},
	},
	"cmd/sluice/internal/tables": {ours: []string{"internal/engine", "internal/lake", "internal/objectstore", "internal/stream"}},
	"cmd/sluice/internal/service": {
		ours: []string{
			"cmd/sluice/internal/tables", "event", "internal/access", "internal/api", "internal/audit", "internal/campaign",
			"internal/catalog", "internal/cluster", "internal/console", "internal/dataset", "internal/deletion", "internal/engine",
			"internal/erasure", "internal/feed", "internal/hours", "internal/lake", "internal/listen", "internal/loader",
			"internal/measure", "internal/memory", "internal/objectstore", "internal/secretfile", "internal/stream",
			"internal/submission", "internal/suppression", "internal/throttle", "internal/trace", "internal/version",
		},
		modules: []string{"golang.org/x/sync"},
	},
	"cmd/sluice": {
		ours: []string{
			"cmd/sluice/internal/service", "cmd/sluice/internal/tables", "event", "internal/access", "internal/audit",
			"internal/backup", "internal/clusterstatus", "internal/console", "internal/dataset", "internal/deletion",
			"internal/demo", "internal/durable", "internal/engine", "internal/erasure", "internal/failpointtest", "internal/feed",
			"internal/humanize", "internal/identifier", "internal/lake", "internal/loader", "internal/measure",
			"internal/memory", "internal/objectstore", "internal/profile", "internal/purpose", "internal/stream", "internal/suppression",
			"internal/version",
		},
		modules: []string{"github.com/spf13/cobra", "github.com/spf13/pflag", "golang.org/x/term"},
	},
}

// owners are modules that one package alone imports, so that everybody else depends on that package and not on the
// technology. A package for tests, whose name ends in "test", may import what the package that it tests owns.
var owners = map[string]string{
	"github.com/nats-io/nats-server/v2": "internal/engine",
	"github.com/nats-io/nats.go":        "internal/engine",
	"github.com/apache/iceberg-go":      "internal/iceberg",
	"github.com/parquet-go/parquet-go":  "internal/parquetfile",
	"github.com/minio/minio-go/v7":      "internal/objectstore",
	"go.opentelemetry.io/otel":          "internal/trace",
}

// modulePath is what go.mod calls the module: make publish-path gives it another name.
func modulePath(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimPrefix(line, "module ")
}

func TestImports(t *testing.T) {
	module := modulePath(t)
	used := map[string]bool{} // package + " " + permission
	for file, names := range importsOfProduct(t) {
		pkg := path.Dir(file)
		allowed, known := permissions[pkg]
		if !known && len(names) > 0 {
			t.Errorf("%s: the package %s has no row in the table of imports", file, pkg)
			continue
		}
		for _, name := range names {
			entries := allowed.modules
			if other, ours := strings.CutPrefix(name, module+"/"); ours {
				name, entries = other, allowed.ours
				testBuild := file == "cmd/sluice/failpoint.go" // no other build has it
				if strings.HasSuffix(name, "test") && !strings.HasPrefix(pkg, "tools/") && !testBuild {
					t.Errorf("%s: imports %s, which is for tests", file, name)
				}
			} else if first, _, _ := strings.Cut(name, "/"); !strings.Contains(first, ".") {
				continue // the standard library
			}
			entry := permitting(entries, name)
			if entry == "" {
				t.Errorf("%s: %s may not import %s", file, pkg, name)
			}
			used[pkg+" "+entry] = true
		}
	}
	for pkg, allowed := range permissions {
		for _, entry := range slices.Concat(allowed.ours, allowed.modules) {
			if !used[pkg+" "+entry] {
				t.Errorf("%s may import %s, and does not: remove the permission", pkg, entry)
			}
		}
	}
}

func TestOwnersOfModules(t *testing.T) {
	for module, owner := range owners {
		for pkg, allowed := range permissions {
			if slices.Contains(allowed.modules, module) && strings.TrimSuffix(pkg, "test") != owner {
				t.Errorf("%s may import %s, which %s alone imports", pkg, module, owner)
			}
		}
		if !slices.Contains(permissions[owner].modules, module) {
			t.Errorf("%s owns %s, and may not import it", owner, module)
		}
	}
}

// permitting returns the entry that allows an import: the package itself, or the module it belongs to.
func permitting(entries []string, name string) string {
	for _, entry := range entries {
		if name == entry || strings.HasPrefix(name, entry+"/") && strings.Contains(entry, ".") {
			return entry
		}
	}
	return ""
}

// importsOfProduct returns what each file imports, tests and the module interop left out.
func importsOfProduct(t *testing.T) map[string][]string {
	files := map[string][]string{}
	fset := token.NewFileSet()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && name != "." || d.Name() == "interop" || d.Name() == "testdata" || d.Name() == "node_modules") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		parsed, err := parser.ParseFile(fset, name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		var names []string
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			names = append(names, imported)
		}
		files[filepath.ToSlash(name)] = names
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
