package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/dataset"
)

func newKey() *cobra.Command {
	return group(&cobra.Command{Use: "key", Short: "Issue, rotate, extend, revoke and list the keys of a dataset"},
		newKeyIssue(), newKeyRotate(), newKeyExtend(), newKeyRevoke(), newKeyList())
}

func newKeyIssue() *cobra.Command {
	cmd := &cobra.Command{
		Use: "issue ID", Short: "Give a dataset one more key (it has at most two live ones)",
		Args: cobra.ExactArgs(1),
	}
	asJSON := jsonFlag(cmd)
	return onRegistry(cmd, func(ctx context.Context, p *provision, args []string) error {
		keyID, key, err := p.IssueKey(ctx, args[0])
		if err != nil {
			return explainKeys(err, args[0])
		}
		return p.showKey("key.issue", args[0], keyID, key, *asJSON)
	})
}

func newKeyRotate() *cobra.Command {
	overlap := days(72 * time.Hour)
	cmd := &cobra.Command{
		Use:   "rotate ID",
		Short: "Give a dataset a new key and let the old one end after the overlap",
		Args:  cobra.ExactArgs(1),
	}
	asJSON := jsonFlag(cmd)
	cmd.Flags().Var(&overlap, "overlap", "how long the old key goes on working")
	return onRegistry(cmd, func(ctx context.Context, p *provision, args []string) error {
		keyID, key, err := p.RotateKey(ctx, args[0], time.Duration(overlap))
		if err != nil {
			return explainKeys(err, args[0])
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "The old key works until %s at the latest.\n",
			time.Now().Add(time.Duration(overlap)).UTC().Format(time.RFC3339))
		return p.showKey("key.rotate", args[0], keyID, key, *asJSON)
	})
}

func newKeyExtend() *cobra.Command {
	var until string
	cmd := &cobra.Command{
		Use: "extend KEY_ID", Short: "Move the end of a key that is being rotated out", Args: cobra.ExactArgs(1),
		Example: `  sluice key extend 4fT9k2LmQx7a --until 2026-12-01T00:00:00Z`,
	}
	cmd.Flags().StringVar(&until, "until", "", "when the key ends: RFC 3339 or a date")
	_ = cmd.MarkFlagRequired("until")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		at, err := parseTime("--until", until)
		if err != nil {
			return err
		}
		if !at.After(time.Now()) {
			return errors.New("--until must be in the future; end a key at once with: sluice key revoke " + args[0])
		}
		return withRegistry(cmd, func(ctx context.Context, p *provision) error {
			owner, err := p.ExtendKey(ctx, args[0], at)
			if errors.Is(err, dataset.ErrNotEnding) {
				return fmt.Errorf("%w: only a key that sluice key rotate has given an end can be extended", err)
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "Key %s of dataset %s works until %s.\n", args[0], owner,
				at.UTC().Format(time.RFC3339))
			return p.note("key.extend", owner, map[string]string{"key": args[0], "until": at.UTC().Format(time.RFC3339)})
		})
	}
	return cmd
}

func newKeyRevoke() *cobra.Command {
	cmd := &cobra.Command{Use: "revoke KEY_ID", Short: "End a key at once", Args: cobra.ExactArgs(1)}
	return onRegistry(cmd, func(ctx context.Context, p *provision, args []string) error {
		owner, err := p.RevokeKey(ctx, args[0])
		if err != nil {
			return err
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "Key %s of dataset %s is revoked; a running server rejects it within 5 s.\n",
			args[0], owner)
		return p.note("key.revoke", owner, map[string]string{"key": args[0]})
	})
}

func newKeyList() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list ID", Short: "List the keys of a dataset, and when each was last used", Args: cobra.ExactArgs(1),
		Long: `Lists the keys of a dataset. LAST USED is when a key was last accepted, on any node. REJECTED is when a key
that has ended, or whose dataset is disabled, was last presented. A node writes both at most once a minute
for each key: the times of a busy key may be a minute old.`,
	}
	asJSON := jsonFlag(cmd)
	return onRegistry(cmd, func(ctx context.Context, p *provision, args []string) error {
		d, err := p.Read(ctx, args[0])
		if err == nil {
			err = p.ReadUse(ctx)
		}
		if err != nil {
			return err
		}
		lines := keyLines(d, p.Used())
		if *asJSON {
			return printJSON(cmd.OutOrStdout(), lines)
		}
		w := table(cmd, "KEY ID\tSTATE\tCREATED\tEXPIRES\tLAST USED\tREJECTED")
		for _, k := range lines {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", k.KeyID, k.State, orNever(k.Created), orNever(k.Expires),
				orNever(k.LastUsed), orNever(k.Rejected))
		}
		return w.Flush()
	})
}

// orNever writes a time for people.
func orNever(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format(time.RFC3339)
}

// keyLine is a key as it is listed.
type keyLine struct {
	DatasetID string    `json:"data_set_id"`
	KeyID     string    `json:"key_id"`
	State     string    `json:"state"`
	Created   time.Time `json:"created"`
	Expires   time.Time `json:"expires,omitzero"`
	Revoked   time.Time `json:"revoked,omitzero"`
	LastUsed  time.Time `json:"last_used,omitzero"`
	Rejected  time.Time `json:"last_rejected,omitzero"`
}

func keyLines(d *dataset.Dataset, used map[string]dataset.Use) []keyLine {
	list := []keyLine{}
	for i := range d.Keys {
		k := &d.Keys[i]
		u := used[k.ID]
		list = append(list, keyLine{
			d.ID, k.ID, keyState(k), k.Created.UTC(), k.Expires.UTC(), k.Revoked.UTC(), u.Accepted, u.Rejected,
		})
	}
	return list
}

func keyState(k *dataset.KeyInfo) string {
	switch {
	case !k.Revoked.IsZero():
		return "revoked"
	case !k.Live(time.Now()):
		return "expired"
	case !k.Expires.IsZero():
		return "expiring"
	}
	return "live"
}

// explainKeys adds to "two live keys" what to do about it.
func explainKeys(err error, id string) error {
	if errors.Is(err, dataset.ErrTwoKeys) {
		return fmt.Errorf("%w: see them with sluice key list %s, end one with sluice key revoke KEY_ID", err, id)
	}
	return err
}
