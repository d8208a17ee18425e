package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// What callers branch on.
var (
	ErrNotFound    = errors.New("engine: not found")
	ErrExists      = errors.New("engine: exists already")
	ErrRevision    = errors.New("engine: changed by another process in the meantime")
	ErrFull        = errors.New("engine: the storage limit is reached")
	ErrTimeout     = errors.New("engine: no answer in time; a write may or may not be stored")
	ErrUnavailable = errors.New("engine: unavailable")
	// nobody got the question: nothing is stored
	ErrNoLeader    = fmt.Errorf("%w: no server answers for the partition", ErrUnavailable)
	ErrInterrupted = errors.New("engine: the connection was renewed before the whole answer came")
	ErrBehind      = errors.New("engine: the server that answered does not have everything that was written")
	ErrLeaseLost   = errors.New("engine: another process has the lease")
	ErrVersion     = errors.New("engine: it has version")
)

// Error codes of JetStream's API that callers must tell apart.
const (
	codeAccountLimit  = 10002 // resource limits exceeded for account
	codeInsufficient  = 10023
	codeNoMemory      = 10028
	codeNoMessage     = 10037
	codeNoStorage     = 10047
	codeWrongLast     = 10071
	codeStoreFailed   = 10077
	codeWrongLastHere = 10164 // as codeWrongLast, while the other message is on its way
)

// apiError is an error of JetStream's API.
type apiError struct {
	Code        int    `json:"err_code"`
	Description string `json:"description"`
}

// asError returns one of our errors for an error of JetStream's API.
func (e *apiError) asError() error {
	switch e.Code {
	case codeNoMessage:
		return ErrNotFound
	case codeWrongLast, codeWrongLastHere:
		return ErrExists
	case codeStoreFailed, codeNoStorage, codeInsufficient, codeAccountLimit, codeNoMemory:
		return fmt.Errorf("%w: %s", ErrFull, e.Description)
	}
	return fmt.Errorf("%w: %s", ErrUnavailable, e.Description)
}

// errNoConnection replaces the client library's "buffer exceeded": we let it buffer nothing.
var errNoConnection = fmt.Errorf("%w: no connection", ErrUnavailable)

// translate returns one of our errors for an error of the client library.
func translate(err error) error {
	if api, ok := errors.AsType[jetstream.JetStreamError](err); ok && api.APIError() != nil {
		a := api.APIError()
		return (&apiError{Code: int(a.ErrorCode), Description: a.Description}).asError()
	}
	switch {
	case err == nil, errors.Is(err, ErrVersion):
		return err
	case errors.Is(err, jetstream.ErrBucketNotFound):
		return ErrNotFound
	case errors.Is(err, nats.ErrReconnectBufExceeded):
		return errNoConnection
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return fmt.Errorf("%w: %w", ErrTimeout, err)
	case errors.Is(err, context.Canceled):
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
