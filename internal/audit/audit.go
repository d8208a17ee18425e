// Package audit keeps the record of what operators did: a log in the engine in which every entry seals the one before
// it.
package audit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"sluice/internal/engine"
)

// maxLine bounds an entry. Arbitrary, and far above what the actions of this program say.
const maxLine = 64 << 10

// ErrTampered is what Verify wraps when the log is not what Append left.
var ErrTampered = errors.New("audit log was changed")

// Entry is one deed. It names things (a dataset, a key id, the kind of an identifier), never a secret and never
// a value from an event.
type Entry struct {
	Seq    uint64            `json:"seq"`
	Time   time.Time         `json:"time"`
	Actor  string            `json:"actor"`  // who: "user:alice", "console:10.0.0.7"
	Action string            `json:"action"` // what: "dataset.create", "console.login"
	Object string            `json:"object,omitempty"`
	Detail map[string]string `json:"detail,omitempty"`
	Prev   string            `json:"prev"` // seal of the entry before, 64 zeros for the first
}

// headKey is where number and seal of the last entry are in the bucket of settings, so that a cut tail is noticed.
const headKey = "audit.head"

// appendWithin bounds one Append (arbitrary: a cluster that chooses a leader needs 8 s).
const appendWithin = 15 * time.Second

// Log is the audit log of an engine. Any number of processes may append to it at once.
type Log struct {
	journal  *engine.Journal
	settings *engine.Bucket
}

// Open is the log in the engine.
func Open(ctx context.Context, e *engine.Engine) (*Log, error) {
	var l Log
	var err error
	if l.journal, err = e.Journal(ctx, engine.AuditJournal); err != nil {
		return nil, fmt.Errorf("open audit log: %w", err)
	}
	if l.settings, err = e.Bucket(ctx, engine.Settings); err != nil {
		return nil, fmt.Errorf("open audit log: %w", err)
	}
	return &l, nil
}

// sealed is a line of the log: the entry and, last, the SHA-256 over every byte before the comma.
const sealKey = `,"seal":"`

// Append adds an entry and returns once it is on stable storage. Seq, Prev and the seal are given here.
//
// The order of writes: the head of the entry before, if it is behind; the entry; its head. A crash before the last
// leaves a head that is one entry behind, which Verify accepts, for the chain reaches further than the head and
// contains it. The engine takes an entry only after the one that it follows, so that the chain has no fork.
func (l *Log) Append(ctx context.Context, e Entry) error {
	ctx, cancel := context.WithTimeout(ctx, appendWithin)
	defer cancel()
	var tried last // an entry whose outcome is not known
	for {
		attempt, stop := context.WithTimeout(ctx, 2*time.Second)
		err := l.attempt(attempt, &e, &tried)
		stop()
		switch {
		case err == nil:
			return nil
		case errors.Is(err, engine.ErrRevision): // another process was first
			tried = last{}
		case !errors.Is(err, engine.ErrTimeout) && !errors.Is(err, engine.ErrUnavailable) || ctx.Err() != nil:
			return fmt.Errorf("append audit entry: %w", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Millisecond):
		}
	}
}

// attempt appends an entry once, unless the attempt before did: tried is what that one wanted to store.
func (l *Log) attempt(ctx context.Context, e *Entry, tried *last) error {
	end, err := l.end(ctx)
	if err != nil {
		return err
	}
	if tried.Seq > 0 && tried.Seq <= end.Seq {
		there, err := l.journal.Get(ctx, tried.Seq)
		if err != nil {
			return err
		}
		if _, seal, err := decode(there); err == nil && seal == tried.seal {
			return l.raiseHead(ctx, *tried)
		}
	}
	if err := l.raiseHead(ctx, end); err != nil {
		return err
	}
	e.Seq, e.Prev = end.Seq+1, end.seal
	line, seal, err := encode(*e)
	if err != nil {
		return err
	}
	*tried = last{e.Seq, seal}
	if err := l.journal.Append(ctx, line, end.Seq); err != nil {
		return err
	}
	return l.raiseHead(ctx, *tried)
}

// end is the last entry. One that was changed is ErrTampered: an entry after it would seal the change.
func (l *Log) end(ctx context.Context) (last, error) {
	_, number, err := l.journal.Ends(ctx)
	if err != nil || number == 0 {
		return last{seal: zeroSeal}, err
	}
	line, err := l.journal.Get(ctx, number)
	if err != nil {
		return last{}, err
	}
	e, seal, err := decode(line)
	if err != nil {
		return last{}, fmt.Errorf("last entry: %w", err)
	}
	if e.Seq != number {
		return last{}, fmt.Errorf("%w: the last entry says that it is number %d, and is number %d", ErrTampered, e.Seq,
			number)
	}
	return last{number, seal}, nil
}

// raiseHead notes the last entry, unless a later one is noted.
func (l *Log) raiseHead(ctx context.Context, to last) error {
	if to.Seq == 0 {
		return nil
	}
	return l.settings.Change(ctx, headKey, func(before []byte) ([]byte, error) {
		if before != nil {
			if now, err := parseHead(before); err != nil || now.Seq >= to.Seq {
				return nil, err
			}
		}
		return fmt.Appendf(nil, "%d %s", to.Seq, to.seal), nil
	})
}

func (l *Log) head(ctx context.Context) (last, error) {
	found, err := l.settings.Get(ctx, headKey)
	if err != nil {
		return last{}, err
	}
	return parseHead(found.Value)
}

func parseHead(text []byte) (h last, err error) {
	if _, err := fmt.Sscanf(string(text), "%d %64s", &h.Seq, &h.seal); err != nil {
		return h, fmt.Errorf("%w: its head cannot be read", ErrTampered)
	}
	return h, nil
}

func encode(e Entry) (line []byte, seal string, err error) {
	e.Time = e.Time.UTC().Truncate(time.Millisecond)
	if line, err = json.Marshal(e); err != nil {
		return nil, "", fmt.Errorf("encode audit entry: %w", err)
	}
	line = line[:len(line)-1] // without the closing brace: the seal comes last
	sum := sha256.Sum256(line)
	seal = hex.EncodeToString(sum[:])
	line = append(line, sealKey+seal+"\"}"...)
	if len(line) > maxLine {
		return nil, "", fmt.Errorf("audit entry of %d bytes is over %d", len(line), maxLine)
	}
	return line, seal, nil
}

// last is what the next entry must know of the one before.
type last struct {
	Seq  uint64
	seal string
}

var zeroSeal = fmt.Sprintf("%064d", 0)

// decode reads a line and holds it against its own seal.
func decode(line []byte) (Entry, string, error) {
	cut := len(line) - len(sealKey) - 64 - len(`"}`)
	if cut < 0 || string(line[cut:cut+len(sealKey)]) != sealKey || string(line[len(line)-2:]) != `"}` {
		return Entry{}, "", fmt.Errorf("%w: a line without a seal", ErrTampered)
	}
	seal := string(line[cut+len(sealKey) : len(line)-2])
	if sum := sha256.Sum256(line[:cut]); hex.EncodeToString(sum[:]) != seal {
		return Entry{}, "", fmt.Errorf("%w: a line does not match its seal", ErrTampered)
	}
	var e Entry
	if err := json.Unmarshal(append(line[:cut:cut], '}'), &e); err != nil {
		return Entry{}, "", fmt.Errorf("%w: a line is not an entry", ErrTampered)
	}
	return e, seal, nil
}
