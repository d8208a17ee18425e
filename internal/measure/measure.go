// Package measure makes the SQL views that count conversions once, take refunds off and attribute conversions to
// impressions. One source (the files sql/*.sql) gives the statements of every dialect; docs/measure.md has each
// definition in words.
package measure

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/event"
)

// Settings are what an operator decides about the views. The zero value is not valid: begin with Defaults.
type Settings struct {
	// ConversionTypes are event types, or custom:NAME for the custom events of a name.
	ConversionTypes []string `json:"conversion_types"`
	// Window is how long after an impression a conversion may be attributed to it: less than this.
	Window time.Duration `json:"window"`
	// HouseholdMax is with how many different people or devices an address may come and still count as a household.
	HouseholdMax int `json:"household_max"`
	// TimeZone is the zone of days.
	TimeZone string `json:"time_zone"`
	// Impressions is the relation that has the operator's own impressions; "" takes those among the events.
	Impressions string `json:"impressions,omitempty"`
	// Events is the relation that has the events.
	Events string `json:"events"`
}

// Defaults are the settings of an operator who decides nothing.
func Defaults() Settings {
	return Settings{
		ConversionTypes: []string{
			"purchase", "subscribe", "start_trial", "sign_up", "generate_lead", "close_convert_lead", "install", "donate",
			"schedule",
		},
		Window: 30 * 24 * time.Hour, HouseholdMax: 20, TimeZone: "UTC", Events: "events",
	}
}

const customPrefix = event.Custom + ":"

// relation is a name of a table, perhaps with its schema and catalog: words, or anything in quotes of the dialect.
var relation = regexp.MustCompile("^([A-Za-z_][A-Za-z0-9_$]*|\"[^\"\\x00-\\x1f]+\"|`[^`\\x00-\\x1f]+`)" +
	"(\\.([A-Za-z_][A-Za-z0-9_$]*|\"[^\"\\x00-\\x1f]+\"|`[^`\\x00-\\x1f]+`))*$")

// zone is the shape of a name of the IANA database; it needs no quoting anywhere.
var zone = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$`)

// foreignZone reports whether a name that a machine reads is none of the IANA database: the machine's own zone, which
// is another one elsewhere, and the copies of the database that Linux has beside it, which engines of SQL do not know.
func foreignZone(name string) bool {
	return name == "Local" || name == "localtime" || name == "posixrules" || strings.HasPrefix(name, "posix/") ||
		strings.HasPrefix(name, "right/")
}

// Validate says what is wrong with settings.
func (s *Settings) Validate() error {
	if len(s.ConversionTypes) == 0 {
		return errors.New("there is no conversion type")
	}
	for i, t := range s.ConversionTypes {
		if err := validType(t); err != nil {
			return err
		}
		if slices.Contains(s.ConversionTypes[:i], t) {
			return fmt.Errorf("the conversion type %s is named twice", t)
		}
	}
	if s.Window < time.Second || s.Window%time.Second != 0 || s.Window > maxWindow {
		return errors.New("the window is whole seconds, at least one and at most 365 days, such as 30d or 12h")
	}
	if s.HouseholdMax < 1 {
		return errors.New("the most people of a household are at least 1")
	}
	if _, err := time.LoadLocation(s.TimeZone); err != nil || !zone.MatchString(s.TimeZone) || foreignZone(s.TimeZone) {
		return fmt.Errorf("the time zone %q is not known; name one as in Europe/Berlin, or UTC", s.TimeZone)
	}
	for _, name := range []string{s.Events, s.Impressions} {
		if !relation.MatchString(name) && (name != "" || name == s.Events) {
			return fmt.Errorf("%q is not the name of a relation, such as events, sluice.events or \"my log\"", name)
		}
	}
	return nil
}

// maxWindow is arbitrary: longer than anybody attributes.
const maxWindow = 365 * 24 * time.Hour

func validType(t string) error {
	name, custom := strings.CutPrefix(t, customPrefix)
	_, known := event.LookupType(t)
	switch {
	case custom && (strings.TrimSpace(name) == "" || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' })):
		return errors.New("custom: needs the name of custom events behind it, such as custom:quiz_finished")
	case custom:
		return nil
	case t == event.Custom:
		return errors.New("name the custom events that are conversions, as in custom:quiz_finished")
	case t == "refund":
		return errors.New("a refund takes a conversion back, it is none")
	case !known:
		return fmt.Errorf("%q is not an event type", t)
	}
	return nil
}

// ParseWindow reads a window: a number of days such as 30d, or a duration such as 12h or 90m.
func ParseWindow(text string) (time.Duration, error) {
	days, ok := strings.CutSuffix(text, "d")
	if !ok {
		return time.ParseDuration(text)
	}
	n, err := strconv.Atoi(days)
	if err != nil || n < 1 || n > int(maxWindow/(24*time.Hour)) {
		return 0, fmt.Errorf("%q is not a number of days from 1 to 365", text)
	}
	return time.Duration(n) * 24 * time.Hour, nil
}

// View is one view: its name, and what it selects.
type View struct {
	Name  string
	Query string
}

// names are the views in an order in which each can be made: after those that it reads.
var names = []string{
	"conversions", "refunds", "campaign_days", "touches", "attributions", "attribution_days", "quality_days",
}

// Names are the views.
func Names() []string { return slices.Clone(names) }
