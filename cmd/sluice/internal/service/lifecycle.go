package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"sluice/internal/engine"
)

// openEngine opens the engine. A NATS server that does not answer is waited for: nodes and servers of a cluster start
// in any order. Meanwhile the operators' listener answers /livez, and /readyz says what is missing.
func (s *Service) openEngine(ctx context.Context, o engine.Options) (*engine.Engine, error) {
	e, err := engine.Open(ctx, o)
	if o.URL == "" || !errors.Is(err, engine.ErrUnavailable) {
		return e, err
	}
	stop, listenErr := s.serveWaiting()
	if listenErr != nil {
		return nil, listenErr
	}
	defer stop()
	const pause, remind = 500 * time.Millisecond, 20 // a line every 10 s or so
	for n := 0; errors.Is(err, engine.ErrUnavailable); n++ {
		if n%remind == 0 {
			s.Log.Warn("NATS does not answer: this node waits for it", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(pause):
		}
		e, err = engine.Open(ctx, o)
	}
	if err == nil {
		s.Log.Info("NATS answers")
	}
	return e, err
}

// serveWaiting answers on the operators' address until stop is called.
func (s *Service) serveWaiting() (stop func(), err error) {
	if s.OpsListen == "" {
		return func() {}, nil
	}
	l, err := net.Listen("tcp", s.OpsListen)
	if err != nil {
		return nil, fmt.Errorf("--ops: %w", err)
	}
	s.OpsListen = l.Addr().String() // any port stays the same one
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "alive") })
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "starting: NATS does not answer", http.StatusServiceUnavailable)
	})
	h := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if s.OpsCert != "" {
			_ = h.ServeTLS(l, s.OpsCert, s.OpsKey)
			return
		}
		_ = h.Serve(l)
	}()
	s.Log.Info("waiting", "ops", s.OpsListen)
	return func() { _ = h.Close(); <-done }, nil
}

// drain lets load balancers and the other nodes know that this node stops, and gives them time to act on it.
func (s *Service) drain(ctx context.Context) {
	s.console.Drain()
	beat, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	s.member.Drain(beat)
	select {
	case <-time.After(s.DrainWait):
	case <-ctx.Done(): // a part has given up
	}
}

// share is this node's part of the rate limits.
func (s *Service) share() float64 { return 1 / float64(s.member.View().Live()) }
