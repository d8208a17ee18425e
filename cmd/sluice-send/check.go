package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"sluice/client"
	"sluice/cmd/sluice-send/internal/input"
	"sluice/cmd/sluice-send/internal/upload"
	"sluice/event"
)

func (p *program) checkCommand() *cobra.Command {
	var (
		in     input.Options
		remote bool
	)
	cmd := &cobra.Command{
		Use:   "check FILE…",
		Short: "Say which rows would be rejected, and send nothing",
		Long: "check holds every row against the service's rules and prints those that would be rejected: " +
			`line, code, field, what is
wrong and how to correct it, never the value. Nothing is sent, and no key is needed, unless --remote asks for the
service's own word; the service then judges the rows and stores nothing.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return p.check(cmd.Context(), &in, remote, args) },
	}
	registerInput(&in, cmd.Flags())
	cmd.Flags().BoolVar(&remote, "remote", false, "ask the service")
	return cmd
}

// checkReport is what check found in one file.
type checkReport struct {
	File     string               `json:"file"`
	Rows     int                  `json:"rows"`
	Valid    int                  `json:"valid"`
	Rejected int                  `json:"rejected"`
	Warnings map[event.Code]int   `json:"warnings,omitempty"`
	Codes    map[event.Code]int   `json:"rejected_by_code,omitempty"`
	Problems []upload.RejectedRow `json:"problems,omitempty"` // the first 1,000
}

// keptProblems bounds the memory of a report in JSON; the words without --json have no such bound. Arbitrary.
const keptProblems = 1000

func (p *program) check(ctx context.Context, in *input.Options, remote bool, files []string) error {
	var c *client.Client
	clock := p.now()
	if remote {
		service, contact, err := p.reach(ctx, client.Options{})
		if err != nil {
			return err
		}
		c, clock = service, p.clockOf(contact)
	}
	rejected := 0
	var reports []*checkReport
	for _, file := range files {
		r, err := p.checkFile(ctx, c, in, file, clock)
		if err != nil {
			return failure(ctx, err)
		}
		rejected += r.Rejected
		reports = append(reports, r)
	}
	if p.json {
		if err := json.NewEncoder(p.stdout).Encode(reports); err != nil {
			return err
		}
	}
	return verdict(rejected)
}

func (p *program) checkFile(ctx context.Context, c *client.Client, in *input.Options, file string,
	clock time.Time,
) (*checkReport, error) {
	in.Dataset = p.dataset
	o, err := in.Open(file, p.stdin)
	if err != nil {
		return nil, exit(exitUsage, err)
	}
	defer o.Close()
	if o.Mapping != nil && len(o.Mapping.Unused) > 0 {
		p.say("%s: columns that fill no field and would not be sent: %q", file, o.Mapping.Unused)
	}
	pr := &upload.Preparer{
		Mapping: o.Mapping, Policy: event.Policy{DatasetID: p.dataset}, Fill: p.dataset,
		Now: func() time.Time { return clock },
	}
	cut := &input.Cutter{Rows: o.Rows, MaxRows: client.FillEvents, MaxBytes: client.FillBytes}
	report := &checkReport{File: file, Warnings: map[event.Code]int{}, Codes: map[event.Code]int{}}
	for b := new(input.Batch); ; {
		err := cut.Next(b)
		if input.Ended(err) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if b.Number == 0 && pr.Policy.DatasetID == "" {
			pr.Policy.DatasetID = pr.Dataset(b)
		}
		prep := pr.Prepare(b)
		rejected := prep.Rejected
		for _, req := range prep.Requests {
			if c == nil {
				break
			}
			more, err := upload.Ask(ctx, c, req)
			if err != nil {
				return nil, err
			}
			rejected = append(rejected, more...)
		}
		p.count(report, file, len(b.Spans), rejected, prep.Warnings)
	}
	if !p.json {
		fmt.Fprintf(p.stdout, "%s: %d rows, %d valid, %d rejected\n", file, report.Rows, report.Valid, report.Rejected)
		p.sayCodes(file, report.Codes, report.Warnings)
	}
	return report, nil
}

// count counts a batch and, without --json, prints its rejected rows.
func (p *program) count(report *checkReport, file string, rows int, rejected []upload.RejectedRow,
	warnings map[event.Code]int,
) {
	report.Rows += rows
	report.Rejected += len(rejected)
	report.Valid = report.Rows - report.Rejected
	for code, n := range warnings {
		report.Warnings[code] += n
	}
	for _, r := range rejected {
		report.Codes[r.Code]++
		if len(report.Problems) < keptProblems {
			report.Problems = append(report.Problems, r)
		}
		if p.json {
			continue
		}
		for _, e := range r.Problems() {
			where := ""
			if e.Field != "" {
				where = " at " + e.Field
			}
			fmt.Fprintf(p.stdout, "%s:%d: %s%s: %s %s\n", file, r.Line, e.Code, where, e.Message, e.Hint)
		}
	}
}
