package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"sluice/client"
	"sluice/event"
)

var statsWindows = []string{"1h", "24h", "7d", "30d"}

func (p *program) statsCommand() *cobra.Command {
	var window, by string
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Show the numbers of the key's dataset: accepted, rejected and why, coverage, match readiness",
		Long: `Reads the numbers of the key's dataset from the service and prints them. The times are UTC. An event is counted
some seconds after its receipt. The exit code does not depend on the numbers.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains(statsWindows, window) {
				return exit(exitUsage, fmt.Errorf("--window is one of %v", statsWindows))
			}
			if by != "" && by != "campaign" {
				return exit(exitUsage, errors.New("--by is campaign"))
			}
			c, err := p.open(client.Options{Retry: briefly})
			if err != nil {
				return err
			}
			read := c.Stats
			if by != "" {
				read = c.StatsByCampaign
			}
			s, err := read(cmd.Context(), window)
			if err != nil {
				return failure(cmd.Context(), err)
			}
			if p.dataset != "" && p.dataset != s.DatasetID {
				return exit(exitUsage, fmt.Errorf("the key is for %s, not for %s", s.DatasetID, p.dataset))
			}
			if p.json {
				return json.NewEncoder(p.stdout).Encode(s)
			}
			return printStats(p.stdout, s)
		},
	}
	cmd.Flags().StringVar(&window, "window", "24h", "how far back: 1h, 24h, 7d or 30d")
	cmd.Flags().StringVar(&by, "by", "", "campaign: list the campaigns too, as they were reported")
	return cmd
}

// printStats writes tables for people.
func printStats(out io.Writer, s *client.Stats) error {
	hour := func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") }
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name string, value any, note string) { fmt.Fprintf(w, "%s\t%v\t%s\n", name, value, note) }
	fmt.Fprintf(w, "dataset %s, last %s: %s to %s UTC\n\n", s.DatasetID, s.Window, hour(s.From), hour(s.To))
	if !s.Complete {
		fmt.Fprint(w, "The server has just started and still reads its tables: the numbers are too small.\n\n")
	}
	row("received", s.Received, "")
	row("accepted", s.Accepted, of(s.Accepted, s.Received, "received"))
	row("rejected", s.Rejected, of(s.Rejected, s.Received, "received"))
	row("late", s.Late, of(s.Late, s.Accepted, "accepted"))
	row("unrestricted", s.Outcomes.Unrestricted, of(s.Outcomes.Unrestricted, s.Accepted, "accepted"))
	row("measurement_only", s.Outcomes.MeasurementOnly, of(s.Outcomes.MeasurementOnly, s.Accepted, "accepted"))
	row("suppressed", s.Outcomes.Suppressed, of(s.Outcomes.Suppressed, s.Accepted, "accepted"))
	r := &s.Requests
	fmt.Fprint(w, "\nRequests\n")
	row("  accepted", r.Accepted, of(r.Accepted, r.Accepted+r.Rejected, "these requests"))
	row("  rejected whole", r.Rejected, of(r.Rejected, r.Accepted+r.Rejected, "these requests"))
	for _, code := range sortedKeys(r.ByCode) {
		info, _ := event.LookupCode(event.Code(code))
		row("    "+code, r.ByCode[code], info.Remedy)
	}
	fmt.Fprint(w, "\nEvent types\n")
	for _, t := range s.EventTypes {
		row("  "+t.EventType, t.Accepted, of(t.Accepted, s.Accepted, "accepted"))
	}
	printCampaigns(w, s)
	fmt.Fprint(w, "\nIdentifiers\n")
	for _, i := range s.Identifiers {
		row("  "+i.Field, i.Events, of(i.Events, s.Accepted, "accepted"))
	}
	m := s.MatchReadiness
	fmt.Fprintf(w, "\nMatch readiness\t%.1f\tof 100\n  %s\n", m.Points, m.Formula)
	fmt.Fprintf(w, "  100 × (%d + 0.4 × %d) ÷ %d\n", m.Terms.WithEmailOrIFA, m.Terms.WithIPOnly, m.Terms.Accepted)
	fmt.Fprint(w, "\nRejections by first problem\n")
	for _, r := range s.Rejections {
		fmt.Fprintf(w, "  %s %s\t%d\t%s\n", r.ErrorCode, r.Field, r.Events, of(r.Events, s.Received, "received"))
		fmt.Fprintf(w, "    %s\n", r.Hint)
		if r.Example != "" {
			fmt.Fprintf(w, "    Example: %s\n", r.Example)
		}
		fmt.Fprintf(w, "    Problems found: %d. First seen %s, last seen %s, by the hour.\n", r.Problems, hour(r.FirstSeen),
			hour(r.LastSeen))
	}
	f := s.Freshness
	fmt.Fprintf(w, "\ncounted at\t%s UTC\t%d s behind\n", f.CountedAt.UTC().Format("2006-01-02 15:04:05"), f.DelaySeconds)
	if !f.LastAcceptedHour.IsZero() {
		row("last accepted", hour(f.LastAcceptedHour)+" UTC", "the hour that begins then")
	}
	ends := "has no end"
	if !s.Key.EndsAt.IsZero() {
		ends = "ends " + hour(s.Key.EndsAt) + " UTC"
	}
	row("key "+s.Key.KeyID, fmt.Sprintf("%d days old", s.Key.AgeSeconds/86400), ends)
	return w.Flush()
}

func printCampaigns(w io.Writer, s *client.Stats) {
	if !s.AsReported {
		return
	}
	fmt.Fprintf(w, "\nCampaigns\n  %s\n", s.Note)
	for _, c := range s.Campaigns {
		fmt.Fprintf(w, "  %s\t\t%s\n", c.ID, c.Name)
		for _, t := range sortedKeys(c.Events) {
			fmt.Fprintf(w, "    %s\t%d\n", t, c.Events[t])
		}
		for _, currency := range sortedKeys(c.Value) {
			fmt.Fprintf(w, "    value\t%.2f\t%s\n", c.Value[currency], currency)
		}
		for _, currency := range sortedKeys(c.Refunds) {
			fmt.Fprintf(w, "    refunds\t%.2f\t%s\n", c.Refunds[currency], currency)
		}
	}
}

// of is a share in words, nothing when there is no whole.
func of(part, whole int64, name string) string {
	if whole == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f %% of %s", 100*float64(part)/float64(whole), name)
}
