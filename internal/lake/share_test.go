package lake

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"
)

// Another process may sweep at any time, as an erasure does. What a commit has written and not yet listed must be
// spared, whoever commits: the loader, compaction, retention or expiry.
func TestSweepSparesCommits(t *testing.T) {
	for name, c := range map[string]struct {
		step   string
		commit func(l *Lake) error
	}{
		"append":  {"events.list", nil},
		"compact": {"events.list", func(l *Lake) error { _, err := l.Compact(t.Context()); return err }},
		"retain":  {"events.list", func(l *Lake) error { _, err := l.Retain(t.Context()); return err }},
		"expire":  {"events.expire", func(l *Lake) error { return l.Expire(t.Context()) }},
	} {
		t.Run(name, func(t *testing.T) {
			dir, now := filepath.Join(t.TempDir(), "lake"), noon
			clock := func() time.Time { return now }
			other := openLake(t, Options{Store: at(t, dir), Now: clock})
			armed, came := false, false
			l := openLake(t, Options{Store: at(t, dir), Now: clock, Retention: Keep(24 * time.Hour), Step: func(step string) error {
				if !armed || step != c.step {
					return nil
				}
				came = true
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				defer cancel()
				if _, err := other.Sweep(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("swept beside a commit: %v, want it to wait", err)
				}
				return nil
			}})
			s := newSampler(1, 1, 9)
			for range 16 + 1 {
				commit(t, l, s.rows(3, noon))
			}
			switch name {
			case "retain":
				now = noon.Add(48 * time.Hour)
				commit(t, l, s.rows(3, now))
			case "expire":
				compactAll(t, l)
				commit(t, l, s.rows(3, noon))
				now = noon.Add(48 * time.Hour)
			}
			armed = true
			if c.commit == nil {
				commit(t, l, s.rows(3, noon))
			} else if err := c.commit(l); err != nil {
				t.Error(err)
			}
			armed = false
			if !came {
				t.Fatalf("it never came to %s", c.step)
			}
			fresh := openLake(t, Options{Store: at(t, dir), Now: clock})
			collect(t, fresh, Query{})
			if d := fresh.Stats(); d.Tables[2].Damaged != 0 || len(fresh.DamagedFiles()) != 0 {
				t.Errorf("the table is damaged: %+v", d.Tables[2])
			}
		})
	}
}
