package measure

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
	"sluice/internal/traffictest"
)

// Harness measures a server: one of its own, which it starts, or one that runs already.
type Harness struct {
	Program  string // the file of the program sluice, to start servers with
	Self     string // the file of this program, to start the reference with
	Load     Step
	Mix      traffictest.Mix
	Seed     uint64
	Datasets int
	Rounds   int    // of a step with a rival
	Address  string // of a server that runs already; empty: start one
	Given    []Dataset
	Process  int      // of that server; 0: it cannot be measured from inside
	Data     string   // where to keep what is stored; empty: nowhere
	Serve    []string // more arguments of an own server
	Profiles string   // directory for the profiles of the servers; empty: none
	Words    io.Writer
	Now      func() time.Time
}

// Step is one load, measured from a server's beginning to its end. Rivals meet the same load in turns with the server.
type Step struct {
	Name     string
	Batch    int
	Senders  int
	Rate     float64
	Length   time.Duration
	Events   int64
	Loading  bool
	Keyed    bool // each request has an idempotency key of its own
	Datasets int  // 0: as many as the harness says
	Rival    Rival

	half  string // offer half of what the server reached in the step of this name
	drain bool   // load only after everything was accepted, in a process of its own
}

// Rival is whom a step compares the server with.
type Rival string

// The rivals.
const (
	Nobody    Rival = ""
	Least     Rival = "reference" // a server that does the least possible
	Keyed     Rival = "keyed"     // the same server, where each request has an idempotency key
	Invalid   Rival = "invalid"   // the same server, and no event that is valid
	Forbidden Rival = "forbidden" // the same server, and a key that it does not know
	Resting   Rival = "resting"   // another server, which does not load
)

// Run takes the steps one after the other, and adds their figures to the report.
func (h *Harness) Run(ctx context.Context, plan []Step, report *Report) error {
	for _, s := range plan {
		if s.Name == "" {
			s.Name = "load"
		}
		if s.half != "" {
			s.Rate = report.subject(s.half).EventsPerSecond / 2
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

// measure runs one step against the server and its rival, one round after the other.
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
		}
	}()
	subject, err := h.openSubject(ctx, s, dir)
	if err != nil {
		return nil, err
	}
	targets = append(targets, subject)
	if subject.bodies, err = NewBodies(h.Mix, s.Batch, s.Senders, subject.datasets, h.Seed, h.Now().Unix()); err != nil {
		return nil, err
	}
	subject.keyed = s.Keyed
	rounds := 1
	if s.Rival != Nobody {
		rival, err := h.openRival(ctx, s, dir, subject)
		if err != nil {
			return nil, err
		}
		targets, rounds = append(targets, rival), h.Rounds
	}
	if err := h.alternate(ctx, s, targets, rounds); err != nil {
		return nil, err
	}
	if s.drain {
		if err := h.drain(ctx, s, subject); err != nil {
			return nil, err
		}
	}
	for _, t := range targets {
		figures = append(figures, t.figures(s))
	}
	if subject.child != nil && subject.loading {
		if err := subject.stop(); err != nil {
			return nil, err
		}
		figures[0].StoredEvents, figures[0].StoredBytes, err = h.atRest(ctx, subject)
	}
	return figures, err
}

// alternate sends to one target after the other, so that a machine busy with something else is so to all of them. The
// servers that wait are stopped: one that compacts its tables meanwhile would be what the other one is measured by.
func (h *Harness) alternate(ctx context.Context, s Step, targets []*target, rounds int) error {
	for _, t := range targets { // connections, buffers and the heap find their size first
		warm := Load{Dial: t.dial, Host: t.url.Host, Bodies: t.bodies, Keyed: t.keyed, Want: t.want, For: time.Second, Now: h.Now}
		if _, err := warm.Run(ctx); err != nil {
			return err
		}
		if err := t.begin(ctx, h.Profiles != ""); err != nil {
			return err
		}
	}
	for range rounds {
		for _, t := range targets {
			load := Load{
				Dial: t.dial, Host: t.url.Host, Bodies: t.bodies, Keyed: t.keyed, Want: t.want, Rate: s.Rate,
				For: s.Length / time.Duration(rounds), Events: s.Events / int64(rounds), Now: h.Now,
			}
			resume, err := t.alone(targets)
			if err == nil && s.Rate > 0 && rounds > 1 { // a server that was stopped catches up with its timers first
				warm := load
				warm.For = min(time.Second, load.For)
				_, err = warm.Run(ctx)
			}
			if err == nil {
				err = errors.Join(t.send(ctx, load), resume())
			}
			if err != nil {
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
	store, err := objectstore.OpenDir(filepath.Join(t.data, "lake"))
	if err != nil {
		return 0, 0, err
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
