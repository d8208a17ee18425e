package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"sluice/internal/durable"
)

// Lease says that this process, and no other, does a job. A lease saves double work. It is no proof: a process that
// was paused may believe for a moment that it still has one, so what it writes must be safe without it.
type Lease struct {
	b        *Bucket
	name     string
	owner    string
	revision uint64
}

// Take takes the lease of a name, or returns ErrLeaseLost while another process has it. A process that dies without
// Release keeps it for 9 s.
func (e *Engine) Take(ctx context.Context, name string) (*Lease, error) {
	b, err := e.leaseBucket(ctx)
	if err != nil {
		return nil, err
	}
	revision, err := b.Create(ctx, name, []byte(e.owner))
	if errors.Is(err, ErrExists) {
		return nil, ErrLeaseLost
	}
	if err != nil {
		return nil, fmt.Errorf("take lease %s: %w", name, err)
	}
	return &Lease{b: b, name: name, owner: e.owner, revision: revision}, nil
}

// leaseBucket opens the bucket once.
func (e *Engine) leaseBucket(ctx context.Context) (*Bucket, error) {
	e.leaseMu.Lock()
	defer e.leaseMu.Unlock()
	if e.leases != nil {
		return e.leases, nil
	}
	b, err := e.Bucket(ctx, leases)
	if err == nil {
		e.leases = b
	}
	return b, err
}

// Renew keeps the lease for another 9 s, or returns ErrLeaseLost when another process has taken it or it ran out.
func (l *Lease) Renew(ctx context.Context) error {
	revision, err := l.b.Update(ctx, l.name, []byte(l.owner), l.revision)
	if errors.Is(err, ErrRevision) {
		return ErrLeaseLost
	}
	if err != nil {
		return fmt.Errorf("renew lease %s: %w", l.name, err)
	}
	l.revision = revision
	return nil
}

// Release ends the lease, so that another process need not wait for it to run out.
func (l *Lease) Release(ctx context.Context) error {
	return l.b.Delete(ctx, l.name, l.revision)
}

// WithLease calls work while this process has the lease of a name. It ends the context of work and returns ErrLeaseLost
// when it could not renew the lease in time. It returns ErrLeaseLost at once while another process has the lease.
func (e *Engine) WithLease(ctx context.Context, name string, work func(context.Context) error) error {
	l, err := e.Take(ctx, name)
	if err != nil {
		return err
	}
	working, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		l.keep(working, stop)
	}()
	err = work(working)
	if cause := context.Cause(working); errors.Is(cause, ErrLeaseLost) {
		err = cause
	}
	stop(nil)
	<-renewed
	if !errors.Is(err, ErrLeaseLost) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = l.Release(ctx) // else it runs out
	}
	return err
}

// Alone calls work while no other process does the job of a name, and waits while one does. On one machine the system
// keeps processes apart, which knows when one was killed; in a cluster a lease does, see WithLease.
func (e *Engine) Alone(ctx context.Context, name string, work func(context.Context) error) error {
	for {
		var err error
		if e.mode == External {
			err = e.WithLease(ctx, name, work)
		} else {
			err = e.withLock(ctx, name, work)
		}
		if !errors.Is(err, ErrLeaseLost) && !errors.Is(err, durable.ErrLocked) {
			return err
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// withLock calls work while this process has a file of the data directory.
func (e *Engine) withLock(ctx context.Context, name string, work func(context.Context) error) error {
	f, err := os.OpenFile(filepath.Join(e.o.Dir, name+".lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := durable.TryLock(f, durable.Exclusive); err != nil {
		return err
	}
	return work(ctx)
}

// keep renews the lease until ctx ends, and stops the work when it has not been able to for too long.
func (l *Lease) keep(ctx context.Context, stop context.CancelCauseFunc) {
	const every = leaseAge / 4
	good := time.Now() // of the last renewal; only differences count
	for {
		if pause(ctx, every) != nil {
			return
		}
		begun := time.Now()
		attempt, cancel := context.WithTimeout(ctx, every)
		err := l.Renew(attempt)
		cancel()
		switch {
		case err == nil:
			good = begun
		case errors.Is(err, ErrLeaseLost), time.Since(good) > leaseAge-every:
			stop(ErrLeaseLost)
			return
		}
	}
}
