package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// readTimeout bounds one question to the engine when the caller's context does not.
const readTimeout = 5 * time.Second

// MaxPartitions is how many partitions there can be; a submission id has 6 bits for one.
const MaxPartitions = 64

// ErrPartitions means a number of partitions that cannot be opened.
var ErrPartitions = errors.New("engine: not a possible number of partitions")

// PartitionOptions are the limits of the partitions. Zero means as they are.
type PartitionOptions struct {
	Count    int           // may grow, never shrink; without any there is 1
	MaxAge   time.Duration // how long a message is kept; without any partition 72 h
	MaxBytes int64         // of each partition; negative means no limit
}

// Partitions are all partitions of the stream, with a connection for reading, so that reading does not delay
// acknowledgements.
type Partitions struct {
	List  []*Partition
	Keyed int    // the first so many hold keyed messages, fixed when the first partition was made
	ID    string // of the stream: the time at which its first partition was made
	rc    *nats.Conn
}

// Close ends the connection for reading.
func (ps *Partitions) Close() { ps.rc.Close() }

// At returns a partition for reading, also one that was added after Partitions was called.
func (ps *Partitions) At(p uint8) *Partition {
	if int(p) < len(ps.List) {
		return ps.List[p]
	}
	return ps.List[0].e.partition(p, ps.rc)
}

// Partition returns a partition for single questions, whether or not it exists. Commands need no connection of their
// own for reading.
func (e *Engine) Partition(p uint8) *Partition { return e.partition(p, e.nc) }

func (e *Engine) partition(p uint8, reading *nats.Conn) *Partition {
	return &Partition{e: e, rc: reading, id: p, name: partitionName(p), subject: frameSubject(p)}
}

// Partition is one durable log of messages, numbered from 1 on. Its methods may be called by many goroutines.
type Partition struct {
	e       *Engine
	rc      *nats.Conn
	id      uint8
	name    string // of the JetStream stream
	subject string
}

// Partitions opens the partitions there are and makes those that are missing. On a cluster with a record, the record
// decides and not the options. Settings of a partition that somebody changed are put right where that takes nothing
// away. A first start that was interrupted, or several at the same time, end with the number that the first one wanted.
func (e *Engine) Partitions(ctx context.Context, o PartitionOptions) (*Partitions, error) {
	if r := e.record.Load(); r != nil { // which Agree held against the flags
		o = r.limits()
	}
	there, err := insistOn(ctx, e.findPartitions)
	if err != nil {
		return nil, err
	}
	want, keyed, err := count(there, o.Count)
	if err != nil {
		return nil, err
	}
	ps := &Partitions{Keyed: keyed}
	var first *jetstream.StreamConfig
	for p := 0; p < max(want, ps.Keyed); p++ {
		var cur *jetstream.StreamConfig
		if p < len(there) {
			cur = &there[p]
		}
		made, err := insistOn(ctx, func(ctx context.Context) (*jetstream.StreamConfig, error) {
			return e.openPartition(ctx, uint8(p), ps.Keyed, cur, first, o)
		})
		if err != nil {
			return nil, fmt.Errorf("partition %d: %w", p, err)
		}
		if p == 0 { // another node may have made it
			first = made
			if ps.Keyed, err = keyedOf(first); err != nil {
				return nil, err
			}
		}
	}
	if ps.ID, err = insistOn(ctx, e.identity); err != nil {
		return nil, err
	}
	if e.record.Load() != nil {
		if _, err := e.Agree(ctx, Record{Stream: ps.ID}); err != nil {
			return nil, err
		}
	}
	if ps.rc, err = e.dialReader(); err != nil {
		return nil, err
	}
	for p := range max(want, ps.Keyed) {
		ps.List = append(ps.List, e.partition(uint8(p), ps.rc))
	}
	return ps, nil
}

// insist repeats what may be done twice while the engine does not answer: a cluster that chooses a leader, or that
// makes the same stream for another node, loses the question.
func insist(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, insistFor)
	defer cancel()
	for {
		try, stop := context.WithTimeout(ctx, 5*time.Second)
		err := do(try)
		stop()
		if !errors.Is(err, ErrTimeout) && !errors.Is(err, ErrUnavailable) || ctx.Err() != nil {
			return err
		}
		if pause(ctx, 100*time.Millisecond) != nil {
			return err
		}
	}
}

// insistOn is insist for what has a result.
func insistOn[T any](ctx context.Context, do func(context.Context) (T, error)) (out T, err error) {
	err = insist(ctx, func(ctx context.Context) error {
		out, err = do(ctx)
		return err
	})
	return out, err
}

// pause waits, and returns an error if ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// insistFor is how long a start waits for an engine that does not answer (arbitrary: an election takes up to 8 s).
const insistFor = 20 * time.Second

