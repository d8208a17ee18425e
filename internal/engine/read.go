package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Message is a stored message. Data is the caller's to keep; nil means that the engine has no bytes for it.
type Message struct {
	Seq  uint64
	Time time.Time // when the engine stored it
	Key  string    // of a message that PublishNew stored
	Data []byte
}

// State is what the engine knows of a partition.
type State struct {
	FirstSeq  uint64    `json:"first_seq"`
	FirstTime time.Time `json:"first_ts"` // of the oldest message; of no meaning when there is none
	LastSeq   uint64    `json:"last_seq"`
	Messages  uint64    `json:"messages"`
	Bytes     uint64    `json:"bytes"`
	Subjects  int       `json:"num_subjects"` // one for frames without a key, if there are any, and one for each key

	MaxAge time.Duration `json:"-"` // how long a message is kept
	// of the partition; another one under the same name has another. One that was moved keeps it
	Created  time.Time `json:"-"`
	Replicas int       `json:"-"`
	Leader   string    `json:"-"` // the server that decides; empty for a partition of one copy without a cluster
	Asked    time.Time `json:"-"` // now, by the clock of the server that answered, which also dates messages
}

// getRequest asks the engine for one stored message, or for a batch of them.
type getRequest struct {
	Seq      uint64 `json:"seq,omitempty"`
	LastFor  string `json:"last_by_subj,omitempty"`
	NextFor  string `json:"next_by_subj,omitempty"` // from Seq on
	Batch    int    `json:"batch,omitempty"`
	MaxBytes int    `json:"max_bytes,omitempty"`
}

func (p *Partition) directSubject() string { return "$JS.API.DIRECT.GET." + p.name }

// State asks the engine for the state of the partition.
func (p *Partition) State(ctx context.Context) (State, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var info struct {
		Error   *apiError `json:"error"`
		Created time.Time `json:"created"`
		Asked   time.Time `json:"ts"`
		State   State     `json:"state"`
		Config  struct {
			MaxAge   time.Duration     `json:"max_age"`
			Replicas int               `json:"num_replicas"`
			Metadata map[string]string `json:"metadata"`
		} `json:"config"`
		Cluster struct {
			Leader string `json:"leader"`
		} `json:"cluster"`
	}
	reply, err := p.ask(ctx, "$JS.API.STREAM.INFO."+p.name, nil)
	if err == nil {
		err = json.Unmarshal(reply.Data, &info)
	}
	if err == nil && info.Error != nil {
		err = info.Error.asError()
	}
	if err != nil {
		return State{}, fmt.Errorf("state of %s: %w", p.name, err)
	}
	st := info.State
	st.MaxAge, st.Replicas = info.Config.MaxAge, info.Config.Replicas
	st.Created = created(info.Created, info.Config.Metadata)
	st.Leader, st.Asked = info.Cluster.Leader, info.Asked
	return st, nil
}

// ask puts a question to the engine. While the connection is being renewed it waits; to ask twice does no harm.
func (p *Partition) ask(ctx context.Context, subject string, body []byte) (*nats.Msg, error) {
	for {
		reply, err := p.rc.RequestWithContext(ctx, subject, body)
		if errors.Is(err, nats.ErrNoResponders) {
			return nil, ErrNoLeader
		}
		if !errors.Is(err, nats.ErrReconnectBufExceeded) {
			return reply, translate(err)
		}
		if pause(ctx, 20*time.Millisecond) != nil {
			return nil, errNoConnection
		}
	}
}

// Get returns the message at a sequence number, or ErrNotFound. On a cluster any replica may answer first. What one has
// under a number never changes, but one that lags lacks some of what is stored: only the leader can say that a message
// does not exist.
func (p *Partition) Get(ctx context.Context, seq uint64) (Message, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	body, err := json.Marshal(getRequest{Seq: seq})
	if err != nil {
		return Message{}, err
	}
	reply, err := p.ask(ctx, p.directSubject(), body)
	if err == nil {
		if m, ok := parseMessage(reply); ok {
			return message(m), nil
		}
	}
	if err != nil && err != ErrNoLeader {
		return Message{}, fmt.Errorf("read %s: %w", p.name, err)
	}
	m, err := p.askLeader(ctx, getRequest{Seq: seq})
	return message(m), err
}

// Next returns the first message from a sequence number on, or ErrNotFound. The leader answers: a replica that lags may
// not have the first one.
func (p *Partition) Next(ctx context.Context, from uint64) (Message, error) {
	m, err := p.askLeader(ctx, getRequest{Seq: from, NextFor: ">"})
	return message(m), err
}

// GetKey returns the newest message with a key, or ErrNotFound. Only the leader knows which one that is.
func (p *Partition) GetKey(ctx context.Context, key string) (Message, error) {
	m, err := p.askLeader(ctx, getRequest{LastFor: keyPrefix(p.id) + key})
	return message(m), err
}

