package loader

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"sluice/event"
	"sluice/internal/erasure"
	"sluice/internal/lake"
	"sluice/internal/stream"
	"sluice/internal/submission"
)

// ReloadOptions are all required, but for the last two.
type ReloadOptions struct {
	Stream    *stream.Stream
	Lake      *lake.Lake // opened for the stream
	IDs       *submission.IDs
	Erasures  *erasure.Tombstones
	Retention lake.Retention // of the tables
	DryRun    bool           // count, and change nothing

	// GiveUp is asked before files leave the table that are missing or damaged and also held events that the stream no
	// longer holds. Its error ends the reload. nil agrees.
	GiveUp   func([]lake.Lost) error
	Progress func(done, total int) // of files that are read; nil is told nothing
}

// Reloaded counts what Reload found and did.
type Reloaded struct {
	Frames   int64 `json:"frames"`        // in the stream
	Events   int64 `json:"events"`        // in them
	Waiting  int64 `json:"waiting"`       // of them behind the watermarks: the server loads them
	Stored   int64 `json:"stored"`        // of them in the table
	Erased   int64 `json:"erased"`        // of them erased, and not loaded again
	Expired  int64 `json:"expired"`       // of them past their retention, and not loaded again
	Loaded   int64 `json:"loaded"`        // of them loaded again
	Damaged  int64 `json:"damaged"`       // frames and records that cannot be read
	Files    int   `json:"damaged_files"` // of the table, missing or damaged
	Salvaged int64 `json:"salvaged"`      // rows of these files that could be read, and were written anew
}

// windowIDs is how many events are compared with the table at a time: 64 MB of ids.
const windowIDs = 4 << 20

// errErased says that an erasure ended while the reload ran: its rows may be among those of the reload.
var errErased = errors.New("something was erased meanwhile")

// Reload loads again the events that the stream holds and the table of events lacks, each once. Servers may run: they
// load what comes behind the watermarks, and a reload looks only at what is before them.
//
// Order: the files are checked; the ids of the frames, window by window, are compared with those in the table; the
// frames of what is lacking are read again and their rows written to files; one commit lists these files and no longer
// lists the missing and damaged ones. A crash before it leaves files that nothing lists, and after it nothing is
// lacking.
//
// Nothing that was erased is loaded. A reload and a deletion wait for each other; a reload does so before it holds off
// the sweep, which a deletion needs. So what has a tombstone when the reload begins is left out, and what gets one
// meanwhile is deleted afterwards, by a deletion that finds it in the table: wherever the reload ends.
func Reload(ctx context.Context, o ReloadOptions) (out Reloaded, err error) {
	run := func(ctx context.Context) error {
		r := &reload{o: o}
		err := r.run(ctx)
		out = r.out
		return err
	}
	for range 3 { // somebody else may change the tables; arbitrary
		if o.DryRun {
			err = run(ctx)
		} else {
			err = o.Erasures.Pass(ctx, o.Lake.ErasedMark, func(ctx context.Context, _ *erasure.Writer) error { return run(ctx) })
		}
		if !errors.Is(err, lake.ErrFenced) && !errors.Is(err, errErased) {
			return out, err
		}
	}
	return out, err
}

// reload is one attempt.
type reload struct {
	o        ReloadOptions
	table    *lake.Reload
	erased   *erasure.Set
	expired  func(dataset string, received int64) bool
	finished map[stoneSum]bool // when it began
	marks    map[uint8]uint64
	salvaged []event.ID // sorted
	rows     *lake.EventRows
	left     []event.Row // were erased, and are not loaded; without what they say
	out      Reloaded

	decoder submission.Decoder
	read    submission.Submission
	decoded []event.Row
}

