package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"sluice/client"
	"sluice/event"
)

// uploadFlags are the choices of an upload.
type uploadFlags struct {
	input
	batch      int
	parallel   int
	checkpoint string
	rejected   string
	restart    bool
	again      bool
	giveUp     time.Duration
	timeout    time.Duration
	compress   string
}

func (p *program) uploadCommand() *cobra.Command {
	f := &uploadFlags{}
	cmd := &cobra.Command{
		Use:   "upload FILE…",
		Short: "Send the events of files, each row once, however often it is interrupted",
		Long: `upload sends the rows of files: NDJSON, JSON arrays, CSV and TSV, plain or packed with gzip or zstd; "-" is standard input.

Every row is checked here by the service's own rules first. Rows that are refused, here or there, go to
FILE.rejected.ndjson with line, code, field and hint, never with their values; the others are sent in batches.

FILE.checkpoint remembers which batches are stored. Run the same command again after an interruption and it
goes on where it stopped; a batch that was under way is stored once. A finished file is not sent a second time
unless --again says so.

Columns of a csv or tsv file fill the fields of the same name. Others are named by --map, plain e-mail and IPv4
addresses by --hash:

  sluice-send upload orders.csv --dataset spring --map when=timestamp --set event_type=purchase --hash email=email_sha256`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return p.upload(cmd.Context(), f, args) },
	}
	f.input.register(cmd.Flags())
	flags := cmd.Flags()
	flags.IntVar(&f.batch, "batch", client.FillEvents, "rows in a batch, at most 1000")
	flags.IntVar(&f.parallel, "parallel", 8, "batches under way at once")
	flags.StringVar(&f.checkpoint, "checkpoint", "", "checkpoint file (FILE.checkpoint)")
	flags.StringVar(&f.rejected, "rejected", "", "file for refused rows (FILE.rejected.ndjson)")
	flags.BoolVar(&f.restart, "restart", false, "forget an interrupted upload and begin at the first row")
	flags.BoolVar(&f.again, "again", false, "send a file that was sent before a second time: its rows are stored twice")
	flags.DurationVar(&f.giveUp, "give-up-after", 10*time.Minute, "how long one batch is tried before the upload stops")
	flags.DurationVar(&f.timeout, "timeout", 30*time.Second, "how long one try of a batch may take")
	flags.StringVar(&f.compress, "compress", "auto", "auto, gzip, zstd or none; auto is gzip unless the service is on this machine")
	return cmd
}

func (f *uploadFlags) check(files []string) error {
	switch {
	case f.batch < 1 || f.batch > client.MaxEvents:
		return errors.New("--batch must be from 1 to 1000")
	case f.parallel < 1 || f.parallel > 64:
		return errors.New("--parallel must be from 1 to 64")
	case len(files) > 1 && (f.checkpoint != "" || f.rejected != ""):
		return errors.New("--checkpoint and --rejected are for one file")
	case f.compress != "auto" && f.compress != "gzip" && f.compress != "zstd" && f.compress != "none":
		return errors.New("--compress must be auto, gzip, zstd or none")
	}
	return nil
}

