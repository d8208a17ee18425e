package stream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

func partitionName(p uint8) string { return "SLUICE_" + strconv.Itoa(int(p)) }
func frameSubject(p uint8) string  { return "SLUICE." + strconv.Itoa(int(p)) + ".frame" }
func oncePrefix(p uint8) string    { return "SLUICE." + strconv.Itoa(int(p)) + ".once." }
func directSubject(p uint8) string { return "$JS.API.DIRECT.GET." + partitionName(p) }
func leaderSubject(p uint8) string { return "$JS.API.STREAM.MSG.GET." + partitionName(p) }
func infoSubject(p uint8) string   { return "$JS.API.STREAM.INFO." + partitionName(p) }

// metaOnce names how many partitions hold keys. It is fixed when the stream is made: were it to follow the number of
// partitions, a key could be taken a second time in its new home.
const metaOnce = "sluice_once_partitions"

// openPartitions opens the partitions there are and makes those that are missing.
func (s *Stream) openPartitions(ctx context.Context) error {
	var there []jetstream.StreamConfig
	for p := range MaxPartitions {
		cur, err := s.e.JetStream().Stream(ctx, partitionName(uint8(p)))
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			break
		}
		if err != nil {
			return fmt.Errorf("partition %d: %w", p, err)
		}
		there = append(there, cur.CachedInfo().Config)
	}
	want := s.o.Partitions
	if want == 0 {
		want = max(1, len(there))
	}
	if want < len(there) {
		return fmt.Errorf("there are %d partitions; with %d the records of the others would not be read", len(there), want)
	}
	if want > MaxPartitions {
		return fmt.Errorf("%d partitions, there can be %d", want, MaxPartitions)
	}
	s.once = want
	if len(there) > 0 {
		n, err := strconv.Atoi(there[0].Metadata[metaOnce])
		if err != nil || n < 1 || n > len(there) {
			return fmt.Errorf("the stream %s is not one of ours", partitionName(0))
		}
		s.once = n
	}
	for p := range want {
		var cur *jetstream.StreamConfig
		if p < len(there) {
			cur = &there[p]
		}
		if err := s.openPartition(ctx, uint8(p), cur); err != nil {
			return fmt.Errorf("partition %d: %w", p, err)
		}
		s.lanes = append(s.lanes, newLane(s, uint8(p)))
	}
	return nil
}

// openPartition makes the JetStream stream of a partition, or brings the limits of the one there is up to date.
func (s *Stream) openPartition(ctx context.Context, p uint8, cur *jetstream.StreamConfig) error {
	cfg := jetstream.StreamConfig{
		Name:        partitionName(p),
		Description: "Sluice submissions",
		Subjects:    []string{frameSubject(p), oncePrefix(p) + "*"},
		Retention:   jetstream.LimitsPolicy,
		Storage:     jetstream.FileStorage,
		Discard:     jetstream.DiscardNew,
		MaxAge:      72 * time.Hour, // keys must be known for 48 h, and the loader may be away over a weekend
		MaxBytes:    -1,
		Replicas:    max(1, s.e.Replicas()),
		Compression: jetstream.NoCompression,
		AllowDirect: true,
		Metadata:    map[string]string{metaOnce: strconv.Itoa(s.once)},
	}
	if cur != nil {
		cfg.MaxAge, cfg.MaxBytes = cur.MaxAge, cur.MaxBytes
		if s.e.Replicas() == 0 {
			cfg.Replicas = cur.Replicas
		}
	}
	if s.o.MaxAge != 0 {
		cfg.MaxAge = s.o.MaxAge
	}
	if s.o.MaxBytes != 0 {
		cfg.MaxBytes = max(-1, s.o.MaxBytes)
	}
	// Nothing relies on the duplicate window, and a long one costs start-up time.
	cfg.Duplicates = min(time.Second, cfg.MaxAge)
	if cur != nil && cur.MaxAge == cfg.MaxAge && cur.MaxBytes == cfg.MaxBytes && cur.Replicas == cfg.Replicas {
		return nil
	}
	if _, err := s.e.JetStream().CreateOrUpdateStream(ctx, cfg); err != nil {
		return fmt.Errorf("with %d replicas: %w", cfg.Replicas, err)
	}
	return nil
}

// KeepsFor says how long the stream keeps a record at the longest.
func (s *Stream) KeepsFor(ctx context.Context) (time.Duration, error) {
	var longest time.Duration
	for _, l := range s.lanes {
		info, err := s.e.JetStream().Stream(ctx, partitionName(l.part))
		if err != nil {
			return 0, fmt.Errorf("partition %d: %w", l.part, err)
		}
		longest = max(longest, info.CachedInfo().Config.MaxAge)
	}
	return longest, nil
}
