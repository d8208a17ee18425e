package main

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/audit"
	"sluice/internal/lake"
)

func newErase() *cobra.Command {
	var p lake.Predicate
	cmd := &cobra.Command{
		Use:   "erase",
		Short: "Delete every stored event that carries an identifier",
		Long: `Deletes every stored event that carries the identifier, from every snapshot and file of the table,
whether or not a server runs on the directory. What was acknowledged and not yet loaded is loaded
first, so that it is found. The stream keeps its frames until they age out; until when is said.

An address or an IP is named by its SHA-256, as it is stored.`,
		Example: `  sluice erase --email-sha256 $(printf %s jane@example.com | sha256sum | cut -c1-64)`,
		Args:    cobra.NoArgs,
	}
	asJSON := jsonFlag(cmd)
	cmd.Flags().StringVar(&p.EmailSHA256, "email-sha256", "", "SHA-256 of the e-mail address, 64 hex digits")
	cmd.Flags().StringVar(&p.IFA, "ifa", "", "advertising id, in any case")
	cmd.Flags().StringVar(&p.IPSHA256, "ip", "", "SHA-256 of the IPv4 address, 64 hex digits")
	cmd.Flags().StringVar(&p.PartnerID, "partner-id", "", "partner id")
	cmd.MarkFlagsOneRequired("email-sha256", "ifa", "ip", "partner-id")
	cmd.MarkFlagsMutuallyExclusive("email-sha256", "ifa", "ip", "partner-id")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		kind, err := erasable(&p)
		if err != nil {
			return err
		}
		fmt.Fprintln(cmd.ErrOrStderr(), "Looking through all stored events …")
		l, age, err := openSettled(cmd)
		if errors.Is(err, errNotSettled) {
			return failed(fmt.Errorf("nothing was erased: %w, and what is still to be loaded may carry the identifier; try again when the backlog is gone", err))
		}
		if err != nil {
			return failed(err)
		}
		done, err := l.Erase(cmd.Context(), p)
		if errors.Is(err, lake.ErrDamaged) {
			err = fmt.Errorf("%w: some files cannot be read and may still hold the identifier; see the server's log", err)
		}
		until := time.Now().Add(age).UTC().Truncate(time.Second)
		// The deed is noted, the identifier is not: the log would keep what was to be forgotten.
		dir, _ := cmd.Flags().GetString("data")
		noted := note(audit.Open(dir), "erase", "", map[string]string{"identifier": kind, "rows": strconv.FormatInt(done.Rows, 10)})
		if err := errors.Join(err, noted); err != nil {
			return failed(err)
		}
		return failed(printErased(cmd, done, until, *asJSON))
	}
	return cmd
}

// erasable checks the one identifier that is set and says which it is.
func erasable(p *lake.Predicate) (kind string, err error) {
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
			return "", fmt.Errorf("the %s to erase is named by its SHA-256: 64 hex digits", id.kind)
		}
		kind = id.kind
	}
	if kind == "" {
		return "", errors.New("the identifier to erase is empty")
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
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%d rows erased; %d files rewritten, %d deleted. The stream holds copies until %s at the latest.\n",
		done.Rows, done.Replaced, done.Files, until.Format(time.RFC3339))
	return err
}
