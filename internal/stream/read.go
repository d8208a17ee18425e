package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// readTimeout bounds one question to the engine when the caller's context does not.
const readTimeout = 5 * time.Second

// getRequest asks the engine for one stored message, or for a batch of them.
type getRequest struct {
	Seq      uint64 `json:"seq,omitempty"`
	LastFor  string `json:"last_by_subj,omitempty"`
	Batch    int    `json:"batch,omitempty"`
	MaxBytes int    `json:"max_bytes,omitempty"`
}

// message is a stored message.
type message struct {
	seq  uint64
	time time.Time
	data []byte
}

// state is what the engine knows of a partition.
type state struct {
	FirstSeq  uint64    `json:"first_seq"`
	FirstTime time.Time `json:"first_ts"`
	LastSeq   uint64    `json:"last_seq"`
	Messages  uint64    `json:"messages"`
	Bytes     uint64    `json:"bytes"`
}

// Read returns the record at a position. It is there from the moment Append returned. ErrGone means it has aged out,
// ErrNotFound that nothing was ever stored there, ErrDamaged that the engine lost it or its bytes are not whole.
func (s *Stream) Read(ctx context.Context, at Position) ([]byte, error) {
	if int(at.Partition) >= len(s.lanes) || at.Seq == 0 {
		return nil, ErrNotFound
	}
	m, err := s.lookUp(ctx, at.Partition, getRequest{Seq: at.Seq})
	if errors.Is(err, ErrNotFound) {
		return nil, s.whyAbsent(ctx, at)
	}
	if err != nil {
		return nil, err
	}
	records, err := DecodeFrame(m.data)
	if err != nil {
		s.n.damaged.Add(1)
		return nil, ErrDamaged
	}
	if int(at.Slot) >= len(records) {
		return nil, ErrNotFound
	}
	return records[at.Slot], nil
}

// whyAbsent says why there is no message at a position.
func (s *Stream) whyAbsent(ctx context.Context, at Position) error {
	st, err := s.state(ctx, at.Partition)
	switch {
	case err != nil:
		return err
	case at.Seq < st.FirstSeq:
		return ErrGone
	case at.Seq > st.LastSeq:
		return ErrNotFound
	}
	return ErrDamaged
}

// Last returns the sequence number of a partition's newest frame, 0 when there never was one.
func (s *Stream) Last(ctx context.Context, partition uint8) (uint64, error) {
	st, err := s.state(ctx, partition)
	return st.LastSeq, err
}

// Extent is how much a partition holds.
type Extent struct {
	Frames uint64
	Bytes  int64
	First  time.Time // when the oldest frame was written; zero when there is none
	Last   uint64    // sequence number of the newest frame
}

// Extents asks the engine how much each partition holds.
func (s *Stream) Extents(ctx context.Context) ([]Extent, error) {
	out := make([]Extent, len(s.lanes))
	for p := range out {
		st, err := s.state(ctx, uint8(p))
		if err != nil {
			return nil, err
		}
		out[p] = Extent{Frames: st.Messages, Bytes: int64(st.Bytes), Last: st.LastSeq}
		if st.Messages > 0 {
			out[p].First = st.FirstTime
		}
	}
	return out, nil
}

func (s *Stream) state(ctx context.Context, partition uint8) (state, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var info struct {
		State state     `json:"state"`
		Error *apiError `json:"error"`
	}
	reply, err := s.ask(ctx, infoSubject(partition), nil)
	if err == nil {
		err = json.Unmarshal(reply.Data, &info)
	}
	if err == nil && info.Error != nil {
		err = info.Error
	}
	if err != nil {
		return state{}, fmt.Errorf("state of partition %d: %w", partition, err)
	}
	return info.State, nil
}

// ask puts a question to the engine. While the connection is being renewed it waits; to ask twice does no harm.
func (s *Stream) ask(ctx context.Context, subject string, body []byte) (*nats.Msg, error) {
	for {
		reply, err := s.rc.RequestWithContext(ctx, subject, body)
		if !errors.Is(err, nats.ErrReconnectBufExceeded) {
			return reply, err
		}
		select {
		case <-ctx.Done():
			return nil, errNoConnection
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// errNoConnection is what the client library calls a full buffer: we have it keep none.
var errNoConnection = errors.New("no connection to the engine")

// lookUp returns one stored message. On a cluster any replica may answer first, and one that lags has not everything
// that is stored: only the leader's word that something is not there counts.
func (s *Stream) lookUp(ctx context.Context, partition uint8, r getRequest) (message, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	body, err := json.Marshal(r)
	if err != nil {
		return message{}, err
	}
	reply, err := s.ask(ctx, directSubject(partition), body)
	if err == nil {
		if m, err := parseMessage(reply); err == nil {
			return m, nil
		}
	}
	if err != nil && !errors.Is(err, nats.ErrNoResponders) {
		return message{}, fmt.Errorf("read partition %d: %w", partition, err)
	}
	return s.askLeader(ctx, partition, body)
}

// askLeader returns one stored message from the leader.
func (s *Stream) askLeader(ctx context.Context, partition uint8, body []byte) (message, error) {
	reply, err := s.ask(ctx, leaderSubject(partition), body)
	if err != nil {
		return message{}, fmt.Errorf("read partition %d: %w", partition, err)
	}
	var answer struct {
		Error   *apiError `json:"error"`
		Message struct {
			Seq  uint64    `json:"seq"`
			Data []byte    `json:"data"`
			Time time.Time `json:"time"`
		} `json:"message"`
	}
	if err := json.Unmarshal(reply.Data, &answer); err != nil {
		return message{}, fmt.Errorf("read partition %d: %w", partition, err)
	}
	if answer.Error != nil {
		if answer.Error.Code == codeNoMessage {
			return message{}, ErrNotFound
		}
		return message{}, fmt.Errorf("read partition %d: %w", partition, answer.Error)
	}
	return message{seq: answer.Message.Seq, time: answer.Message.Time, data: answer.Message.Data}, nil
}

// parseMessage reads a direct answer. Anything but a stored message is ErrNotFound.
func parseMessage(m *nats.Msg) (message, error) {
	if m.Header.Get("Status") != "" {
		return message{}, ErrNotFound
	}
	seq, err := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
	if err != nil {
		return message{}, ErrNotFound
	}
	at, err := time.Parse(time.RFC3339Nano, m.Header.Get("Nats-Time-Stamp"))
	if err != nil {
		return message{}, ErrNotFound
	}
	return message{seq: seq, time: at, data: m.Data}, nil
}

// apiError is an error of JetStream's API.
type apiError struct {
	Code        int    `json:"err_code"`
	Description string `json:"description"`
}

// Error returns the engine's words.
func (e *apiError) Error() string { return e.Description }
