package stream

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"time"
)

// keyStore stores records with a key, each key once, and finds them. There are two: keyIndex, where this process is the
// only writer, and keySubjects, where an external engine compares keys.
type keyStore interface {
	// append stores a record that was admitted, as AppendKeyed says.
	append(ctx context.Context, name *key, record []byte) (Position, error)
	// read finds the record of a key, as ReadKeyed says.
	read(ctx context.Context, name *key) ([]byte, Position, error)
	// load reads what is needed before the stream takes records.
	load(ctx context.Context) error
	// tend does what is due from time to time. Only watch calls it.
	tend(ctx context.Context)
	// close waits for what is under way. Nothing is appended any more.
	close()
}

// keyName returns a key as it is stored.
func keyName(text string) key {
	sum := sha256.Sum256([]byte(text))
	return key(sum[:24])
}

// text is the key as an external engine has it in the name of its message.
func (k *key) text() string { return base64.RawURLEncoding.EncodeToString(k[:]) }

// RestoredError means a key that was used before the stream was restored: what it was used for is stored, and cannot be
// found by the key any more.
type RestoredError struct{ At time.Time }

func (e *RestoredError) Error() string {
	return "stream: the key was used before the stream was restored at " + e.At.UTC().Format(time.RFC3339)
}

// used says whether an error of a look for a key means that the key was used; nil does.
func used(err error) bool {
	_, restored := errors.AsType[*RestoredError](err)
	return err == nil || restored || errors.Is(err, ErrDamaged)
}

// AppendKeyed stores a record under a key, unless there is one: then it returns ErrExists and ReadKeyed has it, or will
// have it as soon as the other call succeeds. This holds after any crash, and between processes, for as long as records
// are kept. Otherwise it is like Append; with an external engine it costs a sync of its own.
func (s *Stream) AppendKeyed(ctx context.Context, text string, record []byte) (Position, error) {
	if err := s.admit(ctx, len(record)); err != nil {
		return Position{}, err
	}
	name := keyName(text)
	return s.keys.append(ctx, &name, record)
}

// ReadKeyed returns the record stored under a key. Without one it returns ErrNotFound, ErrTimeout while it is not
// known yet whether there is one, ErrTooManyKeys if the index had no space for all keys: then there may be one, and a
// RestoredError if only that is known.
func (s *Stream) ReadKeyed(ctx context.Context, text string) ([]byte, Position, error) {
	name := keyName(text)
	return s.keys.read(ctx, &name)
}
