package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"sluice/event"
	"sluice/internal/deletion"
	"sluice/internal/erasure"
	"sluice/internal/identifier"
	"sluice/internal/lake"
	"sluice/internal/suppression"
)

// maxEraseRows is how many rows a file of identifiers may have.
const maxEraseRows = 1_000_000

// eraseList erases the identifiers of a file, in one pass. It keeps digests of them alone.
type eraseList struct {
	dataset, file string
	cmd           *cobra.Command
	suppressing
	ids    *erasure.List
	looked atomic.Int64              // rows
	told   atomic.Int64              // Unix seconds
	rows   map[identifier.Kind]int64 // that carry one, by kind
}

func (j *eraseList) scope() string { return j.dataset }

func (j *eraseList) detail() map[string]string {
	out := map[string]string{}
	for k, n := range j.ids.Counts {
		out[k.Name()] = strconv.Itoa(n)
	}
	return out
}

func (j *eraseList) read(cmd *cobra.Command, suppress bool) error {
	j.cmd, j.rows = cmd, map[identifier.Kind]int64{}
	if suppress {
		name := filepath.Base(j.file)
		if j.file == "-" {
			name = "erased"
		}
		err := j.begin(cmd, name, j.dataset)
		if errors.Is(err, suppression.ErrName) {
			err = fmt.Errorf("%w, and the import takes that of the file: rename it, or use --file -", err)
		}
		if err != nil {
			return err
		}
	}
	return withTombstones(cmd, func(t *erasure.Tombstones, _ time.Duration) error {
		j.ids = t.NewList()
		return readIdentifiers(cmd, j.file, maxEraseRows, func(k identifier.Kind, id string) error {
			if k == identifier.Partner && j.dataset == "" {
				return identifier.ErrPartner
			}
			j.ids.Put(k, id)
			if j.a != nil {
				return j.a.Put(k, id)
			}
			return nil
		})
	})
}

func (j *eraseList) latest(ctx context.Context, t *erasure.Tombstones, l *lake.Lake, now time.Time) (time.Time, error) {
	set := t.Set(j.ids.Tombstones(j.dataset, endOfTime, 0))
	return latest(ctx, l, lake.Query{}, set.Erased, now)
}

// endOfTime is after every receipt.
var endOfTime = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

func (j *eraseList) note(ctx context.Context, t *erasure.Tombstones, at time.Time, retention time.Duration) (
	[]erasure.Tombstone, error,
) {
	return t.AddList(ctx, j.ids, j.dataset, at, retention)
}

// match says whether a row is in a set, and tells the progress now and then.
func (j *eraseList) match(set *erasure.Set) func(*event.Row) bool {
	return func(r *event.Row) bool {
		if n := j.looked.Add(1); n%(1<<16) == 0 {
			if now, told := time.Now().Unix(), j.told.Load(); now-told >= progressEvery && j.told.CompareAndSwap(told, now) {
				fmt.Fprintf(j.cmd.ErrOrStderr(), "%d rows looked through …\n", n)
			}
		}
		return set.Erased(r)
	}
}

// progressEvery is how often progress is told, in seconds. Arbitrary.
const progressEvery = 5

func (j *eraseList) witness(t *erasure.Tombstones, w *erasure.Writer, stones []erasure.Tombstone) deletion.Witness {
	return &tally{w, t.Set(stones), j.rows}
}

func (j *eraseList) remove(ctx context.Context, t *erasure.Tombstones, l *lake.Lake, w deletion.Witness,
	stones []erasure.Tombstone,
) (lake.Erased, error) {
	return l.EraseWhere(ctx, j.match(t.Set(stones)), w)
}

// tally counts rows by kind for who is told of them.
type tally struct {
	*erasure.Writer
	set  *erasure.Set
	rows map[identifier.Kind]int64
}

// Rows counts rows and passes them on.
func (t *tally) Rows(ctx context.Context, rows []event.Row) error {
	for i := range rows {
		for k := range t.set.Of(&rows[i]) {
			t.rows[k]++
		}
	}
	return t.Writer.Rows(ctx, rows)
}

func (j *eraseList) count(ctx context.Context, t *erasure.Tombstones, l *lake.Lake, at time.Time) (int64, error) {
	set := t.Set(j.ids.Tombstones(j.dataset, at, 0))
	return l.CountWhere(ctx, j.match(set), func(r *event.Row) {
		for k := range set.Of(r) {
			j.rows[k]++
		}
	})
}

// leftovers are not looked for.
func (j *eraseList) leftovers(*cobra.Command, *lake.Lake) (*leftover, error) { return nil, nil }

// kindLine is what an erasure does with the identifiers of one kind.
type kindLine struct {
	Kind        string `json:"kind"`
	Identifiers int    `json:"identifiers"`
	Rows        int64  `json:"rows"` // a row that carries identifiers of two kinds counts for both
}

func (j *eraseList) lines() []kindLine {
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