func (r *reload) run(ctx context.Context) error {
	something, everything, err := r.held(ctx)
	if err != nil || something.IsZero() {
		return err
	}
	if r.o.Progress == nil {
		r.o.Progress = func(int, int) {}
	}
	stones, err := r.o.Erasures.All(ctx)
	if err != nil {
		return err
	}
	r.erased, r.finished = r.o.Erasures.Set(stones), finished(stones)
	r.expired = r.o.Lake.Expired(r.o.Retention)
	if r.table, err = r.o.Lake.Reload(ctx, something, r.o.Progress); err != nil {
		return err
	}
	defer r.table.Close(context.WithoutCancel(ctx))
	r.marks, r.rows, r.decoder.IDs = r.table.Progress().Watermarks, lake.NewEventRows(), r.o.IDs
	if err := r.giveUp(everything); err != nil {
		return err
	}
	if err := r.table.Salvage(ctx, func(rows []event.Row) error { return r.salvage(ctx, rows) }); err != nil {
		return err
	}
	slices.SortFunc(r.salvaged, compareIDs)
	if err := r.windows(ctx); err != nil || r.o.DryRun {
		return err
	}
	if err := r.flush(ctx, 1); err != nil {
		return err
	}
	if err := r.o.Erasures.LeftOut(ctx, r.left); err != nil {
		return err
	}
	return r.table.Commit(ctx, func() error { return r.alone(ctx) })
}

// stoneSum tells a tombstone, as it is now, from all others.
type stoneSum [sha256.Size]byte

// finished are those tombstones whose rows no table has.
func finished(stones []erasure.Tombstone) map[stoneSum]bool {
	out := map[stoneSum]bool{}
	for i := range stones {
		if !stones[i].Unfinished() {
			b, _ := json.Marshal(&stones[i]) // of text and numbers: it never fails
			out[sha256.Sum256(b)] = true
		}
	}
	return out
}

// alone returns errErased if a deletion has ended since the reload began: in a cluster a lease keeps the two apart, and
// a process that was paused may have lost it.
func (r *reload) alone(ctx context.Context) error {
	stones, err := r.o.Erasures.All(ctx)
	for sum := range finished(stones) {
		if !r.finished[sum] {
			return errErased
		}
	}
	return err
}

// held says since when the stream holds something, and since when everything. Records are received before their frame
// is stored, by less than the minute that both are set back. There may be nothing in it.
func (r *reload) held(ctx context.Context) (something, everything time.Time, err error) {
	bounds, err := r.o.Stream.Bounds(ctx)
	if err != nil {
		return something, everything, err
	}
	for _, b := range bounds {
		if b.Frames == 0 {
			continue
		}
		if something.IsZero() || b.Oldest.Before(something) {
			something = b.Oldest
		}
		if b.Last > b.Frames && b.Oldest.After(everything) { // older frames have left the partition
			everything = b.Oldest
		}
	}
	if something.IsZero() {
		return something, everything, nil
	}
	return something.Add(-time.Minute), everything.Add(-time.Minute), nil
}

// giveUp asks about files with events that the stream may no longer hold: from before it held everything.
func (r *reload) giveUp(everything time.Time) error {
	lost := r.table.Lost()
	r.out.Files = len(lost)
	older := olderThan(lost, everything)
	if len(older) == 0 || r.o.GiveUp == nil || r.o.DryRun {
		return nil
	}
	return r.o.GiveUp(older)
}

// olderThan are the files with rows from before a time.
func olderThan(lost []lake.Lost, at time.Time) []lake.Lost {
	return slices.DeleteFunc(slices.Clone(lost), func(l lake.Lost) bool { return !l.Oldest.Before(at) })
}

// salvage keeps rows of a damaged file.
func (r *reload) salvage(ctx context.Context, rows []event.Row) error {
	for i := range rows {
		r.salvaged = append(r.salvaged, rows[i].EventID)
	}
	r.out.Salvaged += int64(len(rows))
	return r.add(ctx, rows)
}

// add puts rows on their way into files, which flush writes when there are enough.
func (r *reload) add(ctx context.Context, rows []event.Row) error {
	if r.o.DryRun {
		return nil
	}
	r.rows.Add(rows)
	return r.flush(ctx, 64_000) // as many as the loader has in a commit
}

func (r *reload) flush(ctx context.Context, least int) error {
	if r.rows.Len() < least {
		return nil
	}
	err := r.table.Add(ctx, r.rows)
	r.rows.Reset()
	return err
}
