package main

import (
	"fmt"
	"strconv"
	"strings"
	_ "time/tzdata" // --time-zone is checked also where the system has no list of zones

	"github.com/spf13/cobra"

	"sluice/internal/audit"
	"sluice/internal/engine"
	"sluice/internal/measure"
)

func newLakeViews() *cobra.Command {
	settings := measure.Defaults()
	var dialect, window string
	var save bool
	cmd := &cobra.Command{
		Use: "views", Short: "Print the SQL views that count, take back and attribute conversions", Args: cobra.NoArgs,
		Long: `Prints the statements that make seven views over the table events: conversions, refunds, campaign_days,
touches, attributions, attribution_days and quality_days. They count each conversion once, however often it was
reported, take refunds off and attribute conversions to impressions. docs/measure.md has every definition.
Without --save the command reads nothing, and needs no service. With --save it records the settings in the engine: the
catalogs of all nodes serve the views with them.`,
		Example: `  sluice lake views --dialect duckdb > measure.sql
  sluice lake views --save --window 7d --time-zone Europe/Berlin
  sluice lake views --dialect trino --window 7d --time-zone Europe/Berlin ` +
			"--conversion-types purchase,custom:quiz_finished",
	}
	f := cmd.Flags()
	f.StringVar(&dialect, "dialect", "", "program that runs the statements: "+strings.Join(measure.DialectNames(), ", "))
	f.StringSliceVar(&settings.ConversionTypes, "conversion-types", settings.ConversionTypes,
		"event types that are conversions; custom:NAME takes the custom events of that name")
	f.StringVar(&window, "window", "30d",
		"a conversion is attributed to an impression less than this before it: days such as 30d, or a duration such as 12h")
	f.IntVar(&settings.HouseholdMax, "household-max", settings.HouseholdMax,
		"an IP address that comes with more different people or devices than this is no household")
	f.StringVar(&settings.TimeZone, "time-zone", settings.TimeZone, "zone of days, such as Europe/Berlin")
	f.StringVar(&settings.Impressions, "impressions", "",
		"relation with your own impressions, instead of those among the events")
	f.StringVar(&settings.Events, "events", settings.Events, "relation with the events, such as sluice.events")
	f.BoolVar(&save, "save", false,
		"record the settings in the engine, for the views of the catalog; without --dialect nothing is printed")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		d, ok := measure.LookupDialect(dialect)
		if !ok && (dialect != "" || !save) {
			return fmt.Errorf("--dialect is one of %s", strings.Join(measure.DialectNames(), ", "))
		}
		if settings.Window, err = measure.ParseWindow(window); err != nil {
			return fmt.Errorf("--window: %w", err)
		}
		if err := settings.Validate(); err != nil {
			return err
		}
		if save {
			if err := saveViews(cmd, settings); err != nil || d == nil {
				return err
			}
		}
		text, err := measure.Statements(d, settings)
		if err != nil {
			return failed(err)
		}
		_, err = fmt.Fprint(cmd.OutOrStdout(), text)
		return failed(err)
	}
	return cmd
}

// saveViews records the settings of the views in the engine.
func saveViews(cmd *cobra.Command, settings measure.Settings) error {
	return withAudit(cmd, func(e *engine.Engine, log *audit.Log) error {
		saved, err := measure.OpenSaved(cmd.Context(), e)
		if err != nil {
			return err
		}
		if err := saved.Save(cmd.Context(), settings); err != nil {
			return err
		}
		fmt.Fprintln(cmd.ErrOrStderr(), "The settings are saved. The catalog serves the views with them.")
		return note(cmd.Context(), log, "lake.views", "", map[string]string{
			"conversion_types": strings.Join(settings.ConversionTypes, ","), "window": settings.Window.String(),
			"household_max": strconv.Itoa(settings.HouseholdMax), "time_zone": settings.TimeZone,
			"impressions": settings.Impressions,
		})
	})
}
