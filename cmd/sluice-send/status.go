package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"sluice/client"
)

func (p *program) statusCommand() *cobra.Command {
	var events bool
	cmd := &cobra.Command{
		Use:   "status SUBMISSION_ID",
		Short: "Show what became of a submission",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := p.open(client.Options{Retry: briefly})
			if err != nil {
				return err
			}
			look := c.Status
			if events {
				look = c.StatusEvents
			}
			s, err := look(cmd.Context(), args[0])
			if e, ok := errors.AsType[*client.Error](err); ok && e.Status == 404 {
				return exit(exitRejected, errors.New("no such submission in the key's dataset"))
			}
			if err != nil {
				return failure(cmd.Context(), err)
			}
			return p.printStatus(s)
		},
	}
	cmd.Flags().BoolVar(&events, "events", false, "list the accepted events")
	return cmd
}

func (p *program) printStatus(s *client.Submission) error {
	if p.json {
		return json.NewEncoder(p.stdout).Encode(s)
	}
	for _, line := range []struct {
		name  string
		value any
	}{
		{"submission_id", s.SubmissionID},
		{"data_set_id", s.DatasetID},
		{"received_at", s.ReceivedAt.Format(time.RFC3339)},
		{"status", s.Status},
		{"accepted", s.Accepted},
		{"rejected", s.Rejected},
		{"late", s.Late},
		{"restricted", s.Restricted},
		{"suppressed", s.Suppressed},
	} {
		fmt.Fprintf(p.stdout, "%-14s %v\n", line.name, line.value)
	}
	for _, e := range s.Events {
		fmt.Fprintf(p.stdout, "event %-8d %s  %s  %s  late=%v  optimization_eligible=%v\n", e.Index, e.EventID, e.EventType,
			e.Privacy, e.Late, e.OptimizationEligible)
	}
	return nil
}
