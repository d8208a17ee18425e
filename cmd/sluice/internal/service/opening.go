package service

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"sluice/cmd/sluice/internal/tables"
	"sluice/internal/engine"
	"sluice/internal/lake"
	"sluice/internal/loader"
	"sluice/internal/objectstore"
)

// opening is how far a service has come with opening its tables. A bucket may be away when a node starts: the node
// takes events all the same, for they are safe in the stream, and loads them when the bucket answers.
type opening struct {
	store objectstore.Store
	// by partition, the numbers that were given out before the service began without its tables
	given []uint64
	open  chan struct{}         // closed when the tables are open, and are known to be those of the service
	why   atomic.Pointer[error] // they are not
}

const (
	// startWait is how long a start waits for a bucket. Arbitrary: opening the tables takes some twenty requests.
	startWait = 10 * time.Second
	// openAgain is the time between two attempts to open the tables; each one waits for the bucket for some seconds.
	openAgain = time.Second
)

// onlyAccepts says whether this node writes nothing to the tables: there are none until another node has made them.
func (s *Service) onlyAccepts() bool { return !s.Loading && s.engine.Mode() == engine.External }

// firstOpen opens the tables at the start. A bucket that does not answer is no error.
func (s *Service) firstOpen(ctx context.Context) error {
	try := ctx
	if s.Tables.Dir == "" {
		var cancel context.CancelFunc
		try, cancel = context.WithTimeout(ctx, startWait)
		defer cancel()
	}
	err := s.openTables(try)
	switch {
	case errors.Is(err, errOlderNodes):
		s.Log.Warn("the tables are not open: this node takes events and does not load", "reason", err)
		return nil
	case s.onlyAccepts() && errors.Is(err, lake.ErrNoTable):
		s.Log.Info("there are no tables yet: this node takes events, and reads the tables when another node has made them")
		return nil
	case err == nil, ctx.Err() != nil, s.Tables.Dir != "", !objectstore.Away(err):
		return err
	}
	s.Log.Error("the tables are not open: the bucket does not answer. This node takes events, and loads them when it "+
		"answers", "error", err)
	bounds, err := s.stream.Bounds(ctx)
	for p, b := range bounds {
		s.opening.given = append(s.opening.given, max(b.Last, s.stream.High(uint8(p))))
	}
	return err
}

// reachTables opens the tables that were away at the start. It never gives up, whatever the bucket answers: the node
// takes events meanwhile.
func (s *Service) reachTables(ctx context.Context) error {
	for s.tablesAway() != nil {
		if err := s.openTables(ctx); err == nil {
			s.Log.Info("the tables are open")
			break
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(openAgain):
		}
	}
	return nil
}

// openTables opens the tables and makes sure that they are those of the service, and that they and the stream continue
// each other. Nothing is written to a place that holds other tables, or none where there should be some.
func (s *Service) openTables(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			s.opening.why.Store(&err)
		}
	}()
	if err := s.sameTables(ctx); err != nil {
		return err
	}
	if bucket, ok := s.opening.store.(*objectstore.S3); ok && !s.onlyAccepts() {
		if err := bucket.Probe(ctx); err != nil {
			return fmt.Errorf("--lake: %w", err)
		}
		if bucket.KeepsVersions() {
			s.Log.Warn("the bucket of the tables keeps versions of objects that are deleted: an erased identifier stays in it "+
				"until its noncurrent versions are deleted", "lake", s.Tables.String())
		}
	}
	if err := s.everyNodeReads(ctx); err != nil {
		return err
	}
	if err := s.lake.Open(ctx); err != nil {
		return err
	}
	if err := s.agreeTables(ctx); err != nil {
		return err
	}
	if err := s.notGivenTwice(ctx); err != nil {
		return err
	}
	// Tables of another stream are left to a node that may write to them.
	if err := loader.Bind(ctx, s.stream, s.lake, s.Log); err != nil && !errors.Is(err, objectstore.ErrReadOnly) {
		return err
	}
	if err := s.erasures.Reopen(ctx, s.lake.EventsUpdated()); err != nil {
		return err
	}
	close(s.opening.open)
	return nil
}

// sameTables rejects a place that does not hold the tables of the service, before anything is written to it.
func (s *Service) sameTables(ctx context.Context) error {
	if !s.Loading {
		return nil
	}
	if s.engine.Mode() != engine.External {
		return tables.Kept(ctx, s.engine, s.stream, s.Tables)
	}
	r, err := s.engine.Record(ctx)
	if err != nil || r.LakeID == "" {
		return err
	}
	there, err := lake.Identity(ctx, s.opening.store)
	if err != nil {
		return fmt.Errorf("--lake: %w", err)
	}
	if there.ID == "" {
		return fmt.Errorf("--lake: %s holds no tables, and the identity of the tables in the cluster is %s: it is another "+
			"place by the same name, or somebody removed the tables", s.Tables, r.LakeID)
	}
	return s.agreeOn(ctx, there.ID)
}

// notGivenTwice makes sure that a stream that began without its tables was not behind them: what it has given out again
// would count as loaded. Other nodes of a cluster load meanwhile, and its stream is in no directory that could be put
// back.
func (s *Service) notGivenTwice(ctx context.Context) error {
	if s.engine.Mode() == engine.External {
		return nil
	}
	for p, given := range s.opening.given {
		marks, err := s.lake.Watermarks(ctx, uint8(p))
		if err == nil && marks.Events > given {
			return fmt.Errorf("the data directory was put back to an earlier state: partition %d had given out %d numbers, and "+
				"the tables hold %d; events accepted since the start have numbers that the tables hold already, so nothing is "+
				"loaded. Read them from the feed and send them again", p, given, marks.Events)
		}
	}
	return nil
}

// tablesAway says why the tables cannot be used; nil when they are open.
func (s *Service) tablesAway() error {
	select {
	case <-s.opening.open:
		return nil
	default:
	}
	err := lake.ErrNotOpen
	if why := s.opening.why.Load(); why != nil {
		err = *why
	}
	return fmt.Errorf("the tables are not open: %w", err)
}

// awaitTables waits until the tables are open.
func (s *Service) awaitTables(ctx context.Context) error {
	select {
	case <-s.opening.open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// maintain looks after the tables once they are open. In a cluster a node that cannot open them leaves that, and
// loading, to another one.
func (s *Service) maintain(ctx context.Context) error {
	wait := ctx
	if s.engine.Mode() == engine.External {
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeout(ctx, bucketPatience)
		defer cancel()
	}
	if err := s.awaitTables(wait); err != nil {
		return errors.Join(ctx.Err(), s.tablesAway())
	}
	if s.Hooks.Maintain != nil {
		return s.Hooks.Maintain(ctx, s.lake)
	}
	return s.lake.Run(ctx)
}

// loadable is the lake as the loader may use it: not before the tables are known to be those of the service.
type loadable struct {
	*lake.Lake
	s *Service
}

// Watermarks says how far the tables are.
func (l loadable) Watermarks(ctx context.Context, partition uint8) (lake.Watermarks, error) {
	if err := l.s.tablesAway(); err != nil {
		return lake.Watermarks{}, err
	}
	return l.Lake.Watermarks(ctx, partition)
}
