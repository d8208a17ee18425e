package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"sluice/internal/bench"
	"sluice/internal/lake"
	"sluice/internal/traffic"
)

// benchmark is what the bench command was asked for.
type benchmark struct {
	load      step
	mix       traffic.Mix
	seed      uint64
	datasets  int
	reference bool
	rounds    int
	address   string // of a server that runs already
	given     []bench.Dataset
	process   int
	data      string // where to keep what is stored; empty: nowhere
	profiles  string
	words     io.Writer
}

// step is one load, measured from a server's beginning to its end.
type step struct {
	name    string
	batch   int
	senders int
	rate    float64
	half    bool // offer half of what the step before reached
	length  time.Duration
	events  int64
	loading bool
	alone   bool // without the reference
}

// suite is the loads whose figures docs/performance.md gives.
func (b *benchmark) suite() []step {
	length, events := b.load.length, b.load.events
	if events == 0 {
		events = 1_000_000
	}
	b.reference = true
	return []step{
		{name: "accept batches", batch: 500, senders: 16, length: length},
		{name: "accept singles", batch: 1, senders: 64, length: length},
		{name: "singles at half", batch: 1, senders: 64, length: length, half: true, loading: true, alone: true},
		{name: "accept and load", batch: 500, senders: 16, length: time.Hour, events: events, loading: true, alone: true},
	}
}

// run takes the steps one after the other.
func (b *benchmark) run(ctx context.Context, plan []step, report *bench.Report) error {
	for i, s := range plan {
		if s.name == "" {
			s.name = "load"
		}
		if s.half && i > 0 {
			for _, f := range report.Figures {
				if f.Name == plan[i-1].name && f.Server == "sluice" {
					s.rate = f.EventsPerSecond / 2
				}
			}
		}
		fmt.Fprintf(b.words, "%s …\n", s.name)
		figures, err := b.measure(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		report.Figures = append(report.Figures, figures...)
	}
	return nil
}

// measure runs one step against the subject and, in turns, the reference.
func (b *benchmark) measure(ctx context.Context, s step) (figures []bench.Figures, err error) {
	dir, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var targets []*target
	defer func() {
		for _, t := range targets {
			err = errors.Join(err, t.stop())
		}
	}()
	subject, err := b.openSubject(ctx, s, dir)
	if err != nil {
		return nil, err
	}
	targets = append(targets, subject)
	rounds := 1
	if b.reference && !s.alone {
		ref, err := b.openReference(ctx, s, dir, subject.datasets)
		if err != nil {
			return nil, err
		}
		targets, rounds = append(targets, ref), b.rounds
	}
	stock, err := bench.NewStock(b.mix, s.batch, s.senders, subject.datasets, b.seed, time.Now().Unix())
	if err != nil {
		return nil, err
	}
	if err := b.takeTurns(ctx, s, stock, targets, rounds); err != nil {
		return nil, err
	}
	for _, t := range targets {
		figures = append(figures, t.figures(s, stock))
	}
	if subject.child != nil && s.loading {
		if err := subject.stop(); err != nil {
			return nil, err
		}
		figures[0].StoredEvents, figures[0].StoredBytes, err = atRest(ctx, subject.data)
	}
	return figures, err
}

// takeTurns sends to one target after the other, so that a machine busy with something else is so to all of them.
func (b *benchmark) takeTurns(ctx context.Context, s step, stock *bench.Stock, targets []*target, rounds int) error {
	for _, t := range targets { // connections, buffers and the heap find their size first
		warm := bench.Load{Dial: t.dial, Host: t.url.Host, Stock: stock, For: time.Second, Now: time.Now}
		if _, err := warm.Run(ctx); err != nil {
			return err
		}
		if err := t.begin(ctx, s.loading, b.profiles != ""); err != nil {
			return err
		}
	}
	for range rounds {
		for _, t := range targets {
			load := bench.Load{
				Dial: t.dial, Host: t.url.Host, Stock: stock, Rate: s.rate, For: s.length / time.Duration(rounds),
				Events: s.events / int64(rounds), Now: time.Now,
			}
			if err := t.send(ctx, load, s.loading); err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
		}
	}
	return nil
}

// atRest merges what lies in the table as upkeep does once a day is over, and says how many events there are and
// how many bytes on disk each takes.
func atRest(ctx context.Context, data string) (events int64, bytes float64, err error) {
	tomorrow := func() time.Time { return time.Now().Add(30 * time.Hour) }
	l, err := lake.OpenDir(ctx, filepath.Join(data, "lake"), lake.Options{Now: tomorrow})
	if err != nil {
		return 0, 0, err
	}
	for again := true; again; {
		if again, err = l.Compact(ctx); err != nil {
			return 0, 0, err
		}
	}
	total := int64(0)
	for _, t := range l.Stats().Tables {
		total += t.Bytes
		if t.Name == "events" {
			events = t.Rows
		}
	}
	return events, float64(total) / float64(max(events, 1)), nil
}