// identity tells this stream from another one that had or will have its name.
func (e *Engine) identity(ctx context.Context) (string, error) {
	first, err := e.js.Stream(ctx, partitionName(0))
	if err != nil {
		return "", translate(err)
	}
	if before := first.CachedInfo().Config.Metadata[restoredIdentity]; before != "" {
		return before, nil
	}
	return first.CachedInfo().Created.UTC().Format("20060102T150405.000000000Z"), nil
}

// Limits are those of the partitions that are there. Without any, Count is 0 and the others are those of a new stream.
func (e *Engine) Limits(ctx context.Context) (PartitionOptions, error) {
	there, err := e.findPartitions(ctx)
	if err != nil || len(there) == 0 {
		return PartitionOptions{MaxAge: frameAge, MaxBytes: -1}, err
	}
	return PartitionOptions{Count: len(there), MaxAge: there[0].MaxAge, MaxBytes: there[0].MaxBytes}, nil
}

// findPartitions returns the configurations of the partitions there are.
func (e *Engine) findPartitions(ctx context.Context) ([]jetstream.StreamConfig, error) {
	var there []jetstream.StreamConfig
	for p := range MaxPartitions {
		cur, err := e.js.Stream(ctx, partitionName(uint8(p)))
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("partition %d: %w", p, translate(err))
		}
		if err := checkVersion(cur.CachedInfo().Config.Metadata); err != nil {
			return nil, fmt.Errorf("partition %d: %w", p, err)
		}
		there = append(there, cur.CachedInfo().Config)
	}
	return there, nil
}

// count returns how many partitions there must be, and how many of them hold keys.
func count(there []jetstream.StreamConfig, want int) (all, keyed int, err error) {
	if want > MaxPartitions {
		return 0, 0, fmt.Errorf("%w: %d, there can be %d", ErrPartitions, want, MaxPartitions)
	}
	if len(there) == 0 {
		return max(1, want), max(1, want), nil
	}
	keyed, err = keyedOf(&there[0])
	if err != nil {
		return 0, 0, err
	}
	// Fewer partitions than hold keys means that the first start did not get to the end.
	least := max(len(there), keyed)
	if want != 0 && want < least {
		return 0, 0, fmt.Errorf("%w: there are %d partitions; with %d the records of the others would not be read",
			ErrPartitions, least, want)
	}
	return max(want, least), keyed, nil
}

// keyedOf returns how many partitions hold keys.
func keyedOf(first *jetstream.StreamConfig) (int, error) {
	n, err := strconv.Atoi(first.Metadata[keyedPartitions])
	if err != nil || n < 1 || n > MaxPartitions {
		return 0, fmt.Errorf("the stream %s was not made by Sluice", partitionName(0))
	}
	return n, nil
}

// openPartition makes the JetStream stream of a partition, with the limits of the first one unless Options name others;
// or changes the limits of the one there is, cur.
func (e *Engine) openPartition(
	ctx context.Context, p uint8, keyed int, cur, first *jetstream.StreamConfig, o PartitionOptions,
) (*jetstream.StreamConfig, error) {
	if cur == nil {
		made, err := e.js.CreateStream(ctx, e.partitionConfig(p, keyed, first, o))
		if err == nil {
			return &made.CachedInfo().Config, nil
		}
		if !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return nil, fmt.Errorf("with %d replicas: %w", max(1, e.Copies()), translate(err))
		}
		there, err := e.js.Stream(ctx, partitionName(p)) // another node made it, with limits of its own
		if err != nil {
			return nil, translate(err)
		}
		cur = &there.CachedInfo().Config
	}
	if err := e.agrees(cur, o); err != nil {
		return nil, err
	}
	want := e.partitionConfig(p, keyed, cur, o)
	strange := drift(cur, &want)
	if len(strange) == 0 && cur.MaxAge == want.MaxAge && cur.MaxBytes == want.MaxBytes && cur.Replicas == want.Replicas {
		return cur, nil
	}
	if len(strange) > 0 {
		e.log.Warn("somebody changed the settings of a stream in the engine; they are put right", "stream", want.Name,
			"settings", strings.Join(strange, ", "))
	}
	s, err := e.js.UpdateStream(ctx, want)
	if err != nil {
		return nil, fmt.Errorf("with %d replicas: %w", want.Replicas, translate(err))
	}
	return &s.CachedInfo().Config, nil
}

