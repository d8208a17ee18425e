// Package upload sends the rows of a file, each once, however often the upload is interrupted.
//
// A checkpoint beside the file records which batches are stored. A batch that was under way in a crash is sent again
// with the same Idempotency-Key, so the service stores it once.
package upload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"sluice/client"
	"sluice/cmd/sluice-send/internal/input"
	"sluice/event"
)

// Options are the choices of an upload and what it needs from outside.
type Options struct {
	Input  input.Options
	Stdin  io.Reader // read for the file "-"
	Client *client.Client
	URL    string           // of the service, for the checkpoint
	Clock  time.Time        // the service's time
	Now    func() time.Time // this machine's

	BatchRows  int    // rows in a batch
	Parallel   int    // batches under way at once
	Checkpoint string // "": beside the file
	Rejected   string // report of rejected rows; "": beside the file
	KeepRows   bool   // write the rejected rows of a delimited file, as they are, beside the report
	Restart    bool   // forget an interrupted upload
	Again      bool   // upload a finished file a second time

	Note     func(format string, args ...any) // words to the user
	Progress io.Writer                        // a terminal, or nil
}

// UsageError is a fault that the user can correct: of the file, or of the choices.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap is the fault itself.
func (e *UsageError) Unwrap() error { return e.Err }

func usage(err error) error {
	if err == nil {
		return nil
	}
	return &UsageError{err}
}

// Report is what became of one file.
type Report struct {
	File         string             `json:"file"`
	Rows         int                `json:"rows"` // accounted for
	Accepted     int                `json:"accepted"`
	Rejected     int                `json:"rejected"`
	Resumed      int                `json:"resumed,omitempty"`  // rows that earlier runs accounted for
	Replayed     int                `json:"replayed,omitempty"` // rows that the service knew already
	Warnings     map[event.Code]int `json:"warnings,omitempty"`
	Codes        map[event.Code]int `json:"rejected_by_code,omitempty"`
	Submissions  []string           `json:"submissions,omitempty"` // ids of everything that is stored
	RejectedFile string             `json:"rejected_file,omitempty"`
	RejectedRows string             `json:"rejected_rows,omitempty"`
	Finished     bool               `json:"finished"`
}

func (j *job) report(finished bool) *Report {
	t := j.journal.total
	r := &Report{
		File: j.file, Rows: t.Rows, Accepted: t.Accepted, Rejected: t.Rejected, Resumed: j.resumed,
		Replayed: t.Replayed, Warnings: t.Warnings, Codes: t.Codes, Submissions: t.Submissions, Finished: finished,
	}
	if t.Rejected > 0 {
		r.RejectedFile, r.RejectedRows = j.journal.report.path, j.journal.rows.path
	}
	return r
}

// File uploads one file. The report is nil if nothing was begun. A *UsageError is a fault of the file or of the
// choices; any other error came from the service, the context or the disk.
func (o *Options) File(ctx context.Context, file string) (*Report, error) {
	in, err := o.Input.Open(file, o.Stdin)
	if err != nil {
		return nil, usage(err)
	}
	defer in.Close()
	if in.Mapping != nil && len(in.Mapping.Unused) > 0 {
		o.Note("%s: columns that fill no field and are not sent: %q", file, in.Mapping.Unused)
	}
	j := &job{o: o, file: file, in: in}
	if err := j.prepare(); err != nil {
		return nil, err
	}
	defer j.journal.Close()
	if j.journal.done { // by an earlier run
		return j.report(true), nil
	}
	stopProgress := startProgress(o, in.Source, &j.count, j.journal.total)
	err = j.run(ctx)
	stopProgress()
	if err == nil {
		err = j.journal.end(o.Now())
	}
	if err == nil {
		return j.report(true), j.unchanged()
	}
	r := j.report(false)
	return r, &Stopped{r, !in.Stream(), err}
}

// Stopped is an upload that ended before the last row.
type Stopped struct {
	*Report
	Resumable bool
	Err       error
}

