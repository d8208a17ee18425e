package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// foreignVariables begin as ours do and are read by others: sluice-send, the SDKs and test builds. A name that ends in
// "_" stands for all that begin with it.
var foreignVariables = []string{
	"SLUICE_API_KEY", "SLUICE_URL", "SLUICE_DATASET", "SLUICE_KEY_FILE",
	"SLUICE_PLAIN_HTTP", "SLUICE_JSON", "SLUICE_TOKEN",
}

// clusterVariable is how Kubernetes and linked containers name the variables that describe a service called sluice.
var clusterVariable = regexp.MustCompile(`^SLUICE_([A-Z0-9_]+_)?` +
	`(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT|PORT_[0-9]+_(TCP|UDP|SCTP)(_[A-Z]+)?)$`)

// variables are the names of all variables that set a flag of some command.
func variables(root *cobra.Command) map[string]bool {
	known := map[string]bool{}
	eachFlag(root, func(cmd *cobra.Command, f *pflag.Flag) {
		if hasVariable(cmd, f) {
			known[environmentName(f.Name)] = true
		}
	})
	return known
}

// unknownVariables refuses a variable that looks like ours and sets nothing: a mistyped setting must not go unnoticed.
func unknownVariables(root *cobra.Command) error {
	known := variables(root)
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, "SLUICE_") || known[name] || clusterVariable.MatchString(name) ||
			slices.ContainsFunc(foreignVariables, func(f string) bool {
				return name == f || strings.HasSuffix(f, "_") && strings.HasPrefix(name, f)
			}) {
			continue
		}
		if near := nearest(name, known); near != "" {
			return fmt.Errorf("the environment variable %s is not known; did you mean %s?", name, near)
		}
		return fmt.Errorf("the environment variable %s is not known; sluice help lists those that are", name)
	}
	return nil
}

// nearest is the known name that differs least, "" when none is near.
func nearest(name string, known map[string]bool) string {
	best, least := "", 4
	for _, k := range slices.Sorted(maps.Keys(known)) {
		if d := distance(name, k); d < least {
			best, least = k, d
		}
	}
	return best
}

// distance is how many characters have to be added, removed or changed.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := last
			if a[i] != b[j] {
				cost++
			}
			last = row[j+1]
			row[j+1] = min(cost, row[j]+1, last+1)
		}
	}
	return row[len(b)]
}

// hideSecrets shows addresses, separated by commas, without the passwords and tokens in them.
func hideSecrets(addresses string) string {
	all := strings.Split(addresses, ",")
	for i, a := range all {
		at := strings.LastIndexByte(a, '@')
		if at < 0 {
			continue
		}
		begin := 0
		if scheme := strings.Index(a, "://"); scheme >= 0 && scheme < at {
			begin = scheme + len("://")
		}
		if colon := strings.IndexByte(a[begin:at], ':'); colon >= 0 { // a user, who is no secret
			begin += colon + 1
		}
		all[i] = a[:begin] + "***" + a[at:]
	}
	return strings.Join(all, ",")
}

func newConfig() *cobra.Command {
	cmd := &cobra.Command{
		Use: "config", Short: "Show the settings that sluice serve would use, and where each comes from", Args: cobra.NoArgs,
		Long: `Shows every setting of sluice serve: the value that would hold, and whether it comes from a flag, from
the environment, from what the engine has recorded, or is the default. A default that depends on the machine is
shown as it comes out here. A password or token in an address is not shown.

It makes nothing: without a service in --data it shows what a new one would have. If the engine does not answer,
it says so, and shows "unknown" for what only the engine knows.`,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		list, err := settings(cmd, func() *effective { return askEngine(cmd) })
		if err != nil {
			return err
		}
		if *asJSON {
			return failed(printJSON(cmd.OutOrStdout(), list))
		}
		w := table(cmd, "SETTING\tVALUE\tFROM")
		for _, s := range list {
			fmt.Fprintf(w, "--%s\t%s\t%s\n", s.Flag, s.Value, s.from())
		}
		return failed(w.Flush())
	}
	return cmd
}

// setting is one flag of sluice serve as it would hold.
type setting struct {
	Flag     string `json:"flag"`
	Variable string `json:"variable"`
	Value    string `json:"value"`
	Source   string `json:"source"`
}

// from says where the value comes from: the name of the variable, if it is one.
func (s *setting) from() string {
	if s.Source == fromEnv {
		return s.Variable
	}
	return s.Source
}

// Where a setting comes from.
const (
	fromFlag    = "flag"
	fromEnv     = "environment"
	fromEngine  = "engine"
	fromDefault = "default"
)

// settings are all of sluice serve, by name. ask says what holds where a setting leaves that open.
func settings(cmd *cobra.Command, ask func() *effective) ([]setting, error) {
	serve, _, err := cmd.Root().Find([]string{"serve"})
	if err != nil {
		return nil, failed(err)
	}
	var list []setting
	var bad error
	add := func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" || f.Name == "version" {
			return
		}
		s := setting{f.Name, environmentName(f.Name), f.Value.String(), fromDefault}
		if given := cmd.Flags().Lookup(f.Name); given != nil && given.Changed && !fromVariable[f.Name] {
			s.Value, s.Source = given.Value.String(), fromFlag
		} else if value, ok := os.LookupEnv(s.Variable); ok {
			if err := f.Value.Set(value); err != nil {
				bad = errors.Join(bad, fmt.Errorf("%s: not a value for --%s: %w", s.Variable, f.Name, err))
			}
			s.Value, s.Source = f.Value.String(), fromEnv
		}
		list = append(list, s)
	}
	serve.LocalFlags().VisitAll(add)
	cmd.Root().PersistentFlags().VisitAll(add)
	if bad != nil {
		return nil, bad
	}
	slices.SortFunc(list, func(a, b setting) int { return strings.Compare(a.Flag, b.Flag) })
	list = slices.CompactFunc(list, func(a, b setting) bool { return a.Flag == b.Flag })
	e := ask()
	for i := range list {
		e.complete(&list[i])
		list[i].Value = hideSecrets(list[i].Value)
	}
	return list, nil
}
