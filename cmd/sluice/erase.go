package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"sluice/internal/audit"
	"sluice/internal/lake"
)

func newErase() *cobra.Command {
	var p lake.Predicate
	var dryRun, yes bool
	cmd := &cobra.Command{
		Use:   "erase",
		Short: "Delete every stored event that carries an identifier",
		Long: `Deletes every stored event that carries the identifier, from every snapshot and file of the table,
whether or not a server runs on the directory. What was acknowledged and not yet loaded is loaded
first, so that it is found. The stream keeps its frames until they age out; until when is printed.

Without --dataset it spans all datasets, and asks on a terminal. An address or an IP is named by its
SHA-256, as it is stored.`,
		Example: `  sluice erase --email-sha256 $(printf %s jane@example.com | sha256sum | cut -c1-64) --dry-run
  sluice erase --dataset shop --partner-id p-4711`,
		Args: cobra.NoArgs,
	}
	asJSON := jsonFlag(cmd)
	identifierFlags(cmd, &p)
	cmd.Flags().StringVar(&p.Dataset, "dataset", "", "only events of this dataset")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "count the events, and delete nothing")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.MarkFlagsOneRequired(identifierNames...)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		kind, err := identifierKind(&p)
		if err != nil {
			return err
		}
		if p.Dataset == "" {
			fmt.Fprintln(cmd.ErrOrStderr(), "Without --dataset this spans all datasets.")
			if !dryRun && !yes {
				if err := confirm(cmd, "Erase from all of them?"); err != nil {
					return err
				}
			}
		}
		fmt.Fprintln(cmd.ErrOrStderr(), "Looking through all stored events …")
		l, age, err := openSettled(cmd, false)
		if errors.Is(err, errNotSettled) {
			return failed(fmt.Errorf("nothing was erased: %w, and what is still to be loaded may carry the identifier; try again when the backlog is gone", err))
		}
		if err != nil {
			return failed(err)
		}
		if dryRun {
			rows, err := l.Count(cmd.Context(), p)
			if err != nil {
				return failed(err)
			}
			return failed(printCounted(cmd, rows, *asJSON))
		}
		done, err := l.Erase(cmd.Context(), p)
		if errors.Is(err, lake.ErrDamaged) {
			err = fmt.Errorf("%w: some files cannot be read and may hold the identifier still; see the server's log", err)
		}
		until := time.Now().Add(age).UTC().Truncate(time.Second)
		// The deed is noted, the identifier is not: the log would keep what was to be forgotten.
		dir, _ := cmd.Flags().GetString("data")
		noted := note(audit.Open(dir), "erase", p.Dataset, map[string]string{"identifier": kind, "rows": strconv.FormatInt(done.Rows, 10)})
		if err := errors.Join(err, noted); err != nil {
			return failed(err)
		}
		return failed(printErased(cmd, done, until, *asJSON))
	}
	return cmd
}

// identifierNames are the flags of identifierFlags.
var identifierNames = []string{"email-sha256", "ifa", "ip", "partner-id"}

// identifierFlags are the flags that name an identifier.
func identifierFlags(cmd *cobra.Command, p *lake.Predicate) {
	cmd.Flags().StringVar(&p.EmailSHA256, "email-sha256", "", "SHA-256 of the e-mail address, 64 hex digits")
	cmd.Flags().StringVar(&p.IFA, "ifa", "", "advertising id, in any case")
	cmd.Flags().StringVar(&p.IPSHA256, "ip", "", "SHA-256 of the IPv4 address, 64 hex digits")
	cmd.Flags().StringVar(&p.PartnerID, "partner-id", "", "partner id")
	cmd.MarkFlagsMutuallyExclusive(identifierNames...)
}

// confirm asks on a terminal. Where nobody can answer, nothing is asked: a script has said what it wants.
func confirm(cmd *cobra.Command, question string) error {
	in, ok := cmd.InOrStdin().(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return nil
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s [y/N] ", question)
	answer, _ := bufio.NewReader(in).ReadString('\n')
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return failed(errors.New("nothing was changed"))
	}
	return nil
}

func printCounted(cmd *cobra.Command, rows int64, asJSON bool) error {
	if asJSON {
		return printJSON(cmd.OutOrStdout(), struct {
			Rows   int64 `json:"rows"`
			DryRun bool  `json:"dry_run"`
		}{rows, true})
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%d rows would be erased. Nothing was changed.\n", rows)
	return err
}

// identifierKind checks the one identifier that is set and says which it is.
func identifierKind(p *lake.Predicate) (kind string, err error) {
	for _, id := range []struct {
		kind  string
		value *string
		hash  bool
	}{
		{"email_sha256", &p.EmailSHA256, true},
		{"ifa", &p.IFA, false},
		{"ip", &p.IPSHA256, true},
		{"partner_id", &p.PartnerID, false},
	} {
		if *id.value == "" {
			continue
		}
		if id.hash && !isSHA256(*id.value) {
			return "", fmt.Errorf("the %s is named by its SHA-256: 64 hex digits", id.kind)
		}
		kind = id.kind
	}
	if kind == "" {
		return "", errors.New("the identifier is empty")
	}
	return kind, nil
}

func isSHA256(s string) bool {
	if len(s) != 64 {
		return false
	}
	for i := range len(s) {
		c := s[i] | 0x20
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func printErased(cmd *cobra.Command, done lake.Erased, until time.Time, asJSON bool) error {
	if asJSON {
		return printJSON(cmd.OutOrStdout(), struct {
			Rows        int64     `json:"rows"`
			Parts       int       `json:"parts"`
			Files       int       `json:"files"`
			StreamUntil time.Time `json:"stream_until"`
		}{done.Rows, done.Replaced, done.Files, until})
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%d rows erased; %d data files rewritten, %d files deleted. The stream holds copies until %s at the latest.\n",
		done.Rows, done.Replaced, done.Files, until.Format(time.RFC3339))
	return err
}
