package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
)

// StoreRun stores messages one behind the other, by the only writer: the first must get the number after+1, the second
// the next one, and so on. All are on their way at once, so that they share syncs. It insists, and after an answer that
// does not come it asks the partition where it ends.
func (p *Partition) StoreRun(ctx context.Context, after uint64, data [][]byte) error {
	return insist(ctx, func(ctx context.Context) error {
		messages := make([]*nats.Msg, len(data))
		for i := range data {
			messages[i] = p.following(after+uint64(i), data[i])
		}
		last := after // number up to which they are stored for certain
		err := p.publishAll(ctx, messages, func(seq uint64, err error) error {
			if err == nil {
				last = seq
			}
			return changed(err)
		})
		if errors.Is(err, ErrTimeout) || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrRevision) {
			st, stErr := p.State(ctx)
			switch {
			case stErr != nil:
				return stErr
			case st.LastSeq > after+uint64(len(data)):
				return fmt.Errorf("somebody else writes to %s: it ends at %d", p.name, st.LastSeq)
			}
			last, err = max(last, st.LastSeq), fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		if data, after = data[last-after:], last; len(data) == 0 {
			return nil
		}
		return err
	})
}

// MaxBatch is how many messages PublishBatch takes: as many as NATS does.
const MaxBatch = 1000

// PublishBatch stores messages one behind the other, all or none, with one sync: the first must get the number after+1.
// It returns the number of the last. ErrRevision means that the partition does not end where it should.
func (p *Partition) PublishBatch(ctx context.Context, after uint64, data [][]byte) (last uint64, err error) {
	id := rand.Text()
	for i := range data {
		m := &nats.Msg{
			Subject: p.subject, Data: data[i],
			Header: nats.Header{"Nats-Batch-Id": {id}, "Nats-Batch-Sequence": {strconv.Itoa(i + 1)}},
		}
		if i == 0 {
			m.Header.Set("Nats-Expected-Last-Sequence", strconv.FormatUint(after, 10))
		}
		if i == len(data)-1 {
			m.Header.Set("Nats-Batch-Commit", "1")
			last, err = p.publish(ctx, m)
		} else {
			err = translate(p.e.nc.PublishMsg(m)) // the answer to the last tells of all
		}
		if err != nil {
			return 0, changed(err)
		}
	}
	return last, nil
}

// StoreKeys is PublishNew for one message under each of several keys, and insists. A key that has a message already is
// left as it is.
func (p *Partition) StoreKeys(ctx context.Context, keys []string, data []byte) error {
	messages := make([]*nats.Msg, len(keys))
	for i, key := range keys {
		messages[i] = p.keyed(key, data)
	}
	return insist(ctx, func(ctx context.Context) error {
		return p.publishAll(ctx, messages, func(_ uint64, err error) error {
			if errors.Is(err, ErrExists) {
				return nil
			}
			return err
		})
	})
}

// publishAll sends messages in order and calls yield with what became of each, in order, until yield returns an error.
func (p *Partition) publishAll(ctx context.Context, messages []*nats.Msg,
	yield func(seq uint64, err error) error,
) error {
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
			return fmt.Errorf("the server allows messages of %d bytes, and there is one of %d: set its max_payload to %d",
				p.e.nc.MaxPayload(), len(m.Data), maxPayload)
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
				return yield(0, ErrTimeout)
			}
		}
		seq, err := acknowledged(got[i])
		if err := yield(seq, err); err != nil {
			return err
		}
	}
	return nil
}