// Error says how far the upload came, why it stopped and how to continue.
func (s *Stopped) Error() string {
	why, again := s.Err.Error(), "Run the same command again to continue."
	e, answered := errors.AsType[*client.Error](s.Err)
	switch {
	case errors.Is(s.Err, context.Canceled):
		why = "interrupted"
	case answered && e.Status == http.StatusRequestEntityTooLarge:
		again = "Let what is between here and the service take requests of 5 MB. Then run the same command again to continue."
	case answered && e.Status < 500:
		again = "Correct the cause, then run the same command again to continue."
	}
	if !s.Resumable {
		again = "A stream cannot be resumed: rows sent before stay stored."
	}
	return fmt.Sprintf("%s: stopped with %d rows confirmed as stored and %d rejected: %s\n%s", s.File, s.Accepted,
		s.Rejected, why, again)
}

// Unwrap is why it stopped.
func (s *Stopped) Unwrap() error { return s.Err }

// job is the upload of one file, from its checkpoint to its report.
type job struct {
	o       *Options
	file    string
	in      *input.File
	header  header // of the checkpoint
	journal *journal
	cutter  *input.Cutter
	before  sketch       // of the finished upload of a file with this name
	first   *input.Batch // read already, to learn the dataset; nil: none
	count   counts
	resumed int // rows accounted for by earlier runs
}

// unchanged says if the file is not what it was when the upload began: rows may have been missed, and nobody should
// have to find that out later.
func (j *job) unchanged() error {
	if j.in.Stream() {
		return nil
	}
	if id, err := identify(j.in.OS); err != nil || id != j.header.Identity {
		return usage(errors.Join(err,
			fmt.Errorf("%s: the file changed while it was read; only the rows that it had at first are stored", j.file)))
	}
	return nil
}

// prepare finds or makes the checkpoint.
func (j *job) prepare() error {
	j.header = header{
		Version: 1, File: filepath.Base(j.file), URL: j.o.URL, Dataset: j.o.Input.Dataset, Format: j.in.Format,
		Mapping: j.in.Mapping, BatchRows: j.o.BatchRows, BatchSize: client.FillBytes, StartedAt: j.o.Clock.Unix(),
		Salt: client.NewKey(),
	}
	if j.in.Mapping != nil {
		j.header.Delimiter = string(j.in.Mapping.Delimiter())
	}
	j.journal = &journal{
		checkpoint: &checkpoint{ahead: map[int64]input.Position{}}, report: appendFile{path: j.rejectedPath()},
	}
	if j.o.KeepRows {
		if j.in.Mapping == nil {
			return usage(fmt.Errorf("%s: only the rejected rows of csv and tsv files can be kept", j.file))
		}
		j.journal.rows = appendFile{path: j.rowsPath(), head: j.in.Header()}
	}
	if err := j.separate(); err != nil {
		return usage(err)
	}
	err := j.remember()
	if err == nil {
		err = usage(j.journal.begin())
	}
	if err != nil {
		j.journal.Close()
	}
	return err
}

// separate says if two of the files are one: what is written would destroy what is read.
func (j *job) separate() error {
	names := []string{j.rejectedPath()}
	if j.o.KeepRows {
		names = append(names, j.rowsPath())
	}
	if !j.in.Stream() {
		names = append(names, j.file, j.checkpointPath())
	}
	for i, name := range names {
		for _, other := range names[:i] {
			a, errA := os.Stat(name)
			b, errB := os.Stat(other)
			if filepath.Clean(name) == filepath.Clean(other) || errA == nil && errB == nil && os.SameFile(a, b) {
				return fmt.Errorf("%s and %s are one file: the rows, the rejected rows and the checkpoint need one each",
					name, other)
			}
		}
	}
	return nil
}

func (j *job) checkpointPath() string { return cmp.Or(j.o.Checkpoint, j.file+".checkpoint") }

func (j *job) rejectedPath() string { return cmp.Or(j.o.Rejected, j.name()+".rejected.ndjson") }

// rowsPath is the file of rejected rows, in the format of the file itself.
func (j *job) rowsPath() string { return j.name() + ".rejected." + j.in.Format }

func (j *job) name() string {
	if j.in.Stream() {
		return "stdin"
	}
	return j.file
}

func (j *job) newPreparer() *Preparer {
	started := time.Unix(j.header.StartedAt, 0)
	now := func() time.Time { return started }
	if j.in.Stream() {
		skew := j.o.Clock.Sub(j.o.Now()) // of a stream that is still being written; there is nothing to resume
		now = func() time.Time { return j.o.Now().Add(skew) }
	}
	return &Preparer{
		Mapping: j.in.Mapping, Policy: event.Policy{DatasetID: j.header.Pinned}, Fill: j.header.Dataset, Now: now,
	}
}

