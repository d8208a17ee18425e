package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"sluice/client"
	"sluice/event"
)

func (p *program) checkCommand() *cobra.Command {
	var (
		in     input
		remote bool
	)
	cmd := &cobra.Command{
		Use:   "check FILE…",
		Short: "Say which rows would be refused, and send nothing",
		Long: `check holds every row against the service's rules and prints those that would be refused: line, code, field, what is
wrong and how to mend it, never the value. Nothing is sent, and no key is needed, unless --remote asks for the
service's own word; the service then judges the rows and stores nothing.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return p.check(cmd.Context(), &in, remote, args) },
	}
	in.register(cmd.Flags())
	cmd.Flags().BoolVar(&remote, "remote", false, "ask the service")
	return cmd
}

// checkReport is what check found in one file.
type checkReport struct {
	File     string             `json:"file"`
	Rows     int                `json:"rows"`
	Valid    int                `json:"valid"`
	Rejected int                `json:"rejected"`
	Warnings map[event.Code]int `json:"warnings,omitempty"`
	Problems []refusal          `json:"problems,omitempty"` // the first 1,000
}

// keptProblems bounds the memory of a report in JSON; the words without --json have no such bound. Arbitrary.
const keptProblems = 1000

func (p *program) check(ctx context.Context, in *input, remote bool, files []string) error {
	var c *client.Client
	clock := p.now()
	if remote {
		var err error
		if c, err = p.open(client.Options{}); err != nil {
			return err
		}
		contact, err := c.Probe(ctx)
		if err != nil {
			return failure(ctx, err)
		}
		if !contact.Time.IsZero() {
			clock = contact.Time
		}
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
	if rejected > 0 {
		return exit(exitRejected, nil)
	}
	return nil
}

func (p *program) checkFile(ctx context.Context, c *client.Client, in *input, file string, clock time.Time) (*checkReport, error) {
	o, err := in.open(p, file)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	if o.mapping != nil && len(o.mapping.unused) > 0 {
		p.say("%s: columns that fill no field and would not be sent: %q", file, o.mapping.unused)
	}
	pr := &preparer{mapping: o.mapping, policy: event.Policy{DatasetID: p.dataset}, fill: p.dataset, now: func() time.Time { return clock }}
	cut := &cutter{rows: o.rows, maxRows: client.FillEvents, maxBytes: client.FillBytes}
	report := &checkReport{File: file, Warnings: map[event.Code]int{}}
	for b := new(batch); ; {
		err := cut.next(b)
		if ended(err) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if b.number == 0 && pr.policy.DatasetID == "" {
			pr.policy.DatasetID = datasetOf(pr, b)
		}
		prep := pr.prepare(b)
		refused := prep.refused
		for _, req := range prep.requests {
			if c == nil {
				break
			}
			more, err := askRemote(ctx, c, req)
			if err != nil {
				return nil, err
			}
			refused = append(refused, more...)
		}
		p.tell(report, file, len(b.spans), refused, prep.warnings)
	}
	if !p.json {
		fmt.Fprintf(p.stdout, "%s: %d rows, %d valid, %d rejected\n", file, report.Rows, report.Valid, report.Rejected)
		for _, code := range sortedKeys(report.Warnings) {
			p.say("%s: %s in %d rows", file, code, report.Warnings[code])
		}
	}
	return report, nil
}

// tell counts a batch and, without --json, prints its refused rows.
func (p *program) tell(report *checkReport, file string, rows int, refused []refusal, warnings map[event.Code]int) {
	report.Rows += rows
	report.Rejected += len(refused)
	report.Valid = report.Rows - report.Rejected
	for code, n := range warnings {
		report.Warnings[code] += n
	}
	for _, r := range refused {
		if len(report.Problems) < keptProblems {
			report.Problems = append(report.Problems, r)
		}
		if p.json {
			continue
		}
		list := r.Errors
		if len(list) == 0 {
			list = []problem{r.problem}
		}
		for _, e := range list {
			where := ""
			if e.Field != "" {
				where = " at " + e.Field
			}
			fmt.Fprintf(p.stdout, "%s:%d: %s%s: %s %s\n", file, r.Line, e.Code, where, e.Message, e.Hint)
		}
	}
}

// askRemote asks the service about rows that passed here.
func askRemote(ctx context.Context, c *client.Client, req request) ([]refusal, error) {
	v, err := c.ValidateRemote(ctx, req.body)
	if e, ok := errors.AsType[*client.Error](err); ok && e.Status == 400 {
		return name(req.lines, nil, e.Problems, e.Code, e.Message), nil
	}
	if err != nil {
		return nil, err
	}
	bad := make([]bool, len(req.lines))
	for _, p := range v.Problems {
		if p.Index < len(bad) {
			bad[p.Index] = true
		}
	}
	good := make([]bool, len(bad))
	for i := range bad {
		good[i] = !bad[i]
	}
	return name(req.lines, good, v.Problems, event.BatchRejected, "The service would refuse the row."), nil
}
