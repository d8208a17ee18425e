package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"sluice/internal/lake"
	"sluice/internal/objectstore"
	"sluice/internal/traffic"
)

// Harness measures a server: one of its own, which it starts, or one that runs already.
type Harness struct {
	Program   string // the file of the program sluice, to start servers with
	Load      Step
	Mix       traffic.Mix
	Seed      uint64
	Datasets  int
	Reference bool // measure the reference, too, by turns
	Rounds    int
	Address   string // of a server that runs already; empty: start one
	Given     []Dataset
	Process   int      // of that server; 0: it cannot be measured from inside
	Data      string   // where to keep what is stored; empty: nowhere
	Bucket    *Bucket  // of the tables of an own server; nil: a directory
	Serve     []string // more arguments of an own server
	Profiles  string   // directory for the profiles of the servers; empty: none
	Words     io.Writer
	Now       func() time.Time
}

// Step is one load, measured from a server's beginning to its end.
type Step struct {
	Name    string
	Batch   int
	Senders int
	Rate    float64
	Length  time.Duration
	Events  int64
	Loading bool

	half  bool // offer half of what the step before reached
	alone bool // without the reference
}

// Suite is the loads whose figures docs/performance.md gives.
func (h *Harness) Suite() []Step {
	length, events := h.Load.Length, h.Load.Events
	if events == 0 {
		events = 1_000_000
	}
	h.Reference = true
	return []Step{
		{Name: "accept batches", Batch: 500, Senders: 16, Length: length},
		{Name: "accept singles", Batch: 1, Senders: 64, Length: length},
		{Name: "singles at half", Batch: 1, Senders: 64, Length: length, half: true, Loading: true, alone: true},
		{Name: "accept and load", Batch: 500, Senders: 16, Length: time.Hour, Events: events, Loading: true, alone: true},
	}
}

// Run takes the steps one after the other, and adds their figures to the report.
func (h *Harness) Run(ctx context.Context, plan []Step, report *Report) error {
	for i, s := range plan {
		if s.Name == "" {
			s.Name = "load"
		}
		if s.half && i > 0 {
			for _, f := range report.Figures {
				if f.Name == plan[i-1].Name && f.Server == "sluice" {
					s.Rate = f.EventsPerSecond / 2
				}
			}
		}
		fmt.Fprintf(h.Words, "%s …\n", s.Name)
		figures, err := h.measure(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		report.Figures = append(report.Figures, figures...)
	}
	return nil
}

// measure runs one step against the subject and the reference, one round after the other.
func (h *Harness) measure(ctx context.Context, s Step) (figures []Figures, err error) {
	dir, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var targets []*target
	defer func() {
		for _, t := range targets {
			err = errors.Join(err, t.stop())
			if t.tables != nil {
				err = errors.Join(err, empty(t.tables))
			}
		}
	}()
	subject, err := h.openSubject(ctx, s, dir)
	if err != nil {
		return nil, err
	}
	targets = append(targets, subject)
	rounds := 1
	if h.Reference && !s.alone {
		ref, err := h.openReference(ctx, s, dir, subject.datasets)
		if err != nil {
			return nil, err
		}
		targets, rounds = append(targets, ref), h.Rounds
	}
	bodies, err := NewBodies(h.Mix, s.Batch, s.Senders, subject.datasets, h.Seed, h.Now().Unix())
	if err != nil {
		return nil, err
	}
	if err := h.alternate(ctx, s, bodies, targets, rounds); err != nil {
		return nil, err
	}
	for _, t := range targets {
		figures = append(figures, t.figures(s, bodies))
	}
	if subject.child != nil && s.Loading {
		if err := subject.stop(); err != nil {
			return nil, err
		}
		figures[0].StoredEvents, figures[0].StoredBytes, err = h.atRest(ctx, subject)
	}
	return figures, err
}

// alternate sends to one target after the other, so that a machine busy with something else is so to all of them.
func (h *Harness) alternate(ctx context.Context, s Step, bodies *Bodies, targets []*target, rounds int) error {
	for _, t := range targets { // connections, buffers and the heap find their size first
		warm := Load{Dial: t.dial, Host: t.url.Host, Bodies: bodies, For: time.Second, Now: h.Now}
		if _, err := warm.Run(ctx); err != nil {
			return err
		}
		if err := t.begin(ctx, s.Loading, h.Profiles != ""); err != nil {
			return err
		}
	}
	for range rounds {
		for _, t := range targets {
			load := Load{
				Dial: t.dial, Host: t.url.Host, Bodies: bodies, Rate: s.Rate, For: s.Length / time.Duration(rounds),
				Events: s.Events / int64(rounds), Now: h.Now,
			}
			if err := t.send(ctx, load, s.Loading); err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
		}
	}
	return nil
}

// atRest merges what is in the table as maintenance does once a day is over, and says how many events there are and
// how many bytes on disk each takes.
func (h *Harness) atRest(ctx context.Context, t *target) (events int64, bytes float64, err error) {
	tomorrow := func() time.Time { return h.Now().Add(30 * time.Hour) }
	store := t.tables
	if store == nil {
		if store, err = objectstore.OpenDir(filepath.Join(t.data, "lake")); err != nil {
			return 0, 0, err
		}
	}
	l, err := lake.Open(ctx, lake.Options{Store: store, Now: tomorrow})
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