// remember settles where the upload begins: after a checkpoint that fits, or at the first row with a new one.
func (j *job) remember() (err error) {
	if j.in.Stream() {
		return j.begin()
	}
	h := &j.header
	if h.Identity, err = identify(j.in.OS); err != nil {
		return usage(err)
	}
	old, err := openCheckpoint(j.checkpointPath())
	switch {
	case errors.Is(err, os.ErrNotExist):
		return j.begin()
	case err != nil:
		return usage(err)
	}
	was := old.header
	if old.done && was.Identity.same(h.Identity) {
		h.Identity = was.Identity // it was only written again
	}
	other := was.Identity != h.Identity || was.URL != h.URL || h.Dataset != "" && h.Dataset != was.Pinned
	if grown, err := was.Identity.grownInto(j.in.OS); err != nil || old.done && grown && !j.o.Again {
		old.Close()
		return usage(errors.Join(err,
			fmt.Errorf("%s has grown since it was uploaded. Upload the new rows alone, or with --again all of them a "+
				"second time", j.file)))
	}
	if old.done && other || j.o.Restart && !old.done || j.o.Again {
		old.Close() // it is written anew
		if !j.o.Again {
			h.Salt = was.Salt // batches that are stored have the keys of before
			if old.done && old.total.Accepted > 0 && was.URL == h.URL && (h.Dataset == "" || h.Dataset == was.Pinned) {
				j.before = was.Rows
			}
		}
		return j.begin()
	}
	if fits := old.fits(*h, j.o.Clock); fits != nil && !old.done {
		old.Close()
		return usage(fmt.Errorf("%s: %w.\n%d of its rows are confirmed as stored, and more may be. --restart begins anew "+
			"and may store these twice; --checkpoint names another checkpoint", j.file, fits, old.total.Accepted))
	}
	// The batches that are done are left out.
	j.journal.checkpoint, j.header, j.resumed = old, old.header, old.total.Rows
	if old.next > 0 {
		if err := j.in.Seek(old.at); err != nil {
			return usage(err)
		}
	}
	j.cutter = &input.Cutter{Rows: j.in.Rows, MaxRows: h.BatchRows, MaxBytes: h.BatchSize, Number: old.next}
	return nil
}

// begin reads a file through before its first row is sent, so that one which breaks off in the middle is sent not at
// all, learns its dataset from the first rows, and then makes the checkpoint.
func (j *job) begin() error {
	if !j.in.Stream() {
		if err := j.readThrough(); err != nil {
			return usage(fmt.Errorf("%s: %w\nNothing was sent", j.file, err))
		}
		if j.header.Rows.shares(j.before) {
			return usage(fmt.Errorf("%s was uploaded before and has changed since: rows that it still has would be stored "+
				"twice. Upload the new or corrected rows as a file of their own (--rejected-rows writes one), or with --again "+
				"all rows a second time", j.file))
		}
	}
	h := &j.header
	j.cutter = &input.Cutter{Rows: j.in.Rows, MaxRows: h.BatchRows, MaxBytes: h.BatchSize}
	j.first = new(input.Batch)
	if err := j.cutter.Next(j.first); input.Ended(err) {
		return usage(fmt.Errorf("%s: %w", j.file, input.Fail(j.in.Rows.Position().Line, "there is no row after the header")))
	} else if err != nil {
		return usage(fmt.Errorf("%s: %w", j.file, err))
	}
	h.Pinned = h.Dataset
	if h.Pinned == "" {
		h.Pinned = j.newPreparer().Dataset(j.first)
	}
	if j.in.Stream() {
		return nil
	}
	c, err := createCheckpoint(j.checkpointPath(), *h)
	if err != nil {
		return usage(err)
	}
	j.journal.checkpoint = c
	return nil
}

// readThrough finds faults of the file's structure and samples its rows, in constant memory.
func (j *job) readThrough() error {
	for {
		row, err := j.in.Rows.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		j.header.Rows.add(j.header.Salt, row.Data)
	}
	if j.in.Packed {
		// A decompressor cannot go back; the file is opened a second time.
		in, err := j.o.Input.Open(j.file, j.o.Stdin)
		if err != nil {
			return err
		}
		j.in.Close()
		*j.in = *in
		return nil
	}
	return j.in.Seek(j.in.Data)
}
