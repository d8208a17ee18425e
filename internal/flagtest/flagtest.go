// Package flagtest compares docs/flags.md with the commands of a program, for the tests of both programs.
package flagtest

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var update = flag.Bool("update", false, "write the program's part of docs/flags.md anew")

// Check fails t unless the part of the page that belongs to root's program is what its commands and flags say. With
// -update it writes that part. The part is between two comments, "begin NAME" and "end NAME". hasVariable says whether the
// environment sets a flag.
func Check(t *testing.T, page string, root *cobra.Command, hasVariable func(*cobra.Command, *pflag.Flag) bool) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- begin "+root.Name()+" -->\n", "<!-- end "+root.Name()+" -->\n"
	head, rest, ok := bytes.Cut(text, []byte(begin))
	old, tail, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		t.Fatalf("%s lacks %q or %q", page, begin, end)
	}
	want := reference(root, hasVariable)
	if string(old) == want {
		return
	}
	if !*update {
		t.Fatalf("%s differs from the commands and flags of %s: run make generate", page, root.Name())
	}
	text = bytes.Join([][]byte{head, []byte(begin + want + end), tail}, nil)
	if err := os.WriteFile(page, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// reference is the reference of a program, as Markdown.
func reference(root *cobra.Command, hasVariable func(*cobra.Command, *pflag.Flag) bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nFlags of every command:\n")
	table(&b, root, root.PersistentFlags(), hasVariable)
	each(root, func(cmd *cobra.Command) {
		fmt.Fprintf(&b, "\n### %s\n\n", cmd.CommandPath())
		fmt.Fprintf(&b, "%s.\n", strings.TrimSuffix(cell(cmd.Short), "."))
		if !cmd.HasSubCommands() {
			fmt.Fprintf(&b, "\n```\n%s\n```\n", cmd.UseLine())
		}
		own := pflag.NewFlagSet("", pflag.ContinueOnError)
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if root.PersistentFlags().Lookup(f.Name) != f {
				own.AddFlag(f)
			}
		})
		table(&b, cmd, own, hasVariable)
	})
	b.WriteByte('\n')
	return b.String()
}

// each calls f with every command below root that a user sees, in the order of the help text.
func each(root *cobra.Command, f func(*cobra.Command)) {
	for _, cmd := range root.Commands() {
		if cmd.Hidden {
			continue
		}
		f(cmd)
		each(cmd, f)
	}
}

// table writes a row for each flag that a user sees. It writes nothing if there is none.
func table(b *strings.Builder, cmd *cobra.Command, flags *pflag.FlagSet,
	hasVariable func(*cobra.Command, *pflag.Flag) bool,
) {
	title := "\n| flag | variable | default | what it does |\n|---|---|---|---|\n"
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" || f.Name == "version" || f.Hidden {
			return
		}
		b.WriteString(title)
		title = ""
		kind, what := pflag.UnquoteUsage(f)
		variable := "SLUICE_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		what = strings.TrimSuffix(what, " ($"+variable+")")
		if variable = "`" + variable + "`"; !hasVariable(cmd, f) {
			variable = "–"
		}
		name := "`--" + strings.TrimSpace(f.Name+" "+kind) + "`"
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		value := f.DefValue
		if value == "" || value == "[]" {
			value = "–"
		} else {
			value = "`" + value + "`"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", name, variable, value, cell(what))
	})
}

// cell is text in a cell of a table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ").Replace(text)
}
