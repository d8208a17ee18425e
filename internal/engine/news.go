package engine

import (
	"context"

	"github.com/nats-io/nats.go"
)

// Announce tells the processes that listen to a topic that something changed, and waits until the first one has acted
// on it or ctx ends. An announcement may get lost, and nobody may be listening: neither is an error.
func (e *Engine) Announce(ctx context.Context, topic string) {
	_, _ = e.nc.RequestWithContext(ctx, newsSubject(topic), nil)
}

// Listen calls act for each announcement of a topic until stop is called.
func (e *Engine) Listen(topic string, act func() error) (stop func(), err error) {
	sub, err := e.nc.Subscribe(newsSubject(topic), func(m *nats.Msg) {
		if act() == nil {
			_ = m.Respond(nil) // it may get lost, too
		}
	})
	if err != nil {
		return nil, translate(err)
	}
	return func() { _ = sub.Unsubscribe() }, nil
}
