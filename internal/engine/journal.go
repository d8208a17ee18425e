package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// Journal is a log of small entries, numbered from 1 on without gaps, whose oldest are dropped: when it is full, or
// after as long as frames are kept. No client can change or delete an entry. Its methods may be called by many
// goroutines.
type Journal struct{ p *Partition }

// Journal opens a journal, and makes it where there is none. The partitions must be there, if there are to be any:
// their age is that of a journal without a bound of its own.
func (e *Engine) Journal(ctx context.Context, k JournalKind) (*Journal, error) {
	name := journals[k].name
	err := insist(ctx, func(ctx context.Context) error {
		want, err := e.journalConfig(ctx, k)
		if err != nil {
			return err
		}
		cur, err := e.js.Stream(ctx, name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			if cur, err = e.js.CreateStream(ctx, want); errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
				return nil // another node made it
			}
		}
		if err == nil {
			err = e.correctJournal(ctx, &cur.CachedInfo().Config, want)
		}
		return translate(err)
	})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	return &Journal{&Partition{e: e, rc: e.nc, name: name, subject: journalSubject(k)}}, nil
}

func journalSubject(k JournalKind) string { return journals[k].name + ".entry" }

// correctJournal gives a journal more copies if it has too few, and its settings back if somebody changed them.
func (e *Engine) correctJournal(ctx context.Context, cur *jetstream.StreamConfig, want jetstream.StreamConfig) error {
	if err := checkVersion(cur.Metadata); err != nil {
		return err
	}
	want.Replicas = max(want.Replicas, cur.Replicas)
	maps.Copy(want.Metadata, cur.Metadata)
	strange := journalDrift(cur, &want)
	if len(strange) == 0 && cur.Replicas == want.Replicas && cur.MaxAge == want.MaxAge {
		return nil
	}
	if len(strange) > 0 {
		e.log.Warn("somebody changed the settings of a log in the engine; they are put right, and entries may be gone: run "+
			"sluice audit verify",
			"stream", want.Name, "settings", strings.Join(strange, ", "))
	}
	_, err := e.js.UpdateStream(ctx, want)
	return err
}

// journalDrift names the settings of a journal that are not as Sluice makes them. The age of one without a bound of its
// own follows the stream.
func journalDrift(cur, want *jetstream.StreamConfig) []string {
	names := drift(cur, want)
	if cur.MaxAge > 0 && want.MaxAge == 0 {
		names = append(names, "age")
	}
	if cur.MaxBytes > 0 {
		names = append(names, "bytes")
	}
	return names
}

// journalConfig is how a journal must be.
func (e *Engine) journalConfig(ctx context.Context, k JournalKind) (jetstream.StreamConfig, error) {
	j := journals[k]
	cfg := jetstream.StreamConfig{
		Name: j.name, Description: j.description, Subjects: []string{journalSubject(k)},
		Retention: jetstream.LimitsPolicy, Storage: jetstream.FileStorage, Discard: jetstream.DiscardOld,
		MaxMsgs: j.entries, Replicas: max(1, e.Copies()), AllowDirect: true, DenyDelete: true, DenyPurge: true,
		Duplicates: duplicateWindow,
		Metadata:   withVersion(nil),
	}
	if j.entries == 0 {
		limits, err := e.Limits(ctx)
		if err != nil {
			return cfg, err
		}
		cfg.MaxAge, cfg.Duplicates = limits.MaxAge, min(duplicateWindow, limits.MaxAge)
	}
	return cfg, nil
}

// Append stores an entry after the one with a number, or returns ErrRevision if that one is not the last. After
// ErrTimeout it may or may not be stored.
func (j *Journal) Append(ctx context.Context, entry []byte, after uint64) error {
	_, err := j.p.PublishAfter(ctx, after, entry)
	return err
}

// State says where the journal begins and ends, and which one it is.
func (j *Journal) State(ctx context.Context) (State, error) { return j.p.State(ctx) }

// Ends returns the numbers of the oldest and the newest entry; none means 1 and 0.
func (j *Journal) Ends(ctx context.Context) (first, last uint64, err error) {
	st, err := j.p.State(ctx)
	return max(1, st.FirstSeq), st.LastSeq, err
}

// Get returns an entry, or ErrNotFound.
func (j *Journal) Get(ctx context.Context, number uint64) ([]byte, error) {
	m, err := j.p.Get(ctx, number)
	return m.Data, err
}

// Scan calls yield for each entry from a number on, in order, up to the last one that there was when it was called.
func (j *Journal) Scan(ctx context.Context, from uint64, yield func(number uint64, entry []byte) error) error {
	first, last, err := j.Ends(ctx)
	if err != nil {
		return err
	}
	r, err := j.p.Reader(256, 1<<20)
	if err != nil {
		return err
	}
	defer r.Close()
	for next := max(from, first); next <= last; {
		batch, err := r.readable(ctx, next)
		if errors.Is(err, ErrInterrupted) {
			continue
		}
		if err != nil {
			return err
		}
		if len(batch) == 0 { // a replica that lags, or damage
			m, err := j.p.Get(ctx, next)
			if err != nil {
				return fmt.Errorf("entry %d: %w", next, err)
			}
			batch = []Message{m}
		}
		for _, m := range batch {
			if m.Seq > last {
				return nil
			}
			if err := yield(m.Seq, m.Data); err != nil {
				return err
			}
			next = m.Seq + 1
		}
	}
	return nil
}
