package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"sluice/internal/access"
	"sluice/internal/audit"
	"sluice/internal/engine"
)

func newConsole() *cobra.Command {
	password := &cobra.Command{
		Use: "password", Short: "Set the password of the console; ends every open session", Args: cobra.NoArgs,
		Long: fmt.Sprintf(`Reads the password from standard input, or asks for it on a terminal, and stores its argon2id hash
in the engine, for all nodes. At least %d characters. A server that runs takes it up at once.`, access.MinPassword),
		RunE: func(cmd *cobra.Command, _ []string) error {
			secret, err := readPassword(cmd)
			if err != nil {
				return failed(err)
			}
			return withCredentials(cmd, "console.password", func(credentials *access.Credentials) error {
				if err := credentials.SetPassword(cmd.Context(), secret); err != nil {
					return err
				}
				fmt.Fprintln(cmd.ErrOrStderr(), "The password is set.")
				return nil
			})
		},
	}
	token := &cobra.Command{
		Use:   "token",
		Short: "Make the token with which programs, such as Prometheus, reach the console; replaces the one before",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withCredentials(cmd, "console.token", func(credentials *access.Credentials) error {
				secret, err := credentials.NewToken(cmd.Context())
				if err != nil {
					return err
				}
				fmt.Fprintln(cmd.ErrOrStderr(), "Send it as: Authorization: Bearer TOKEN. It is not shown again:")
				fmt.Fprintln(cmd.OutOrStdout(), secret)
				return nil
			})
		},
	}
	return group(
		&cobra.Command{Use: "console", Short: "Say who may look at the console from another machine"},
		password, token)
}

// withCredentials runs work on what opens the console, and notes the action.
func withCredentials(cmd *cobra.Command, action string, work func(*access.Credentials) error) error {
	return withAudit(cmd, func(e *engine.Engine, log *audit.Log) error {
		credentials, err := access.Open(cmd.Context(), e)
		if err != nil {
			return err
		}
		if err := work(credentials); err != nil {
			return err
		}
		return note(cmd.Context(), log, action, "", nil)
	})
}

// readPassword asks twice on a terminal, and reads a line from anything else.
func readPassword(cmd *cobra.Command) (string, error) {
	f, ok := cmd.InOrStdin().(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
		if line == "" && err != nil {
			return "", errors.New("no password on standard input")
		}
		return strings.TrimRight(line, "\r\n"), nil
	}
	ask := func(prompt string) (string, error) {
		fmt.Fprint(cmd.ErrOrStderr(), prompt)
		b, err := term.ReadPassword(int(f.Fd()))
		fmt.Fprintln(cmd.ErrOrStderr())
		return string(b), err
	}
	first, err := ask("New password: ")
	if err != nil {
		return "", err
	}
	second, err := ask("Once more:    ")
	if err != nil {
		return "", err
	}
	if first != second {
		return "", errors.New("the two are not the same")
	}
	return first, nil
}

func newAudit() *cobra.Command {
	verify := &cobra.Command{
		Use:   "verify",
		Short: "Hold every entry against its seal; note the last seal elsewhere to prove that nothing before it changed",
		Args:  cobra.NoArgs,
	}
	asJSON := jsonFlag(verify)
	verify.RunE = func(cmd *cobra.Command, _ []string) error {
		return withAudit(cmd, func(_ *engine.Engine, log *audit.Log) error {
			sum, err := log.Verify(cmd.Context())
			if err != nil {
				return err
			}
			if *asJSON {
				return printJSON(cmd.OutOrStdout(), map[string]any{
					"entries": sum.Entries, "dropped": sum.Dropped, "last": sum.Last.Format(time.RFC3339), "seal": sum.Seal,
				})
			}
			fmt.Fprintf(cmd.OutOrStdout(), "intact: %d entries\n", sum.Entries)
			if sum.Dropped > 0 {
				fmt.Fprintf(cmd.OutOrStdout(), "the oldest %d of them were dropped, because the log is limited\n", sum.Dropped)
			}
			if sum.Entries > 0 {
				fmt.Fprintf(cmd.OutOrStdout(), "last:   %s\nseal:   %s\n", sum.Last.Format(time.RFC3339), sum.Seal)
			}
			return nil
		})
	}
	limit := uint(20)
	list := &cobra.Command{Use: "list", Short: "Show the newest entries, one JSON object a line", Args: cobra.NoArgs}
	list.Flags().UintVar(&limit, "limit", limit, "how many")
	list.RunE = func(cmd *cobra.Command, _ []string) error {
		return withAudit(cmd, func(_ *engine.Engine, log *audit.Log) error {
			entries, err := log.Tail(cmd.Context(), int(limit))
			if err != nil {
				return err
			}
			out := json.NewEncoder(cmd.OutOrStdout())
			for _, e := range entries {
				if err := out.Encode(e); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group(&cobra.Command{Use: "audit", Short: "Read and verify the log of what operators did"}, verify, list)
}
