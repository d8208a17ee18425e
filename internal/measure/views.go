package measure

import (
	"embed"
	"fmt"
	"slices"
	"strings"
	"text/template"
	"time"

	"sluice/event"
)

//go:embed sql/*.sql
var files embed.FS

// scope is what the files of SQL see.
type scope struct {
	*Dialect
	Settings
}

// Views are the views in a dialect. The settings must be valid.
func Views(d *Dialect, s Settings) ([]View, error) {
	sc := &scope{d, s}
	all, err := template.New("").Funcs(sc.functions()).ParseFS(files, "sql/*.sql")
	if err != nil {
		return nil, err
	}
	out := make([]View, len(names))
	for i, name := range names {
		var b strings.Builder
		if err := all.ExecuteTemplate(&b, name+".sql", sc); err != nil {
			return nil, err
		}
		out[i] = View{name, tidy(b.String())}
	}
	return out, nil
}

// Statements are the text that makes the views.
func Statements(d *Dialect, s Settings) (string, error) {
	views, err := Views(d, s)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "-- Measurement views over %s, for %s. docs/measure.md has every definition in words.\n", s.Events,
		d.Name)
	fmt.Fprintf(&b, "-- Conversion types: %s.\n", strings.Join(s.ConversionTypes, ", "))
	fmt.Fprintf(&b, "-- Window: %d s. Household: up to %d people. Days: %s.\n", s.Window/time.Second, s.HouseholdMax,
		s.TimeZone)
	if d.Name == "snowflake" {
		b.WriteString("-- No test of Sluice runs this dialect.\n")
	}
	for _, v := range views {
		fmt.Fprintf(&b, "\n%s %s AS\n%s;\n", d.create, v.Name, v.Query)
	}
	return b.String(), nil
}

// tidy removes the lines that only directives of the template were on.
func tidy(text string) string {
	lines := strings.Split(text, "\n")
	lines = slices.DeleteFunc(lines, func(line string) bool { return strings.TrimSpace(line) == "" })
	return strings.Join(lines, "\n")
}

func (s *scope) functions() template.FuncMap {
	one := func(format string) func(string) string {
		return func(x string) string { return fmt.Sprintf(format, x) }
	}
	return template.FuncMap{
		"day":    func(x string) string { return fmt.Sprintf(s.day, x, s.literal(s.TimeZone)) },
		"micros": one(s.micros), "hex": one(s.hex), "anyHex": one(s.anyHex), "fold": s.fold,
		"text":       func(x string) string { return "CAST(" + x + " AS " + s.text + ")" },
		"id":         func(x string) string { return "lower(CAST(" + x + " AS " + s.text + "))" },
		"type":       s.eventType,
		"converts":   s.converts,
		"columns":    s.list,
		"few":        func() int { return s.few },
		"windowMax":  func() int64 { return int64(s.Window / time.Microsecond) },
		"plausible":  func(x string) string { return "CASE WHEN abs(" + x + ") <= 1e15 THEN " + x + " ELSE 0 END" },
		"basis":      func() string { return basisName },
		"identifier": s.identifier,
		"spelled":    s.spelled,
	}
}

// customNames are the names of the custom events that are conversions.
func (s *scope) customNames() (out []string) {
	for _, t := range s.ConversionTypes {
		if name, ok := strings.CutPrefix(t, customPrefix); ok {
			out = append(out, name)
		}
	}
	return out
}

// eventType is the event type as the views have it.
func (s *scope) eventType(alias string) string {
	custom := s.customNames()
	if len(custom) == 0 {
		return alias + "event_type"
	}
	return fmt.Sprintf("CASE WHEN %[1]sevent_type = 'custom' AND %[1]scustom_event_name IN (%[2]s) THEN "+
		"concat('custom:', %[1]scustom_event_name) ELSE %[1]sevent_type END", alias, s.literals(custom))
}

// converts is the condition that a row of events is of a conversion type.
func (s *scope) converts() string {
	plain := slices.DeleteFunc(slices.Clone(s.ConversionTypes), func(t string) bool {
		return strings.HasPrefix(t, customPrefix)
	})
	var either []string
	if len(plain) > 0 {
		either = append(either, "event_type IN ("+s.literals(plain)+")")
	}
	if custom := s.customNames(); len(custom) > 0 {
		either = append(either, "event_type = 'custom' AND custom_event_name IN ("+s.literals(custom)+")")
	}
	if len(either) == 1 {
		return either[0]
	}
	return "(" + strings.Join(either, " OR ") + ")"
}

// list is the columns of events under an alias, in the order of the table. Those of replace have an expression of their
// own: a name, and then the expression.
func (s *scope) list(alias string, replace ...string) string {
	columns := event.Columns()
	out := make([]string, len(columns))
	for i := range columns {
		name := columns[i].Name
		out[i] = alias + "." + name
		for k := 0; k+1 < len(replace); k += 2 {
			if replace[k] == name {
				out[i] = replace[k+1] + " AS " + name
			}
		}
	}
	var lines []string
	for some := range slices.Chunk(out, 6) {
		lines = append(lines, strings.Join(some, ", "))
	}
	return strings.Join(lines, ",\n  ")
}

// identifier is the identifier of a basis in a form in which it is compared: bytes, or text where the operator's own
// log has hashes as text.
func (s *scope) identifier(alias string) string {
	if s.Impressions != "" {
		return byBasis(alias+".email_sha256", alias+".ifa", alias+".ip_sha256")
	}
	return byBasis(alias+".email_sha256", fmt.Sprintf(s.bytes, alias+".ifa"), alias+".ip_sha256")
}

// spelled is the same as text, hashes as hex.
func (s *scope) spelled(alias string) string {
	if s.Impressions != "" {
		return s.identifier(alias)
	}
	return byBasis(fmt.Sprintf(s.hex, alias+".email_sha256"), alias+".ifa", fmt.Sprintf(s.hex, alias+".ip_sha256"))
}

// basisName is the name of a basis. Within the statements it is a number: joins and sorts of names take longer.
const basisName = "CASE basis WHEN 1 THEN 'person' WHEN 2 THEN 'device' ELSE 'household' END"

func byBasis(person, device, household string) string {
	return fmt.Sprintf("CASE b.basis WHEN 1 THEN %s WHEN 2 THEN %s ELSE %s END", person, device, household)
}
