package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// Message is a stored message. Data is the caller's to keep; nil means that the engine has no bytes for it.
type Message struct {
	Seq  uint64
	Time time.Time // when the engine stored it
	Key  string    // of a message that PublishNew stored
	Data []byte

	subject string
	header  nats.Header
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

func (r getRequest) encode() []byte {
	b, _ := json.Marshal(r) // numbers and words
	return b
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
	reply, err := p.ask(ctx, p.directSubject(), getRequest{Seq: seq}.encode())
	if err == nil {
		if m, ok := parseMessage(reply); ok {
			return m, nil
		}
	}
	if err != nil && err != ErrNoLeader {
		return Message{}, fmt.Errorf("read %s: %w", p.name, err)
	}
	return p.askLeader(ctx, getRequest{Seq: seq})
}

// Next returns the first message from a sequence number on, or ErrNotFound. The leader answers: a replica that lags may
// not have the first one.
func (p *Partition) Next(ctx context.Context, from uint64) (Message, error) {
	return p.askLeader(ctx, getRequest{Seq: from, NextFor: ">"})
}

// GetKey returns the newest message with a key, or ErrNotFound. Only the leader knows which one that is.
func (p *Partition) GetKey(ctx context.Context, key string) (Message, error) {
	return p.askLeader(ctx, getRequest{LastFor: keyPrefix(p.id) + key})
}

// askLeader returns one stored message from the leader, or ErrNotFound.
func (p *Partition) askLeader(ctx context.Context, r getRequest) (m Message, err error) {
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
	reply, err := p.ask(ctx, "$JS.API.STREAM.MSG.GET."+p.name, r.encode())
	if err == nil {
		err = json.Unmarshal(reply.Data, &answer)
	}
	if err == nil && answer.Error != nil {
		err = answer.Error.asError()
	}
	got := answer.Message
	var header nats.Header
	if err == nil && len(got.Header) > 0 {
		header, err = nats.DecodeHeadersMsg(got.Header)
	}
	if err != nil {
		return m, fmt.Errorf("read %s: %w", p.name, err)
	}
	return Message{got.Seq, got.Time, keyOf(got.Subject), got.Data, got.Subject, header}, nil
}

// parseMessage reads a direct answer. Anything but a stored message is not ok.
func parseMessage(m *nats.Msg) (_ Message, ok bool) {
	if m.Header.Get("Status") != "" {
		return Message{}, false
	}
	seq, seqErr := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
	at, timeErr := time.Parse(time.RFC3339Nano, m.Header.Get("Nats-Time-Stamp"))
	subject := m.Header.Get("Nats-Subject")
	return Message{seq, at, keyOf(subject), m.Data, subject, m.Header}, seqErr == nil && timeErr == nil
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

// Next returns the messages from a sequence number on, in order; none at the end of the partition. Where nothing can be
// read any more, it is one without Data that has the last number. ErrInterrupted means that asking again may help at
// once.
func (r *Reader) Next(ctx context.Context, from uint64) ([]Message, error) {
	messages, err := r.readable(ctx, from)
	if err == nil && len(messages) == 0 {
		return r.atEnd(ctx, from)
	}
	return messages, err
}

// readable returns the messages that one question brings, with what it lacks between them.
func (r *Reader) readable(ctx context.Context, from uint64) ([]Message, error) {
	var messages []Message
	next, whole := from, true
	err := r.batch(ctx, from, func(m Message) {
		whole = whole && m.Seq == next
		next = m.Seq + 1
		messages = append(messages, m)
	})
	if err != nil {
		return nil, err
	}
	if whole {
		return messages, nil
	}
	return r.confirm(ctx, from, messages)
}

// batch calls yield for the messages from a sequence number on, in order, that one replica has: for all of them, or for
// as many as a batch holds.
func (r *Reader) batch(ctx context.Context, from uint64, yield func(Message)) error {
	changed := r.p.e.Changed()
	r.asked++
	reply := r.inbox + "." + strconv.FormatUint(r.asked, 10)
	request := getRequest{Seq: from, Batch: r.messages, MaxBytes: r.bytes}
	if err := r.p.rc.PublishRequest(r.p.directSubject(), reply, request.encode()); err != nil {
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

// atEnd is asked when the engine has nothing readable at a number. Either that is the end; or there is damage, or a
// replica that lags, and the first message behind it has to be looked for number by number.
func (r *Reader) atEnd(ctx context.Context, from uint64) ([]Message, error) {
	st, err := r.p.State(ctx)
	if err != nil || from > st.LastSeq {
		return nil, err
	}
	for seq := max(from, st.FirstSeq); seq <= st.LastSeq; seq++ {
		m, err := r.p.Get(ctx, seq)
		if err == nil {
			return []Message{m}, nil
		}
		if !errors.Is(err, ErrNotFound) {
			return nil, err
		}
	}
	return []Message{{Seq: st.LastSeq}}, nil
}

// confirm looks for what a batch lacks. On a cluster a replica may lack what the leader has, and nobody asks again for
// what a reader calls missing.
func (r *Reader) confirm(ctx context.Context, from uint64, messages []Message) ([]Message, error) {
	st, err := r.p.State(ctx)
	if err != nil {
		return nil, err
	}
	var all []Message
	next := max(from, st.FirstSeq)
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
