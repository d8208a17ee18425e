package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// environmentName is the variable that sets a flag: --tls-cert is SLUICE_TLS_CERT.
func environmentName(flag string) string {
	return "SLUICE_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// fromEnvironment gives every flag that was not set on the command line the value of its variable.
func fromEnvironment(cmd *cobra.Command, _ []string) error {
	var bad error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		value, set := os.LookupEnv(environmentName(f.Name))
		if f.Changed || !set || bad != nil || f.Name == "help" || f.Name == "version" {
			return
		}
		if err := cmd.Flags().Set(f.Name, value); err != nil {
			bad = fmt.Errorf("%s: not a value for --%s: %w", environmentName(f.Name), f.Name, err)
		}
	})
	warnOfRenamed(cmd)
	return bad
}

// renamedTo is the annotation of a flag that has another name now.
const renamedTo = "renamed to"

// renamed keeps the name by which earlier versions knew a flag. Using it, or its variable, works and prints a warning.
func renamed(flags *pflag.FlagSet, value pflag.Value, before, now string) {
	flags.Var(value, before, "the same as --"+now)
	f := flags.Lookup(before)
	f.Hidden, f.Annotations = true, map[string][]string{renamedTo: {now}}
}

// warnOfRenamed says which flags were used by the name of an earlier version.
func warnOfRenamed(cmd *cobra.Command) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		for _, now := range f.Annotations[renamedTo] {
			fmt.Fprintf(cmd.ErrOrStderr(), "sluice: --%s (%s) has a new name: use --%s (%s); the next version does not know the old one\n",
				f.Name, environmentName(f.Name), now, environmentName(now))
		}
	})
}

// documentEnvironment names the variable of every flag in its help text.
func documentEnvironment(cmd *cobra.Command) {
	name := func(f *pflag.Flag) {
		if f.Name != "help" && f.Name != "version" && !strings.Contains(f.Usage, "$SLUICE_") {
			f.Usage += " ($" + environmentName(f.Name) + ")"
		}
	}
	cmd.PersistentFlags().VisitAll(name)
	cmd.Flags().VisitAll(name)
	for _, sub := range cmd.Commands() {
		documentEnvironment(sub)
	}
}

// days is a duration that may also be given in days: 400d, 72h.
type days time.Duration

func (d *days) String() string {
	v := time.Duration(*d)
	if v > 0 && v%(24*time.Hour) == 0 {
		return strconv.Itoa(int(v/(24*time.Hour))) + "d"
	}
	return v.String()
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
