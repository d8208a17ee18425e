package main

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice/client"
	"sluice/cmd/sluice-send/internal/input"
	"sluice/cmd/sluice-send/internal/upload"
)

// uploadFlags are the choices of an upload.
type uploadFlags struct {
	upload.Options
	giveUp   time.Duration
	timeout  time.Duration
	compress string
}

func (p *program) uploadCommand() *cobra.Command {
	f := &uploadFlags{}
	cmd := &cobra.Command{
		Use:   "upload FILE…",
		Short: "Send the events of files, each row once, however often it is interrupted",
		Long: "upload sends the rows of files: NDJSON, JSON arrays, CSV and TSV, plain or packed with gzip or zstd; " +
			`"-" is standard input.

Every row is checked here by the service's own rules first. Rows that are rejected, here or there, go to
FILE.rejected.ndjson with line, code, field and hint, never with their values; the others are sent in batches.

FILE.checkpoint remembers which batches are stored. Run the same command again after an interruption and it
continues where it stopped; a batch that was under way is stored once. A finished file is not sent a second time
unless --again says so, nor is a corrected one: upload the corrected rows as a file of their own. Standard input
cannot be resumed.

Columns of a csv or tsv file fill the fields of the same name. Others are named by --map, plain e-mail and IPv4
addresses by --hash:

  sluice-send upload orders.csv --dataset spring --map when=timestamp --set event_type=purchase ` +
			"--hash email=email_sha256",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return p.upload(cmd.Context(), f, args) },
	}
	registerInput(&f.Input, cmd.Flags())
	flags := cmd.Flags()
	flags.IntVar(&f.BatchRows, "batch", client.FillEvents, "rows in a batch, at most 1000")
	flags.IntVar(&f.Parallel, "parallel", 8, "batches under way at once")
	flags.StringVar(&f.Checkpoint, "checkpoint", "", "checkpoint file (FILE.checkpoint)")
	flags.StringVar(&f.Rejected, "rejected", "", "file for rejected rows (FILE.rejected.ndjson)")
	flags.BoolVar(&f.KeepRows, "rejected-rows", false,
		"also write the rejected rows of a csv or tsv file, as they are, to FILE.rejected.csv; it holds what the file holds")
	flags.BoolVar(&f.Restart, "restart", false, "forget an interrupted upload and begin at the first row")
	flags.BoolVar(&f.Again, "again", false, "send a file that was sent before a second time: its rows are stored twice")
	flags.DurationVar(&f.giveUp, "give-up-after", 10*time.Minute, "how long one batch is tried before the upload stops")
	flags.DurationVar(&f.timeout, "timeout", 30*time.Second, "how long one try of a batch may take")
	flags.StringVar(&f.compress, "compress", "auto",
		"auto, gzip, zstd or none; auto is gzip unless the service is on this machine")
	return cmd
}

// registerInput adds the flags that say how a file is read. upload and check share them.
func registerInput(o *input.Options, flags *pflag.FlagSet) {
	flags.StringVar(&o.Format, "format", "",
		"ndjson, json, csv or tsv; found from the name and the first bytes if not given")
	flags.StringVar(&o.Delimiter, "delimiter", "", `separator of columns: "," for csv, a tab for tsv`)
	flags.StringArrayVar(&o.Map, "map", nil, "COLUMN=FIELD: the column fills this field of the event")
	flags.StringArrayVar(&o.Hash, "hash", nil,
		"COLUMN=email_sha256 or COLUMN=ip: the column is normalised, hashed here and fills the field")
	flags.StringArrayVar(&o.Set, "set", nil, "FIELD=VALUE: the same value in every row of a csv or tsv file")
}

func (f *uploadFlags) check(files []string) error {
	switch {
	case f.BatchRows < 1 || f.BatchRows > client.MaxEvents:
		return errors.New("--batch must be from 1 to 1000")
	case f.Parallel < 1 || f.Parallel > 64:
		return errors.New("--parallel must be from 1 to 64")
	case f.Checkpoint != "" && slices.Contains(files, "-"):
		return errors.New("--checkpoint is for files: standard input cannot be read a second time")
	case f.timeout <= 0 || f.giveUp <= 0:
		return errors.New("--timeout and --give-up-after must be more than 0")
	case len(files) > 1 && (f.Checkpoint != "" || f.Rejected != ""):
		return errors.New("--checkpoint and --rejected are for one file")
	case f.compress != "auto" && f.compress != "gzip" && f.compress != "zstd" && f.compress != "none":
		return errors.New("--compress must be auto, gzip, zstd or none")
	}
	return nil
}

func (p *program) uploadClient(f *uploadFlags) (*client.Client, error) {
	o := client.Options{Retry: client.Retry{Total: f.giveUp, Attempt: f.timeout, Max: 5 * time.Second, Budget: -1}}
	c, err := p.open(o)
	if err != nil || f.compress == "gzip" || f.compress == "auto" && !c.Local() {
		return c, err
	}
	o.Compression = client.Plain
	if f.compress == "zstd" {
		o.Compression = client.Zstd
	}
	return p.open(o)
}

// upload sends files one after the other and sums up.
func (p *program) upload(ctx context.Context, f *uploadFlags, files []string) error {
	if err := f.check(files); err != nil {
		return exit(exitUsage, err)
	}
	c, err := p.uploadClient(f)
	if err != nil {
		return err
	}
	contact, err := c.Probe(ctx)
	if err != nil {
		return failure(ctx, err)
	}
	// The uploader lives on a few megabytes: collecting them at every doubling would cost more time than the memory is
	// worth. Four times as much is still a quarter of the 200 MiB that are promised.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	sum := &summary{begin: p.now()}
	f.Stdin, f.Client, f.URL, f.Clock, f.Now, f.Note = p.stdin, c, p.url, p.clockOf(contact), p.now, p.say
	f.Input.Dataset = p.dataset
	if p.onTerminal() {
		f.Progress = p.stderr
	}
	for _, file := range files {
		report, err := f.File(ctx, file)
		if report != nil {
			sum.add(report)
		}
		if err != nil {
			if len(sum.Files) > 0 {
				sum.print(p)
			}
			return failure(ctx, err)
		}
	}
	sum.print(p)
	return verdict(sum.Rejected)
}
