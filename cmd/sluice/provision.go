package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/user"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/audit"
	"sluice/internal/dataset"
	"sluice/internal/engine"
	"sluice/internal/stream"
)

// provision is what the commands about datasets and keys work with. It reaches the running server's registry
// when there is one on the data directory, and opens the engine itself when there is none.
type provision struct {
	*dataset.Registry
	engine *engine.Engine
	audit  *audit.Log
	cmd    *cobra.Command
}

// withRegistry runs work on the registry of --data or --nats.
func withRegistry(cmd *cobra.Command, work func(ctx context.Context, p *provision) error) error {
	return withAudit(cmd, func(e *engine.Engine, log *audit.Log) error {
		ctx := cmd.Context()
		reg, err := dataset.Open(ctx, e, dataset.Options{Now: hooks.now})
		if err != nil {
			return err
		}
		err = work(ctx, &provision{Registry: reg, engine: e, audit: log, cmd: cmd})
		if errors.Is(err, dataset.ErrNotFound) || errors.Is(err, dataset.ErrNoKey) || errors.Is(err, dataset.ErrNoReader) {
			err = &failure{exitNotFound, err}
		}
		return err
	})
}

// onRegistry makes a command that works on the registry of --data or --nats.
func onRegistry(
	cmd *cobra.Command, work func(ctx context.Context, p *provision, args []string) error,
) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return withRegistry(cmd, func(ctx context.Context, p *provision) error { return work(ctx, p, args) })
	}
	return cmd
}

// datasetExists is an error for a name that was mistyped.
func datasetExists(cmd *cobra.Command, id string) error {
	return withRegistry(cmd, func(ctx context.Context, p *provision) error {
		_, err := p.Read(ctx, id)
		return err
	})
}

// openEngine opens the engine of --data or --nats. It says which directory it made where there was no service: a server
// on another directory does not know what the command does.
func openEngine(cmd *cobra.Command) (*engine.Engine, error) {
	o := engineOptions(cmd)
	made := o.URL == "" && !engine.Exists(o.Dir) && cmd.Name() != "restore" // which says so itself
	e, err := engine.Open(cmd.Context(), o)
	if err == nil && made {
		dir, _ := filepath.Abs(o.Dir)
		fmt.Fprintf(cmd.ErrOrStderr(), "There was no service in %s: this command has made one. If your server has another "+
			"directory, delete engine and lock in this one, and name that with --data or SLUICE_DATA.\n", cmp.Or(dir, o.Dir))
	}
	return e, err
}

// openService opens the engine of --data or --nats, in which there must be a service.
func openService(cmd *cobra.Command) (*engine.Engine, error) {
	if err := dataExists(cmd); err != nil {
		return nil, err
	}
	return openEngine(cmd)
}

// withStream runs work on the engine of --data or --nats, in which there must be a service, and on its stream.
func withStream(cmd *cobra.Command, work func(*engine.Engine, *stream.Stream) error) error {
	e, err := openService(cmd)
	if err != nil {
		return err
	}
	defer e.Close()
	return onStream(cmd, e, func(s *stream.Stream) error { return work(e, s) })
}

// onStream is withStream for a command that has the engine open.
func onStream(cmd *cobra.Command, e *engine.Engine, work func(*stream.Stream) error) error {
	s, err := stream.Open(cmd.Context(), e, stream.Options{Now: hooks.now})
	if err != nil {
		return err
	}
	defer s.Close()
	return work(s)
}

// engineOptions reads the flags that say where the engine is. Every command has them.
func engineOptions(cmd *cobra.Command) engine.Options {
	return engine.Options{
		Dir: flagText(cmd, "data"), URL: flagText(cmd, "nats"), Credentials: flagText(cmd, "nats-credentials"),
		RootCA: flagText(cmd, "nats-ca"), ClientCert: flagText(cmd, "nats-cert"), ClientKey: flagText(cmd, "nats-key"),
	}
}

// flagText is the value of a flag that every command has.
func flagText(cmd *cobra.Command, name string) string {
	v, _ := cmd.Flags().GetString(name)
	return v
}

// note writes an action into the audit log. An action that is not in the log must not look done: the caller gets the
// error.
func (p *provision) note(action, object string, detail map[string]string) error {
	return note(p.cmd.Context(), p.audit, action, object, detail)
}

func note(ctx context.Context, log *audit.Log, action, object string, detail map[string]string) error {
	if err := log.Append(ctx, entry(action, object, detail)); err != nil {
		return fmt.Errorf("done, but not in the audit log: %w", err)
	}
	return nil
}

func entry(action, object string, detail map[string]string) audit.Entry {
	return audit.Entry{Time: time.Now().UTC(), Actor: actor(), Action: action, Object: object, Detail: detail}
}

// noteAlone is note for a command that has no engine open.
func noteAlone(cmd *cobra.Command, action, object string, detail map[string]string) error {
	e, err := openEngine(cmd)
	if err != nil {
		return fmt.Errorf("done, but not in the audit log: %w", err)
	}
	defer e.Close()
	return noteIn(cmd, e, action, object, detail)
}

// noteIn is note for a command that has an engine open, and no audit log.
func noteIn(cmd *cobra.Command, e *engine.Engine, action, object string, detail map[string]string) error {
	log, err := audit.Open(cmd.Context(), e)
	if err != nil {
		return fmt.Errorf("done, but not in the audit log: %w", err)
	}
	return note(cmd.Context(), log, action, object, detail)
}

// withAudit runs work on the audit log of --data or --nats.
func withAudit(cmd *cobra.Command, work func(*engine.Engine, *audit.Log) error) error {
	e, err := openEngine(cmd)
	if err != nil {
		return failed(err)
	}
	defer e.Close()
	log, err := audit.Open(cmd.Context(), e)
	if err != nil {
		return failed(err)
	}
	return failed(work(e, log))
}

// actor is who runs this command, as far as the system knows.
func actor() string {
	u, err := user.Current()
	if err != nil {
		return "user:unknown"
	}
	return "user:" + u.Username
}

// showKey prints a new key: alone on stdout, so that it can be put where it belongs by a pipe; the words beside
// it on stderr. It is the only time the key is shown. Then it notes the action.
func (p *provision) showKey(action, datasetID, keyID string, key dataset.Key, asJSON bool) (err error) {
	if asJSON {
		err = printJSON(p.cmd.OutOrStdout(), struct {
			DatasetID string `json:"data_set_id"`
			KeyID     string `json:"key_id"`
			APIKey    string `json:"api_key"`
		}{datasetID, keyID, key.Reveal()})
	} else {
		fmt.Fprintf(p.cmd.ErrOrStderr(), "Key %s of dataset %s. Keep it now: it is not shown again.\n", keyID, datasetID)
		_, err = fmt.Fprintln(p.cmd.OutOrStdout(), key.Reveal())
	}
	return errors.Join(err, p.note(action, datasetID, map[string]string{"key": keyID}))
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// table begins a table for people, with its heading; the caller flushes it.
func table(cmd *cobra.Command, heading string) *tabwriter.Writer {
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, heading)
	return w
}

func jsonFlag(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("json", false, "print JSON, for programs")
}
