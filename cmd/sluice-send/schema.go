package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"sluice/client"
	"sluice/event"
)

func (p *program) schemaCommand() *cobra.Command {
	var remote bool
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of an event",
		Long: "schema prints the JSON Schema of an event: the one this program checks by, or with --remote the " +
			"service's own.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			schema := event.Schema()
			if remote {
				c, err := p.open(client.Options{Retry: briefly})
				if err != nil {
					return err
				}
				if schema, err = c.Schema(cmd.Context()); err != nil {
					return failure(cmd.Context(), err)
				}
			}
			_, err := fmt.Fprintf(p.stdout, "%s\n", schema)
			return err
		},
	}
	cmd.Flags().BoolVar(&remote, "remote", false, "ask the service")
	return cmd
}
