package engine

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// PartitionCopy describes a partition, so that the same one can be made in another engine.
type PartitionCopy struct {
	Stream  string    `json:"stream"`           // identity of the stream
	Created time.Time `json:"created,omitzero"` // see State; zero for a copy of a stream that goes on where it is
	// number of the oldest message; one more than Last where there is none
	First    uint64        `json:"first"`
	Last     uint64        `json:"last"` // number of the newest message
	MaxAge   time.Duration `json:"max_age"`
	MaxBytes int64         `json:"max_bytes"`
}

// DescribePartition describes a partition as it is now.
func (e *Engine) DescribePartition(ctx context.Context, p uint8) (PartitionCopy, error) {
	s, err := e.js.Stream(ctx, partitionName(p))
	var id string
	if err = translate(err); err == nil {
		id, err = e.identity(ctx)
	}
	if err != nil {
		return PartitionCopy{}, fmt.Errorf("describe partition %d: %w", p, err)
	}
	info := s.CachedInfo()
	return PartitionCopy{
		Stream: id, Created: created(info.Created, info.Config.Metadata), First: max(1, info.State.FirstSeq),
		Last:   info.State.LastSeq,
		MaxAge: info.Config.MaxAge, MaxBytes: info.Config.MaxBytes,
	}, nil
}

// created is when a partition was made, or the one that it continues.
func created(here time.Time, metadata map[string]string) time.Time {
	if before, err := time.Parse(time.RFC3339Nano, metadata[movedCreation]); err == nil {
		return before
	}
	return here
}

// MakePartitions makes the partitions of a stream that was copied, where there are none. Each begins where the copied
// one begins, without its messages; those that were not copied are empty. What names the stream and its numbers
// (submission ids, watermarks, and cursors where the copy has the time of creation) is valid for the new one.
func (e *Engine) MakePartitions(ctx context.Context, count int, copies []PartitionCopy) (*Partitions, error) {
	if len(copies) == 0 || copies[0].Stream == "" {
		return nil, errors.New("the copy does not say which stream it is of")
	}
	if count < len(copies) || count > MaxPartitions {
		return nil, fmt.Errorf("%w: there are %d, and there can be %d to %d", ErrPartitions, len(copies), len(copies),
			MaxPartitions)
	}
	for p, from := range copies {
		if err := e.makePartition(ctx, uint8(p), count, &from); err != nil {
			return nil, fmt.Errorf("make partition %d: %w", p, err)
		}
	}
	return e.Partitions(ctx, PartitionOptions{Count: count})
}

func (e *Engine) makePartition(ctx context.Context, p uint8, keyed int, from *PartitionCopy) error {
	metadata := map[string]string{keyedPartitions: strconv.Itoa(keyed), restoredIdentity: from.Stream}
	if !from.Created.IsZero() {
		metadata[movedCreation] = from.Created.UTC().Format(time.RFC3339Nano)
	}
	like := &jetstream.StreamConfig{MaxAge: from.MaxAge, MaxBytes: from.MaxBytes, Metadata: metadata}
	err := insist(ctx, func(ctx context.Context) error {
		_, err := e.js.CreateStream(ctx, e.partitionConfig(p, keyed, like, PartitionOptions{}))
		return translate(err)
	})
	if err != nil || from.First == 1 {
		return err
	}
	return insist(ctx, func(ctx context.Context) error { return e.Partition(p).Advance(ctx, from.First-1) })
}