// askLeader returns one stored message from the leader, or ErrNotFound.
func (p *Partition) askLeader(ctx context.Context, r getRequest) (m jetstream.RawStreamMsg, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var answer struct {
		Error   *apiError `json:"error"`
		Message struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Header  []byte    `json:"hdrs"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
	}
	body, err := json.Marshal(r)
	if err != nil {
		return m, err
	}
	reply, err := p.ask(ctx, "$JS.API.STREAM.MSG.GET."+p.name, body)
	if err == nil {
		err = json.Unmarshal(reply.Data, &answer)
	}
	if err == nil && answer.Error != nil {
		err = answer.Error.asError()
	}
	got := answer.Message
	if err == nil && len(got.Header) > 0 {
		m.Header, err = nats.DecodeHeadersMsg(got.Header)
	}
	if err != nil {
		return m, fmt.Errorf("read %s: %w", p.name, err)
	}
	m.Subject, m.Sequence, m.Data, m.Time = got.Subject, got.Seq, got.Data, got.Time
	return m, nil
}

func message(m jetstream.RawStreamMsg) Message {
	return Message{Seq: m.Sequence, Time: m.Time, Key: keyOf(m.Subject), Data: m.Data}
}

// parseMessage reads a direct answer. Anything but a stored message is not ok.
func parseMessage(m *nats.Msg) (_ jetstream.RawStreamMsg, ok bool) {
	if m.Header.Get("Status") != "" {
		return jetstream.RawStreamMsg{}, false
	}
	seq, err := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
	if err != nil {
		return jetstream.RawStreamMsg{}, false
	}
	at, err := time.Parse(time.RFC3339Nano, m.Header.Get("Nats-Time-Stamp"))
	if err != nil {
		return jetstream.RawStreamMsg{}, false
	}
	return jetstream.RawStreamMsg{
		Subject: m.Header.Get("Nats-Subject"), Sequence: seq, Time: at, Header: m.Header,
		Data: m.Data,
	}, true
}

// Reader reads a partition in order, in batches. One goroutine uses it. Close it when done.
type Reader struct {
	p        *Partition
	messages int
	bytes    int
	sub      *nats.Subscription
	inbox    string
	replies  chan *nats.Msg
	asked    uint64
}

// Reader returns a reader whose batches have at most so many messages, and one message more than so many bytes.
func (p *Partition) Reader(messages, bytes int) (*Reader, error) {
	r := &Reader{p: p, messages: messages, bytes: bytes, inbox: nats.NewInbox(), replies: make(chan *nats.Msg, messages+8)}
	var err error
	if r.sub, err = p.rc.ChanSubscribe(r.inbox+".*", r.replies); err != nil {
		return nil, translate(err)
	}
	return r, nil
}

// Close ends the reader.
func (r *Reader) Close() { _ = r.sub.Unsubscribe() } // fails only when the connection is closed, which ends it too

// Next returns the messages from a sequence number on, in order. None means that the engine has nothing readable at
// that number. ErrInterrupted means that asking again may help at once.
func (r *Reader) Next(ctx context.Context, from uint64) ([]Message, error) {
	var messages []Message
	err := r.batch(ctx, from, func(m jetstream.RawStreamMsg) { messages = append(messages, message(m)) })
	if err != nil {
		return nil, err
	}
	return r.confirm(ctx, from, messages)
}

// batch calls yield for the messages from a sequence number on, in order, that one replica has: for all of them, or for
// as many as a batch holds.
func (r *Reader) batch(ctx context.Context, from uint64, yield func(jetstream.RawStreamMsg)) error {
	changed := r.p.e.Changed()
	r.asked++
	reply := r.inbox + "." + strconv.FormatUint(r.asked, 10)
	body, err := json.Marshal(getRequest{Seq: from, Batch: r.messages, MaxBytes: r.bytes})
	if err != nil {
		return err
	}
	if err := r.p.rc.PublishRequest(r.p.directSubject(), reply, body); err != nil {
		return translate(err)
	}
	timeout := time.NewTimer(readTimeout)
	defer timeout.Stop()
	for {
		select {
		case m := <-r.replies:
			if m.Subject != reply {
				continue // of a question given up
			}
			got, ok := parseMessage(m)
			if !ok { // the end of the batch
				return nil
			}
			yield(got)
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
			return ErrInterrupted
		case <-timeout.C:
			return ErrTimeout
		}
	}
}

// confirm looks for what a batch lacks. On a cluster a replica may lack what the leader has, and nobody asks again for
// what a reader calls missing.
func (r *Reader) confirm(ctx context.Context, from uint64, messages []Message) ([]Message, error) {
	whole := true
	next := from
	for _, m := range messages {
		whole = whole && m.Seq == next
		next = m.Seq + 1
	}
	if whole {
		return messages, nil
	}
	st, err := r.p.State(ctx)
	if err != nil {
		return nil, err
	}
	var all []Message
	next = max(from, st.FirstSeq)
	for _, m := range messages {
		for ; next < m.Seq; next++ {
			found, err := r.p.Get(ctx, next)
			if err == nil {
				all = append(all, found)
			} else if !errors.Is(err, ErrNotFound) {
				return nil, err
			}
		}
		all = append(all, m)
		next = m.Seq + 1
	}
	return all, nil
}
