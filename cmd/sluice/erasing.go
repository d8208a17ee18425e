package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"sluice/event"
	"sluice/internal/erasure"
	"sluice/internal/identifier"
	"sluice/internal/lake"
	"sluice/internal/loader"
	"sluice/internal/suppression"
)

// maxEraseRows is how many rows a file of identifiers may have.
const maxEraseRows = 1_000_000

// erasing is what one command erases, in one pass: an identifier, or those of a file. Of these it keeps digests alone.
type erasing struct {
	cmd     *cobra.Command
	dataset string        // "" is all
	one     identifier.ID // where there is no file
	file    string

	ids    *erasure.List
	added  *suppression.Addition     // what is suppressed, too; nil for nothing
	looked atomic.Int64              // rows
	told   atomic.Int64              // Unix seconds
	rows   map[identifier.Kind]int64 // that carry one, by kind
}

// read reads what is to be erased, and suppressed, before anything is done.
func (j *erasing) read(suppress bool) error {
	j.rows = map[identifier.Kind]int64{}
	if suppress {
		if err := j.beginSuppression(); err != nil {
			return err
		}
	}
	return withTombstones(j.cmd, func(t *erasure.Tombstones, _ time.Duration) error {
		j.ids = t.NewList()
		if j.file == "" {
			return j.put(j.one.Kind, j.one.Value)
		}
		return readIdentifiers(j.cmd, j.file, maxEraseRows, func(k identifier.Kind, id string) error {
			if k == identifier.Partner && j.dataset == "" {
				return identifier.ErrPartner
			}
			return j.put(k, id)
		})
	})
}

func (j *erasing) put(k identifier.Kind, id string) error {
	j.ids.Put(k, id)
	if j.added == nil {
		return nil
	}
	return j.added.Put(k, id)
}

// beginSuppression begins the addition to the suppression list.
func (j *erasing) beginSuppression() error {
	name := filepath.Base(j.file)
	switch j.file {
	case "":
		name = addedName
	case "-":
		name = "erased"
	}
	err := withSuppression(j.cmd, j.dataset, func(ctx context.Context, _ *provision, l *suppression.List) (err error) {
		j.added, err = l.Add(ctx, name, j.dataset)
		return err
	})
	if errors.Is(err, suppression.ErrName) {
		err = fmt.Errorf("%w, and the import takes that of the file: rename it, or use --file -", err)
	}
	return err
}

func (j *erasing) suppress() error {
	if j.added == nil {
		return nil
	}
	return withSuppression(j.cmd, "", func(ctx context.Context, p *provision, l *suppression.List) error {
		lines, err := commitSuppressed(ctx, p, l, j.added, "suppression.import")
		for _, one := range lines {
			fmt.Fprintf(j.cmd.ErrOrStderr(), "%s: %d entries added to %s of the suppression list\n",
				one.Kind, one.Added, one.Name)
		}
		return err
	})
}

// detail is what the audit log says of it: no identifier.
func (j *erasing) detail() map[string]string {
	if j.file == "" {
		return map[string]string{"identifier": j.one.Kind.Name()}
	}
	out := map[string]string{}
	for k, n := range j.ids.Counts {
		out[k.Name()] = strconv.Itoa(n)
	}
	return out
}

// choice chooses the rows that tombstones of these identifiers cover, and tells the progress now and then. A row is
// compared with one identifier before it costs a digest.
func (j *erasing) choice(set *erasure.Set) lake.Choice {
	return lake.Choice{Kinds: set.Kinds(), Match: func(r *event.Row) bool {
		if n := j.looked.Add(1); n%(1<<16) == 0 {
			if now, told := time.Now().Unix(), j.told.Load(); now-told >= progressEvery && j.told.CompareAndSwap(told, now) {
				fmt.Fprintf(j.cmd.ErrOrStderr(), "%d rows looked through …\n", n)
			}
		}
		return (j.file != "" || j.one.In(r)) && set.Erased(r)
	}}
}

// progressEvery is how often progress is told, in seconds. Arbitrary.
const progressEvery = 5

