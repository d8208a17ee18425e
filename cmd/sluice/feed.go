package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/cmd/sluice/internal/service"
	"sluice/internal/durable"
	"sluice/internal/engine"
	"sluice/internal/erasure"
	"sluice/internal/feed"
	purposes "sluice/internal/purpose"
	"sluice/internal/stream"
)

// feedPage is how many rows are printed between two savings of the cursor, and feedPause how often the end of the
// stream is looked at. Both are arbitrary.
const (
	feedPage  = 1000
	feedPause = 100 * time.Millisecond
)

func newFeed() *cobra.Command {
	var p printing
	var purpose, cursor, address, tokenFile string
	cmd := &cobra.Command{
		Use: "feed", Short: "Print accepted events as they come", Args: cobra.NoArgs,
		Long: `Prints accepted events as they come, one a line, with the members of a stored row, until it is interrupted.
A line {"erased":{"event_id":"…"}} says that a row was erased.
It reads the stream of --data or --nats, so rows come within a second of their acknowledgement, and before
they are in the table. With --url it follows a server on another machine, with the token of a reader in the
variable SLUICE_TOKEN or in a file. Programs use GET /feed/v1/events: see docs/feed.md.

--cursor-file keeps the position: the next run goes on where this one ended, and --cursor earliest counts for the
first run alone. The position is written after the rows were, so a run that is killed may print its last rows
again; a program that must process each event once stores the cursor with its own effects.`,
		Example: `  sluice feed --purpose optimization
  sluice feed --purpose measurement --dataset shop --cursor earliest --once
  sluice feed --purpose measurement --cursor-file shop.cursor >> shop.ndjson
  sluice feed --purpose optimization --url https://sluice.example.com:8081 --token-file reader.token`,
	}
	f := cmd.Flags()
	f.StringVar(&purpose, "purpose", "",
		"optimization: rows with optimization_eligible; measurement: every row that is not suppressed")
	f.StringVar(&p.Dataset, "dataset", "", "only this dataset")
	f.StringArrayVar(&p.Types, "type", nil, "only events of this type; may be given more than once")
	f.StringArrayVar(&p.Campaigns, "campaign", nil, "only events of this campaign; may be given more than once")
	f.StringVar(&cursor, "cursor", "", "where to begin: a cursor, or earliest; default: from now on")
	f.StringVar(&p.file, "cursor-file", "", "keep the position in this file, and begin there when it exists")
	f.StringVar(&address, "url", "", "follow a server on another machine: the address of its operators' listener")
	f.StringVar(&tokenFile, "token-file", "",
		"with --url: read the reader's token from this file, not from the variable SLUICE_TOKEN")
	f.BoolVar(&p.once, "once", false, "end when everything there is now was printed")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var ok bool
		if p.Purpose, ok = purposes.Parse(purpose); !ok {
			return errors.New("--purpose is optimization or measurement")
		}
		if err := checkTypes(p.Types...); err != nil {
			return err
		}
		if p.file != "" {
			switch kept, err := os.ReadFile(p.file); {
			case errors.Is(err, fs.ErrNotExist):
			case err != nil:
				return failed(err)
			default:
				if cursor, err = p.begin(cursor, strings.TrimSpace(string(kept))); err != nil {
					return err
				}
			}
		}
		if address == "" {
			return failed(withStream(cmd, func(e *engine.Engine, s *stream.Stream) error {
				return printFeed(cmd, e, s, purpose, cursor, p)
			}))
		}
		r, err := openRemote(address, tokenFile)
		if err != nil {
			return err
		}
		return failed(p.follow(cmd, r, purpose, cursor))
	}
	return cmd
}

// printing is how rows are printed.
type printing struct {
	feed.Query
	file string
	once bool
}

// begin returns where to begin when the file keeps a cursor: there. A command that is run again and again may say
// earliest each time, for its first run.
func (p *printing) begin(cursor, kept string) (string, error) {
	switch {
	case kept == "":
		return "", fmt.Errorf("--cursor-file: %s is empty: write a cursor or earliest into it, or remove it to begin where "+
			"--cursor says", p.file)
	case cursor != "" && cursor != feed.Earliest && cursor != kept:
		return "", fmt.Errorf("%s keeps another cursor than --cursor: leave --cursor out to begin there, or remove the file",
			p.file)
	}
	return kept, nil
}

// printFeed prints rows of the stream and the tables of an engine.
func printFeed(cmd *cobra.Command, e *engine.Engine, s *stream.Stream, purpose, cursor string, p printing) error {
	ctx := cmd.Context()
	place, err := commandTables(cmd, e)
	if err != nil {
		return err
	}
	l, err := lakeToRead(ctx, place, "")
	if err != nil {
		return err
	}
	secret, ids, err := service.OpenSecret(ctx, e)
	if err != nil {
		return err
	}
	erasures, err := erasure.Open(ctx, e)
	if err != nil {
		return err
	}
	f := feed.New(feed.Options{
		Stream: s, Tables: l, Erasures: erasures, Secret: secret, IDs: ids, Log: slog.New(slog.DiscardHandler),
	})
	c, err := f.Cursor(ctx, cursor)
	if err != nil {
		return p.explainCursor(err)
	}
	if err := noteIn(cmd, e, "feed", p.Dataset, map[string]string{"purpose": purpose}); err != nil {
		return err
	}
	return p.print(cmd, f, c)
}