// partitionConfig is how a partition must be, given how it is, or how the first one is; nil means that there is none.
func (e *Engine) partitionConfig(p uint8, keyed int, cur *jetstream.StreamConfig,
	o PartitionOptions,
) jetstream.StreamConfig {
	cfg := jetstream.StreamConfig{
		Name:        partitionName(p),
		Description: "Sluice submissions",
		Subjects:    []string{frameSubject(p), keyPrefix(p) + "*"},
		Retention:   jetstream.LimitsPolicy,
		Storage:     jetstream.FileStorage,
		Discard:     jetstream.DiscardNew,
		MaxAge:      frameAge,
		MaxBytes:    -1,
		Replicas:    max(1, e.Copies()),
		Compression: jetstream.NoCompression,
		AllowDirect: true,
		Metadata:    map[string]string{keyedPartitions: strconv.Itoa(keyed)},

		AllowAtomicPublish: true, // see PublishBatch
	}
	if cur != nil {
		cfg.MaxAge, cfg.MaxBytes, cfg.Metadata = cur.MaxAge, cur.MaxBytes, cur.Metadata
		cfg.Replicas = max(cur.Replicas, e.Copies()) // leaving a flag out must not take copies away
	}
	if o.MaxAge != 0 {
		cfg.MaxAge = o.MaxAge
	}
	if o.MaxBytes != 0 {
		cfg.MaxBytes = max(-1, o.MaxBytes)
	}
	cfg.Metadata = withVersion(cfg.Metadata)
	cfg.Duplicates = min(duplicateWindow, cfg.MaxAge)
	return cfg
}

// dialReader opens one more connection to the same engine.
func (e *Engine) dialReader() (*nats.Conn, error) {
	o := e.nc.Opts
	o.Name = readName
	nc, err := o.Connect()
	if err != nil {
		return nil, fmt.Errorf("connect to the %s engine: %w", e.mode, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.readers = append(slices.DeleteFunc(e.readers, (*nats.Conn).IsClosed), nc)
	return nc, nil
}

// MaxMessage is how many bytes a message may have, less what its subject, its header and its frame may need.
func (e *Engine) MaxMessage() int { return int(e.nc.MaxPayload()) - 64<<10 }

// Connection numbers the connections: what was sent over one with a lower number gets no acknowledgement any more.
func (e *Engine) Connection() uint64 { return e.nc.Stats().Reconnects }

// Advance gives up every sequence number up to seq, with what is stored under it. The next message has a higher one.
func (p *Partition) Advance(ctx context.Context, seq uint64) error {
	s, err := p.e.js.Stream(ctx, partitionName(p.id))
	if err == nil {
		err = s.Purge(ctx, jetstream.WithPurgeSequence(seq+1))
	}
	return translate(err)
}

// ack is the engine's answer to a publish.
type ack struct {
	Seq   uint64    `json:"seq"`
	Error *apiError `json:"error"`
}

// Publish stores a message and returns its sequence number once it is on stable storage. After ErrFull and ErrNoLeader
// it is not stored; after ErrTimeout, any other ErrUnavailable or the end of ctx it may or may not be.
func (p *Partition) Publish(ctx context.Context, data []byte) (uint64, error) {
	return p.publish(ctx, &nats.Msg{Subject: p.subject, Data: data})
}

// PublishNew is Publish for a message with a key, unless one with the same key is stored or on its way: then it returns
// ErrExists. The engine decides, so this holds between processes and after any crash. A key may have the letters, the
// digits, - and _.
func (p *Partition) PublishNew(ctx context.Context, key string, data []byte) (uint64, error) {
	return p.publish(ctx, p.keyed(key, data))
}

// PublishAfter is Publish for a message that must follow the one with a number: if that one is not the last, nothing is
// stored, and it returns ErrRevision.
func (p *Partition) PublishAfter(ctx context.Context, last uint64, data []byte) (uint64, error) {
	seq, err := p.publish(ctx, p.following(last, data))
	return seq, changed(err)
}

// keyed is a message that is stored only if there is none with its key.
func (p *Partition) keyed(key string, data []byte) *nats.Msg {
	header := nats.Header{"Nats-Expected-Last-Subject-Sequence": {"0"}}
	return &nats.Msg{Subject: keyPrefix(p.id) + key, Data: data, Header: header}
}

// following is a message that is stored only if the one with a number is the last.
func (p *Partition) following(last uint64, data []byte) *nats.Msg {
	header := nats.Header{"Nats-Expected-Last-Sequence": {strconv.FormatUint(last, 10)}}
	return &nats.Msg{Subject: p.subject, Data: data, Header: header}
}

func (p *Partition) publish(ctx context.Context, m *nats.Msg) (uint64, error) {
	reply, err := p.e.nc.RequestMsgWithContext(ctx, m)
	if err != nil {
		switch {
		case ctx.Err() != nil:
			return 0, ErrTimeout
		case errors.Is(err, nats.ErrNoResponders):
			return 0, ErrNoLeader
		}
		return 0, translate(err)
	}
	return acknowledged(reply)
}

// acknowledged reads the engine's answer to a publish.
func acknowledged(reply *nats.Msg) (uint64, error) {
	if len(reply.Data) == 0 && reply.Header.Get("Status") != "" {
		return 0, ErrNoLeader
	}
	var a ack
	if err := json.Unmarshal(reply.Data, &a); err != nil {
		return 0, fmt.Errorf("%w: unreadable acknowledgement", ErrUnavailable)
	}
	if a.Error != nil {
		return 0, a.Error.asError()
	}
	return a.Seq, nil
}
