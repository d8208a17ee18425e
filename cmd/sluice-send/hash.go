package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"sluice/client"
	"sluice/cmd/sluice-send/internal/input"
)

func (p *program) hashCommand() *cobra.Command {
	var vectors bool
	cmd := &cobra.Command{
		Use:   "hash email|ip [VALUE…]",
		Short: "Hash e-mail or IPv4 addresses as the service wants them",
		Long: "hash prints the SHA-256 of addresses: e-mail addresses trimmed and lower-cased, IPv4 addresses in their " +
			"canonical\nform. Values come as arguments or, so that they stay out of the shell's history, one on each line of " +
			"standard input; the\nhashes come in the same order, an empty line for an empty one. --vectors prints pairs to " +
			"check another program against.",
		Args: func(_ *cobra.Command, args []string) error {
			if !vectors && (len(args) == 0 || args[0] != "email" && args[0] != "ip") {
				return errors.New("hash what? email or ip")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if vectors {
				return p.printVectors()
			}
			hash := client.HashEmail
			if args[0] == "ip" {
				hash = client.HashIPv4
			}
			return p.hash(hash, args[1:])
		},
	}
	cmd.Flags().BoolVar(&vectors, "vectors", false, "print the published pairs")
	return cmd
}

func (p *program) printVectors() error {
	if p.json {
		type vector struct {
			Kind   string `json:"kind"`
			Input  string `json:"input"`
			Normal string `json:"normal"`
			SHA256 string `json:"sha256"`
		}
		enc := json.NewEncoder(p.stdout)
		for _, v := range client.Vectors {
			if err := enc.Encode(vector(v)); err != nil {
				return err
			}
		}
		return nil
	}
	for _, v := range client.Vectors {
		fmt.Fprintf(p.stdout, "%s\t%q\t%q\t%s\n", v.Kind, v.Input, v.Normal, v.SHA256)
	}
	return nil
}

func (p *program) hash(hash func(string) (string, error), values []string) error {
	bad := 0
	one := func(n int64, value string) {
		if value == "" {
			fmt.Fprintln(p.stdout)
			return
		}
		h, err := hash(value)
		if err != nil {
			bad++
			p.say("value %d: %v", n, err)
		}
		fmt.Fprintln(p.stdout, h)
	}
	for i, v := range values {
		one(int64(i+1), v)
	}
	if len(values) == 0 {
		l := input.NewLines(p.stdin)
		for {
			line, long, err := l.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
			if long {
				line = nil
				p.say("value %d: the line is over 5 MB", l.Number())
				bad++
			}
			one(l.Number(), string(line))
		}
	}
	return verdict(bad)
}
