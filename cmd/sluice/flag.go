package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice/event"
	"sluice/internal/engine"
)

// environmentName is the variable that sets a flag: --tls-cert is SLUICE_TLS_CERT.
func environmentName(flag string) string {
	return "SLUICE_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// hasVariable says whether the environment sets a flag of a command: the flags of every command, and those of serve,
// which health takes as well. What a command works on is said on its command line alone.
func hasVariable(cmd *cobra.Command, f *pflag.Flag) bool {
	root := cmd.Root()
	if root.PersistentFlags().Lookup(f.Name) == f || cmd.CommandPath() == root.Name()+" serve" {
		return true
	}
	serve, _, err := root.Find([]string{"serve"})
	return err == nil && cmd.CommandPath() == root.Name()+" health" && serve.Flags().Lookup(f.Name) != nil
}

// fromEnvironment gives flags that were not set on the command line the value of their variable.
func fromEnvironment(cmd *cobra.Command, _ []string) error {
	if err := unknownVariables(cmd.Root()); err != nil {
		return err
	}
	var bad error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		value, set := os.LookupEnv(environmentName(f.Name))
		if f.Changed || !set || !hasVariable(cmd, f) || bad != nil || f.Name == "help" || f.Name == "version" {
			return
		}
		fromVariable[f.Name] = true
		if err := cmd.Flags().Set(f.Name, value); err != nil {
			bad = fmt.Errorf("%s: not a value for --%s: %w", environmentName(f.Name), f.Name, err)
		}
	})
	return bad
}

// notEmpty is an error for a flag that narrows a command, to a dataset, people or a time, or names a file, and was
// given nothing, such as a shell variable that is not set: the command would span all of them, or do without it.
func notEmpty(cmd *cobra.Command) error {
	for _, name := range append([]string{
		"dataset", "file", "type", "campaign", "from", "to", "event-from", "event-to", "cursor-file", "erasures",
		"impressions",
	}, identifierNames...) {
		f := cmd.Flags().Lookup(name)
		if f == nil || !f.Changed {
			continue
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		if slices.ContainsFunc(values, func(v string) bool { return strings.TrimSpace(v) == "" }) {
			return fmt.Errorf("--%s is empty: give it a value, or leave the flag out", name)
		}
	}
	return nil
}

// checkTypes is an error for what is no event type: a command would print nothing, and say nothing about it.
func checkTypes(names ...string) error {
	for _, name := range names {
		if _, known := event.LookupType(name); !known {
			return fmt.Errorf("--type is one of %s", strings.Join(event.TypeNames(), ", "))
		}
	}
	return nil
}

// fromVariable are the flags of this command that the environment has set.
var fromVariable = map[string]bool{}

// documentEnvironment names the variable of a flag in its help text.
func documentEnvironment(root *cobra.Command) {
	eachFlag(root, func(cmd *cobra.Command, f *pflag.Flag) {
		if hasVariable(cmd, f) && f.Name != "help" && f.Name != "version" && !strings.Contains(f.Usage, "$SLUICE_") {
			f.Usage += " ($" + environmentName(f.Name) + ")"
		}
	})
}

// oneLine is a list in a flag. It is read as the first line of a file is: what is behind a line break would be lost.
type oneLine struct{ pflag.Value }

// Set takes a list without line breaks.
func (l oneLine) Set(s string) error {
	if strings.ContainsAny(s, "\r\n") {
		return errors.New("it has a line break: put commas between the values")
	}
	return l.Value.Set(s)
}

// listsInOneLine makes every list a oneLine.
func listsInOneLine(root *cobra.Command) {
	eachFlag(root, func(_ *cobra.Command, f *pflag.Flag) {
		if f.Value.Type() == "stringSlice" {
			f.Value = oneLine{f.Value}
		}
	})
}

// eachFlag visits the flags of a command and of all commands below it.
func eachFlag(cmd *cobra.Command, visit func(*cobra.Command, *pflag.Flag)) {
	own := func(f *pflag.Flag) { visit(cmd, f) }
	cmd.PersistentFlags().VisitAll(own)
	cmd.Flags().VisitAll(own)
	for _, sub := range cmd.Commands() {
		eachFlag(sub, visit)
	}
}

// days is a duration that may also be given in days: 400d, 72h.
type days time.Duration

func (d *days) String() string {
	if *d == 0 {
		return "0s"
	}
	return engine.AgeText(time.Duration(*d))
}

func (d *days) Set(s string) error {
	if n, ok := strings.CutSuffix(s, "d"); ok {
		v, err := strconv.Atoi(n)
		if err != nil || v < 0 || v > 100_000 {
			return fmt.Errorf("want a number of days such as 400d")
		}
		*d = days(time.Duration(v) * 24 * time.Hour)
		return nil
	}
	v, err := time.ParseDuration(s)
	if err != nil || v < 0 {
		return fmt.Errorf("want a duration such as 72h or 400d")
	}
	*d = days(v)
	return nil
}

func (d *days) Type() string { return "duration" }

// size is a number of bytes that may carry a unit: 256MiB, 10GB, 1048576.
type size int64

var units = []struct {
	suffix string
	bytes  int64
}{
	{"KiB", 1 << 10},
	{"MiB", 1 << 20},
	{"GiB", 1 << 30},
	{"TiB", 1 << 40},
	{"KB", 1e3},
	{"MB", 1e6},
	{"GB", 1e9},
	{"TB", 1e12},
	{"B", 1},
}

func (v *size) String() string {
	for i := 3; i >= 0; i-- {
		if u := units[i]; *v != 0 && int64(*v)%u.bytes == 0 {
			return strconv.FormatInt(int64(*v)/u.bytes, 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(*v), 10)
}

func (v *size) Set(s string) error {
	factor := int64(1)
	for _, u := range units {
		if n, ok := strings.CutSuffix(s, u.suffix); ok {
			s, factor = strings.TrimSpace(n), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > (1<<62)/factor {
		return fmt.Errorf("want a number of bytes such as 256MiB")
	}
	*v = size(n * factor)
	return nil
}

func (v *size) Type() string { return "bytes" }
