package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"sluice/cmd/sluice-send/internal/convert"
	"sluice/cmd/sluice-send/internal/input"
)

func (p *program) convertCommand() *cobra.Command {
	var from string
	var hashPlain, table bool
	names := convert.Names()
	cmd := &cobra.Command{
		Use:   "convert --from " + strings.Join(names, "|") + " FILE…",
		Short: "Turn other platforms' server events into ours",
		Long: "convert reads the bodies of server events as they were made for another platform, whole requests or single " +
			"events, JSON\nor NDJSON, and prints ours as NDJSON, ready for upload. Plain identifiers are rejected, unless " +
			"--hash-plain lets this\nprogram normalise and hash them. Rejected events are listed on standard error by line, " +
			"without values, and so are members\nthat have no place in our events. --table prints what maps to what.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 && !table {
				return errors.New("convert which file? - is standard input")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c := convert.New(from, convert.Options{Dataset: p.dataset, HashPlain: hashPlain, Now: p.now})
			if c == nil {
				return exit(exitUsage, fmt.Errorf("--from must be one of %s", strings.Join(names, ", ")))
			}
			if table {
				_, err := fmt.Fprint(p.stdout, c.Table())
				return err
			}
			return p.convert(cmd.Context(), c, args)
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "whose events: "+strings.Join(names, ", "))
	cmd.Flags().BoolVar(&hashPlain, "hash-plain", false,
		"hash plain e-mail and IPv4 addresses instead of rejecting the event")
	cmd.Flags().BoolVar(&table, "table", false, "print what maps to what")
	return cmd
}

func (p *program) convert(ctx context.Context, c *convert.Converter, files []string) error {
	out := bufio.NewWriter(p.stdout)
	converted, rejected := 0, 0
	for _, file := range files {
		good, bad, err := p.convertFile(ctx, c, file, out)
		converted, rejected = converted+good, rejected+bad
		if err != nil {
			_ = out.Flush() // the error before is the one to report
			return failure(ctx, fmt.Errorf("%s: %w", file, err))
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	for _, name := range sortedKeys(c.Restricted) {
		p.say("restricted to measurement by %s (%d events)", name, c.Restricted[name])
	}
	for _, name := range sortedKeys(c.Dropped) {
		p.say("left out: %s (%d times)", name, c.Dropped[name])
	}
	p.say("%d events converted, %d rejected", converted, rejected)
	return verdict(rejected)
}

func (p *program) convertFile(ctx context.Context, c *convert.Converter, file string, out *bufio.Writer) (good, bad int,
	err error,
) {
	s, err := input.OpenSource(file, p.stdin, "")
	if err != nil {
		return 0, 0, exit(exitUsage, err)
	}
	defer s.Close()
	if s.Format != input.NDJSON {
		s.Format = input.JSON
	}
	rs, err := s.Rows()
	if err != nil {
		return 0, 0, err
	}
	for ctx.Err() == nil {
		r, err := rs.Next()
		if input.Ended(err) {
			return good, bad, nil
		}
		if err != nil {
			return good, bad, err
		}
		if r.Fault != "" {
			bad++
			p.say("%s:%d: %s", file, r.Line, r.Fault)
			continue
		}
		for i, o := range c.Body(r.Data) {
			if o.Fault != nil {
				bad++
				p.say("%s:%d: event %d: %s at %s: %s %s", file, r.Line, i, o.Fault.Code, o.Fault.Field, o.Fault.Message,
					o.Fault.Hint)
				continue
			}
			good++
			out.Write(o.Event)
			out.WriteByte('\n')
		}
	}
	return good, bad, ctx.Err()
}