func (p *program) uploadClient(f *uploadFlags) (*client.Client, error) {
	o := client.Options{Retry: client.Retry{Total: f.giveUp, Attempt: f.timeout, Max: 5 * time.Second, Budget: -1}}
	c, err := p.open(o)
	if err != nil {
		return nil, err
	}
	switch {
	case f.compress == "zstd":
		o.Compression = client.Zstd
	case f.compress == "none" || f.compress == "auto" && c.Local():
		o.Compression = client.Plain
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
	clock := contact.Time
	if clock.IsZero() {
		clock = p.now()
	}
	// The uploader lives on a few megabytes: collecting them at every doubling would cost more time than the memory is
	// worth. Four times as much is still a quarter of the 200 MiB that are promised.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	sum := &summary{begin: p.now()}
	for _, file := range files {
		report, err := p.uploadFile(ctx, c, f, file, clock)
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
	if sum.Rejected > 0 {
		return exit(exitRejected, nil)
	}
	return nil
}

// uploadFile sends one file. clock is the service's time.
func (p *program) uploadFile(ctx context.Context, c *client.Client, f *uploadFlags, file string, clock time.Time) (*fileReport, error) {
	in, err := f.input.open(p, file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if in.mapping != nil && len(in.mapping.unused) > 0 {
		p.say("%s: columns that fill no field and are not sent: %q", file, in.mapping.unused)
	}
	j := &job{p: p, f: f, file: file, in: in, client: c, clock: clock}
	if err := j.prepare(); err != nil {
		return nil, err
	}
	defer j.book.Close()
	if j.already() {
		return j.report(true), nil
	}
	progress := p.startProgress(in.source, j.count, j.book.sums())
	err = j.uploader.run(ctx)
	progress.stop()
	if err == nil {
		err = j.book.end(p.now())
	}
	if err == nil {
		return j.report(true), j.unchanged()
	}
	again := "Run the same command again to go on."
	if j.book.checkpoint == nil {
		again = "A stream cannot be resumed: rows sent before stay stored."
	}
	sums := j.book.sums()
	return j.report(false), fmt.Errorf("%s: stopped with %d rows stored and %d rejected: %w\n%s", file, sums.Accepted, sums.Rejected, err, again)
}

// job is the upload of one file, from its checkpoint to its report.
type job struct {
	p        *program
	f        *uploadFlags
	file     string
	in       *opened
	client   *client.Client
	clock    time.Time
	book     *book
	uploader *uploader
	count    *counts
	resumed  int // rows accounted for by earlier runs
}

// unchanged says if the file is not what it was when the upload began: rows may have been missed, and nobody should
// have to find that out later.
func (j *job) unchanged() error {
	if j.book.checkpoint == nil {
		return nil
	}
	if id, err := identify(j.in.file); err != nil || id != j.book.checkpoint.header.Identity {
		return exit(exitUsage, errors.Join(err, fmt.Errorf("%s: the file changed while it was read; only the rows that it had at first are stored", j.file)))
	}
	return nil
}

// already says whether an earlier run finished the file.
func (j *job) already() bool { return j.book.checkpoint != nil && j.book.checkpoint.done }

// prepare finds or makes the checkpoint and wires the uploader.
func (j *job) prepare() error {
	h := header{
		Version: 1, File: filepath.Base(j.file), URL: j.p.url, Dataset: j.p.dataset, Format: j.in.format,
		Mapping: j.in.mapping, BatchRows: j.f.batch, BatchSize: client.FillBytes, StartedAt: j.clock.Unix(),
	}
	if j.in.mapping != nil {
		h.Delimiter = string(j.in.mapping.delimiter)
	}
	if j.f.again {
		h.Salt = client.NewKey()
	}
	j.count = &counts{}
	j.book = &book{path: j.rejectedPath()}
	j.uploader = &uploader{client: j.client, parallel: j.f.parallel, book: j.book, now: j.p.now, count: j.count}
	if err := j.remember(&h); err != nil {
		j.book.Close()
		return err
	}
	if err := j.book.begin(); err != nil {
		j.book.Close()
		return exit(exitUsage, err)
	}
	j.uploader.id, j.uploader.salt = h.Identity, h.Salt
	j.uploader.preparer = func() *preparer { return j.newPreparer(h) }
	return nil
}

func (j *job) rejectedPath() string {
	switch {
	case j.f.rejected != "":
		return j.f.rejected
	case j.in.stream():
		return "stdin.rejected.ndjson"
	}
	return j.file + ".rejected.ndjson"
}

func (j *job) newPreparer(h header) *preparer {
	started := time.Unix(h.StartedAt, 0)
	now := func() time.Time { return started }
	if j.in.stream() {
		skew := j.clock.Sub(j.p.now()) // of a stream that is still being written; there is nothing to resume
		now = func() time.Time { return j.p.now().Add(skew) }
	}
	return &preparer{mapping: j.in.mapping, policy: event.Policy{DatasetID: h.Pinned}, fill: h.Dataset, now: now}
}

// remember settles where the upload begins: after a checkpoint that fits, or at the first row with a new one.
func (j *job) remember(h *header) error {
	if j.in.stream() {
		return j.begin(h, nil)
	}
	var err error
	if h.Identity, err = identify(j.in.file); err != nil {
		return exit(exitUsage, err)
	}
	path := j.f.checkpoint
	if path == "" {
		path = j.file + ".checkpoint"
	}
	create := func() error {
		j.book.checkpoint, err = createCheckpoint(path, *h)
		return err
	}
	old, err := openCheckpoint(path)
	switch {
	case errors.Is(err, errNoCheckpoint):
		return j.begin(h, create)
	case err != nil:
		return exit(exitUsage, err)
	}
	was := old.header
	other := was.Identity != h.Identity || was.URL != h.URL || h.Dataset != "" && h.Dataset != was.Pinned
	if grown, err := was.Identity.grownInto(j.in.file); err != nil || old.done && grown && !j.f.again {
		_ = old.Close()
		return exit(exitUsage, errors.Join(err, fmt.Errorf("%s has grown since it was uploaded. Upload the new rows alone, or with --again all of them a second time", j.file)))
	}
	if old.done && other || j.f.restart || j.f.again {
		_ = old.Close() // it is written anew
		return j.begin(h, create)
	}
	if fits := old.fits(*h, j.clock); fits != nil && !old.done {
		_ = old.Close()
		return exit(exitUsage, fmt.Errorf("%s: %w.\n%d of its rows are stored. Undo the change and run again to go on; --restart begins anew, --checkpoint keeps another memory",
			j.file, fits, old.total.Accepted))
	}
	j.book.checkpoint = old
	*h = old.header
	return j.resume(old)
}

// resume goes on after the batches that are done.
func (j *job) resume(c *checkpoint) error {
	j.resumed = c.total.Rows
	if c.next > 0 {
		if err := j.in.from(c.at); err != nil {
			return exit(exitUsage, err)
		}
	}
	j.uploader.cutter = &cutter{rows: j.in.rows, maxRows: c.header.BatchRows, maxBytes: c.header.BatchSize, number: c.next}
	return nil
}

// begin reads a file through before its first row is sent, so that one which breaks off in the middle is sent not at
// all, learns its dataset from the first rows, and then makes the checkpoint.
func (j *job) begin(h *header, create func() error) error {
	if !j.in.stream() {
		if err := j.readThrough(); err != nil {
			return exit(exitUsage, fmt.Errorf("%s: %w\nNothing was sent", j.file, err))
		}
	}
	j.uploader.cutter = &cutter{rows: j.in.rows, maxRows: h.BatchRows, maxBytes: h.BatchSize}
	first := new(batch)
	if err := j.uploader.cutter.next(first); ended(err) {
		return exit(exitUsage, fmt.Errorf("%s: %w", j.file, &fileError{j.in.rows.position().Line, "there is no row after the header"}))
	} else if err != nil {
		return exit(exitUsage, fmt.Errorf("%s: %w", j.file, err))
	}
	j.uploader.first = first
	h.Pinned = h.Dataset
	if h.Pinned == "" {
		h.Pinned = datasetOf(j.newPreparer(*h), first)
	}
	if create == nil {
		return nil
	}
	return create()
}

// readThrough finds faults of the file's structure, in constant memory and without a look at the rows.
func (j *job) readThrough() error {
	for {
		if _, err := j.in.rows.next(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
	}
	if j.in.packed {
		// A decompressor cannot go back; the file is opened a second time.
		in, err := j.f.input.open(j.p, j.file)
		if err != nil {
			return err
		}
		j.in.Close()
		*j.in = *in
		return nil
	}
	return j.in.from(j.in.data)
}
