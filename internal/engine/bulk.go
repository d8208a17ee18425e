package engine

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
)

// PublishRun stores messages one behind the other: the first must get the number after+1, the second the next one, and so
// on. It returns the number up to which they are stored for certain, which is after for none. ErrRevision means that the
// partition does not end where it should: ask for its State. All are on their way at once, so that they share syncs.
func (p *Partition) PublishRun(ctx context.Context, after uint64, data [][]byte) (last uint64, err error) {
	messages := make([]*nats.Msg, len(data))
	for i := range data {
		expected := strconv.FormatUint(after+uint64(i), 10)
		messages[i] = &nats.Msg{Subject: p.subject, Data: data[i], Header: nats.Header{"Nats-Expected-Last-Sequence": {expected}}}
	}
	last = after
	err = p.publishAll(ctx, messages, func(i int, seq uint64, err error) error {
		if err != nil {
			return changed(err)
		}
		if last++; seq != last { // never: the engine has compared it
			return fmt.Errorf("message %d was stored as %d", last, seq)
		}
		return nil
	})
	return last, err
}

// Keyed is a message with a key.
type Keyed struct {
	Key  string
	Data []byte
}

// PublishKeys is PublishNew for several messages at once. A key that has a message already is left as it is.
func (p *Partition) PublishKeys(ctx context.Context, keyed []Keyed) error {
	messages := make([]*nats.Msg, len(keyed))
	for i, k := range keyed {
		messages[i] = &nats.Msg{Subject: keyPrefix(p.id) + k.Key, Data: k.Data, Header: nats.Header{"Nats-Expected-Last-Subject-Sequence": {"0"}}}
	}
	return p.publishAll(ctx, messages, func(_ int, _ uint64, err error) error {
		if errors.Is(err, ErrExists) {
			return nil
		}
		return err
	})
}

// publishAll sends messages in order and calls yield with what became of each, in order, until yield returns an error.
func (p *Partition) publishAll(ctx context.Context, messages []*nats.Msg, yield func(i int, seq uint64, err error) error) error {
	inbox := nats.NewInbox()
	replies := make(chan *nats.Msg, len(messages))
	sub, err := p.e.nc.ChanSubscribe(inbox+".*", replies)
	if err != nil {
		return translate(err)
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only when the connection is closed, which ends it too
	for i, m := range messages {
		m.Reply = inbox + "." + strconv.Itoa(i)
		err := p.e.nc.PublishMsg(m)
		if errors.Is(err, nats.ErrMaxPayload) {
			return fmt.Errorf("the server allows messages of %d bytes, and there is one of %d: set its max_payload to %d", p.e.nc.MaxPayload(), len(m.Data), maxPayload)
		}
		if err != nil {
			return translate(err)
		}
	}
	got := make([]*nats.Msg, len(messages))
	for i := range messages {
		for got[i] == nil {
			select {
			case m := <-replies:
				if n, err := strconv.Atoi(m.Subject[len(inbox)+1:]); err == nil && n < len(got) {
					got[n] = m
				}
			case <-ctx.Done():
				return yield(i, 0, ErrTimeout)
			}
		}
		seq, err := acknowledged(got[i])
		if err := yield(i, seq, err); err != nil {
			return err
		}
	}
	return nil
}