// latest is the last second in which a row was received that carries an identifier, or now. Times of receipt are those
// of the nodes. The clock of this command decides what is erased, unless that of a node is ahead: then what was
// acknowledged before the command has a later time, and the erasure reaches to it. Between an event too many and one
// that stays, the erasure wins.
func (j *erasing) latest(ctx context.Context, t *erasure.Tombstones, l *lake.Lake, now time.Time) (time.Time, error) {
	at := now.UTC().Truncate(time.Second)
	carries := j.choice(t.Set(j.ids.Tombstones(j.dataset, endOfTime, 0)))
	q := lake.Query{From: at.Add(time.Second), Columns: carries.Columns()}
	for row, err := range l.Scan(ctx, q) {
		if err != nil && !errors.Is(err, lake.ErrDamaged) { // that the erasure itself tells
			return at, err
		}
		if err == nil && row.ReceivedAt > at.Unix() && carries.Match(row) {
			at = time.Unix(row.ReceivedAt, 0).UTC()
		}
	}
	return at, nil
}

// endOfTime is after every receipt.
var endOfTime = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// tell counts a row by kind.
func (j *erasing) tell(set *erasure.Set, r *event.Row) {
	for k := range set.Of(r) {
		j.rows[k]++
	}
}

// tally tells of the rows that a pass deletes, and passes them on.
type tally struct {
	*erasure.Writer
	tell func(*event.Row)
}

// Rows tells of rows and passes them on.
func (t *tally) Rows(ctx context.Context, rows []event.Row) error {
	for i := range rows {
		t.tell(&rows[i])
	}
	return t.Writer.Rows(ctx, rows)
}

// kindLine is what an erasure does with the identifiers of one kind.
type kindLine struct {
	Kind        string `json:"kind"`
	Identifiers int    `json:"identifiers"`
	Rows        int64  `json:"rows"` // a row that carries identifiers of two kinds counts for both
}

// lines are what became of each kind of identifier of a file; nil without one.
func (j *erasing) lines() []kindLine {
	if j.file == "" {
		return nil
	}
	out := []kindLine{}
	for _, k := range identifier.Kinds {
		if n := j.ids.Counts[k]; n > 0 {
			out = append(out, kindLine{k.Name(), n, j.rows[k]})
		}
	}
	return out
}

func printLines(cmd *cobra.Command, lines []kindLine, done string) {
	for _, one := range lines {
		fmt.Fprintf(cmd.OutOrStdout(), "%s: %d identifiers, %d rows %s\n", one.Kind, one.Identifiers, one.Rows, done)
	}
}

// leftover is where else an identifier occurs.
type leftover struct {
	Mentions    map[string]int64 `json:"also_in"`     // rows by column
	Quarantined []string         `json:"quarantined"` // files
	Searched    int              `json:"quarantine_searched"`
}

// leftovers looks for the identifier where an erasure does not delete it. Those of a file are not looked for: nil.
func (j *erasing) leftovers(l *lake.Lake) (out *leftover, err error) {
	if j.file != "" {
		return nil, nil
	}
	out = &leftover{}
	if out.Mentions, err = l.Mentions(j.cmd.Context(), j.dataset, j.one); err != nil {
		return nil, err
	}
	quarantine := filepath.Join(flagText(j.cmd, "data"), "quarantine")
	out.Quarantined, out.Searched, err = loader.SearchQuarantine(quarantine, j.one.Value)
	if out.Quarantined == nil {
		out.Quarantined = []string{}
	}
	return out, err
}

func (o *leftover) print(cmd *cobra.Command) {
	if o == nil {
		return
	}
	w := cmd.OutOrStdout()
	for _, name := range slices.Sorted(maps.Keys(o.Mentions)) {
		fmt.Fprintf(w, "%d other rows hold the same text in %s. They are not erased.\n", o.Mentions[name], name)
	}
	for _, name := range o.Quarantined {
		fmt.Fprintf(w, "quarantine/%s holds it. Delete the file when it is no longer needed.\n", name)
	}
	if rest := o.Searched - len(o.Quarantined); rest > 0 {
		fmt.Fprintf(w,
			"%d other files in quarantine/ do not hold it in a readable form. They are damaged, so they may hold "+
				"parts of it.\n", rest)
	}
}