// print prints rows until ctx ends, or with once until there are no more.
func (p *printing) print(cmd *cobra.Command, f *feed.Feed, c *feed.Cursor) error {
	ctx, out := cmd.Context(), bufio.NewWriterSize(cmd.OutOrStdout(), 64<<10)
	p.Limit, p.Bytes = feedPage, 16<<20
	for age := time.Duration(0); ; age = feedPause {
		_, caughtUp, err := f.Read(ctx, c, p.Query, age, func(lines []byte, _ int) error {
			_, err := out.Write(lines)
			return err
		})
		if ctx.Err() != nil {
			err = nil // the rows before the interruption stand
		}
		if err := errors.Join(err, out.Flush()); err != nil {
			return p.explainCursor(err)
		}
		if err := p.save(f.Text(c)); err != nil {
			return err
		}
		if ctx.Err() != nil || caughtUp && p.once {
			return nil
		}
		if caughtUp {
			pause(ctx, feedPause)
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// save replaces the cursor in its file, if there is one to write.
func (p *printing) save(cursor string) error {
	if p.file == "" {
		return nil
	}
	return durable.WriteFile(p.file, []byte(cursor+"\n"))
}

// explainCursor says what to do about a cursor that cannot be used. A cursor in the file goes before --cursor.
func (p *printing) explainCursor(err error) error {
	use := func(cursor string) string {
		if p.file != "" {
			return "write the cursor " + cursor + " into " + p.file
		}
		return "go on with --cursor " + cursor
	}
	if expired, ok := errors.AsType[*feed.Expired](err); ok {
		if expired.Snapshot == 0 {
			return fmt.Errorf("%w; to begin again, %s", err, use(feed.Earliest))
		}
		return fmt.Errorf("%w; read the table events at snapshot %d, then %s", err, expired.Snapshot, use(expired.Cursor))
	}
	if errors.Is(err, feed.ErrCursor) {
		return fmt.Errorf("%w; give the cursor as it was printed, or earliest", err)
	}
	return err
}

// openRemote reads the token, which is never an argument: other users of the machine see those.
func openRemote(address, tokenFile string) (*feed.Remote, error) {
	token := os.Getenv("SLUICE_TOKEN")
	if tokenFile != "" {
		b, err := os.ReadFile(tokenFile)
		if err != nil {
			return nil, fmt.Errorf("--token-file: %w", err)
		}
		token = strings.TrimSpace(string(b))
	}
	r, err := feed.NewRemote(address, token)
	if err != nil {
		return nil, fmt.Errorf("--url: %w", err)
	}
	if token == "" {
		return nil, errors.New("--url needs the token of a reader, in the variable SLUICE_TOKEN or in --token-file; " +
			"make one on the server with: sluice reader create NAME --allow feed")
	}
	return r, nil
}

// Between two tries after a fault, doubled from the least to the most. Both are arbitrary.
const (
	remoteLeast = time.Second
	remoteMost  = 30 * time.Second
)

// follow prints rows of a remote feed until ctx ends, or with once until there are no more. The rows of an answer are
// printed when all of it has come, with its cursor: an answer that breaks off is asked for again, and nothing is
// printed twice.
func (p *printing) follow(cmd *cobra.Command, r *feed.Remote, purpose, cursor string) error {
	ctx, wait := cmd.Context(), remoteLeast
	for {
		rows, err := r.Ask(ctx, p.query(purpose, cursor))
		if ctx.Err() != nil {
			return nil // the rows before the interruption stand
		}
		if fault, ok := errors.AsType[*feed.Fault](err); ok {
			fmt.Fprintf(cmd.ErrOrStderr(), "%v; trying again\n", err)
			pause(ctx, max(wait, fault.After))
			wait = min(2*wait, remoteMost)
			continue
		}
		if err != nil {
			return p.explainCursor(err)
		}
		wait, cursor = remoteLeast, rows.Cursor
		if _, err := cmd.OutOrStdout().Write(rows.Lines); err != nil {
			return err
		}
		if err := p.save(cursor); err != nil {
			return err
		}
		if rows.CaughtUp && p.once {
			return nil
		}
	}
}

// query is what a server is asked for.
func (p *printing) query(purpose, cursor string) url.Values {
	q := url.Values{"purpose": {purpose}, "limit": {strconv.Itoa(10 * feedPage)}, "type": p.Types, "campaign": p.Campaigns}
	for name, value := range map[string]string{"dataset": p.Dataset, "cursor": cursor} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if !p.once {
		q.Set("wait", feed.RemoteWait.String())
	}
	return q
}
