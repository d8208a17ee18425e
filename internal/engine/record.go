package engine

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// recordKey is where the record is in the bucket of settings.
const recordKey = "cluster"

// Record is what all nodes of a cluster agree on. It is in the engine once. The first node to start makes it; from then
// on Change alone changes it. Zero means: not decided yet, or, in what a node wants, not said.
type Record struct {
	Cluster         string        `json:"cluster"`          // names the cluster; made with the record
	Stream          string        `json:"stream,omitempty"` // identity of the stream
	Replicas        int           `json:"replicas"`         // copies of everything in the engine
	Partitions      int           `json:"partitions"`
	StreamRetention time.Duration `json:"stream_retention"`
	MaxStream       int64         `json:"max_stream"`           // bytes of each partition; -1 is no limit
	MaxKeys         int           `json:"max_idempotency_keys"` // in use at one time
	Lake            string        `json:"lake,omitempty"`       // where the tables are
	LakeID          string        `json:"lake_id,omitempty"`    // identity of the tables there

	TableRetention    time.Duration `json:"table_retention"` // of rows; -1 is for ever
	SnapshotRetention time.Duration `json:"snapshot_retention"`
	// when an operator said that all rows older than TableRetention may go
	RetentionConfirmed time.Time `json:"retention_confirmed,omitzero"`
}

// What a node that says nothing gets where nothing is decided yet.
const (
	DefaultStreamRetention   = frameAge
	DefaultTableRetention    = 400 * 24 * time.Hour // 13 months: a month can be held against the one a year before
	DefaultSnapshotRetention = 24 * time.Hour       // readers run for hours
)

// DefaultMaxKeys is how many idempotency keys a cluster may have in use: some 1.4 GB of memory in each NATS server that
// holds them. Arbitrary, because nobody here knows how much memory these servers have.
const DefaultMaxKeys = 8 << 20

// ErrDisagree means that a node wants what the engine does not have. Nodes that share an engine are started one by one
// with flags of their own: the last one must not take copies, or time, away from all.
var ErrDisagree = errors.New("the flags of this node and the engine disagree")

// differences names every value that want says and that the record has otherwise.
func (r *Record) differences(want *Record) error {
	var all []string
	differ := func(what string, said bool, is, wanted any) {
		if said && is != wanted {
			all = append(all, fmt.Sprintf("%s is %v in the cluster and %v here", what, is, wanted))
		}
	}
	differ("the number of replicas", want.Replicas != 0, r.Replicas, want.Replicas)
	differ("the number of partitions", want.Partitions != 0, r.Partitions, want.Partitions)
	differ("the stream retention", want.StreamRetention != 0, r.StreamRetention, want.StreamRetention)
	differ("the size limit of a partition", want.MaxStream != 0, bytesText(r.MaxStream), bytesText(want.MaxStream))
	differ("the number of idempotency keys", want.MaxKeys != 0, r.MaxKeys, want.MaxKeys)
	differ("the table retention", want.TableRetention != 0 && r.TableRetention != 0, AgeText(r.TableRetention),
		AgeText(want.TableRetention))
	differ("the snapshot retention", want.SnapshotRetention != 0 && r.SnapshotRetention != 0,
		AgeText(r.SnapshotRetention), AgeText(want.SnapshotRetention))
	differ("the stream", want.Stream != "" && r.Stream != "", r.Stream, want.Stream)
	differ("the lake", want.Lake != "" && r.Lake != "", r.Lake, want.Lake)
	differ("the identity of the tables", want.LakeID != "" && r.LakeID != "", r.LakeID, want.LakeID)
	if len(all) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s; correct the flags of this node, or change the cluster with: sluice cluster set",
		ErrDisagree, strings.Join(all, "; "))
}

func bytesText(n int64) string {
	if n < 0 {
		return "unlimited"
	}
	return fmt.Sprint(n, " bytes")
}

// AgeText is a retention as flags have it, or "for ever".
func AgeText(d time.Duration) string {
	switch {
	case d < 0:
		return "for ever"
	case d%(24*time.Hour) == 0:
		return fmt.Sprint(int(d/(24*time.Hour)), "d")
	}
	return d.String()
}

// fill takes over what the record does not say yet, and reports whether there was something.
func (r *Record) fill(want *Record) bool {
	before := *r
	r.Stream = cmp.Or(r.Stream, want.Stream)
	// Where only the identity of the tables is known, what has other tables does not say where they are.
	if r.LakeID == "" || r.LakeID == want.LakeID {
		r.Lake = cmp.Or(r.Lake, want.Lake)
	}
	r.LakeID = cmp.Or(r.LakeID, want.LakeID)
	r.TableRetention = cmp.Or(r.TableRetention, want.TableRetention, DefaultTableRetention)
	r.SnapshotRetention = cmp.Or(r.SnapshotRetention, want.SnapshotRetention, DefaultSnapshotRetention)
	return *r != before
}

// Agree holds what a node wants against the record and returns the record. Without one it makes it from what the node
// wants. An engine that is not shared has no record: then Agree returns what the node wants.
func (e *Engine) Agree(ctx context.Context, want Record) (Record, error) {
	if e.mode != External {
		return want, nil
	}
	b, err := e.Bucket(ctx, Settings)
	if err != nil {
		return Record{}, err
	}
	var r Record
	var writes bool
	err = b.Change(ctx, recordKey, func(before []byte) (_ []byte, err error) {
		writes = false
		if before == nil {
			r, err = e.firstRecord(ctx, want)
		} else if r, err = decodeRecord(before); err == nil {
			err = r.differences(&want)
		}
		if err != nil {
			return nil, err
		}
		if writes = r.fill(&want) || before == nil; !writes {
			return nil, nil
		}
		return json.Marshal(r)
	})
	switch {
	case err == nil:
		return r, e.adopt(&r)
	case writes:
		err = fmt.Errorf("write the cluster's configuration: %w", err)
	}
	return Record{}, err
}

// adopt makes the record the one that this engine goes by.
func (e *Engine) adopt(r *Record) error {
	if e.o.Replicas != 0 && e.o.Replicas != r.Replicas {
		return (&Record{Replicas: r.Replicas}).differences(&Record{Replicas: e.o.Replicas})
	}
	e.record.Store(r)
	return nil
}

// firstRecord is the record of a cluster that has none: what the node wants. A command may have made the stream before.
func (e *Engine) firstRecord(ctx context.Context, want Record) (Record, error) {
	if m, err := readMembership(e.o.Dir); err != nil || m.Cluster != "" {
		return Record{}, errors.Join(err,
			fmt.Errorf("the data directory %s belongs to a node of the cluster %s, and the servers at --nats hold no "+
				"cluster: they are other servers, or have lost their disks", e.o.Dir, m.Cluster))
	}
	there, err := e.findPartitions(ctx)
	if err != nil {
		return Record{}, err
	}
	count, _, err := count(there, want.Partitions)
	if err != nil {
		return Record{}, err
	}
	r := want
	r.Cluster, r.Partitions = rand.Text(), count
	r.Replicas = max(1, r.Replicas, e.Copies())
	r.StreamRetention = cmp.Or(r.StreamRetention, frameAge)
	r.MaxStream = cmp.Or(r.MaxStream, -1)
	r.MaxKeys = cmp.Or(r.MaxKeys, DefaultMaxKeys)
	if len(there) > 0 {
		err = e.agrees(&there[0], r.limits())
	}
	return r, err
}

// Record returns the record, or ErrNotFound: no node has been started yet, or the engine is not shared.
func (e *Engine) Record(ctx context.Context) (Record, error) {
	if e.mode != External {
		return Record{}, ErrNotFound
	}
	kv, err := e.js.KeyValue(ctx, buckets[Settings].name)
	if err != nil {
		return Record{}, translate(err)
	}
	found, err := e.bucket(kv).Get(ctx, recordKey)
	if err != nil {
		return Record{}, err
	}
	return decodeRecord(found.Value)
}

func decodeRecord(b []byte) (Record, error) {
	var r struct {
		Record
		Unfinished bool `json:"unfinished"` // see Restore
	}
	err := json.Unmarshal(b, &r)
	if err == nil && r.Unfinished {
		return Record{}, ErrUnfinished
	}
	if err != nil || r.Cluster == "" || r.Replicas < 1 || r.Partitions < 1 {
		return Record{}, errors.New("the cluster's configuration in the engine cannot be read")
	}
	return r.Record, nil
}

// Change changes the record, then every stream and bucket. A change that was interrupted in between is completed by the
// same change again.
func (e *Engine) Change(ctx context.Context, change func(*Record) error) (Record, error) {
	if e.mode != External {
		return Record{}, errors.New("this engine is not shared: the flags of its server decide")
	}
	b, err := e.Bucket(ctx, Settings)
	if err != nil {
		return Record{}, err
	}
	var r Record
	err = b.Change(ctx, recordKey, func(before []byte) (_ []byte, err error) {
		if before == nil {
			return nil, errors.New("there is no cluster yet: the first sluice serve --nats makes it")
		}
		if r, err = decodeRecord(before); err != nil {
			return nil, err
		}
		cluster, partitions := r.Cluster, r.Partitions
		if err := change(&r); err != nil {
			return nil, err
		}
		if r.Cluster = cluster; r.Partitions < partitions || r.Partitions > MaxPartitions {
			return nil, fmt.Errorf("%w: there are %d, and there can be %d to %d", ErrPartitions, partitions, partitions,
				MaxPartitions)
		}
		return json.Marshal(r)
	})
	if err != nil {
		return r, err
	}
	e.record.Store(&r)
	return r, e.apply(ctx, &r)
}

// apply makes every stream and bucket as the record says, also where that is less than before.
func (e *Engine) apply(ctx context.Context, r *Record) error {
	there, err := e.findPartitions(ctx)
	if err != nil {
		return err
	}
	keyed := r.Partitions
	if len(there) > 0 {
		if keyed, err = keyedOf(&there[0]); err != nil {
			return err
		}
	}
	for p := range max(r.Partitions, len(there)) {
		if p >= len(there) {
			_, err := e.js.CreateStream(ctx, e.partitionConfig(uint8(p), keyed, nil, r.limits()))
			if err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
				return fmt.Errorf("partition %d: %w", p, translate(err))
			}
			continue
		}
		want := e.partitionConfig(uint8(p), keyed, &there[p], r.limits())
		want.Replicas = r.Replicas
		if _, err := e.js.UpdateStream(ctx, want); err != nil {
			return fmt.Errorf("partition %d with %d replicas: %w", p, r.Replicas, translate(err))
		}
	}
	for k := range journals {
		if err := e.applyJournal(ctx, JournalKind(k)); err != nil {
			return fmt.Errorf("%s with %d replicas: %w", journals[k].name, r.Replicas, translate(err))
		}
	}
	for k := range buckets {
		_, err := e.js.UpdateKeyValue(ctx, e.bucketConfig(Kind(k), r.Replicas))
		if err != nil && !errors.Is(err, jetstream.ErrBucketNotFound) {
			return fmt.Errorf("bucket %s with %d replicas: %w", buckets[k].name, r.Replicas, translate(err))
		}
	}
	return nil
}

// applyJournal makes a journal as the record says, if there is one.
func (e *Engine) applyJournal(ctx context.Context, k JournalKind) error {
	cur, err := e.js.Stream(ctx, journals[k].name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	want, err := e.journalConfig(ctx, k)
	if err != nil {
		return err
	}
	maps.Copy(want.Metadata, cur.CachedInfo().Config.Metadata)
	_, err = e.js.UpdateStream(ctx, want)
	return err
}

// agrees says whether the options may be applied to a partition that is there.
func (e *Engine) agrees(cur *jetstream.StreamConfig, o PartitionOptions) error {
	if e.mode != External { // nobody else decides
		return nil
	}
	switch {
	case e.Copies() != 0 && e.Copies() < cur.Replicas:
		return fmt.Errorf("%w: %d replicas are asked for, there are %d", ErrDisagree, e.Copies(), cur.Replicas)
	case o.MaxAge != 0 && cur.MaxAge != 0 && o.MaxAge < cur.MaxAge:
		return fmt.Errorf("%w: the stream shall retain events for %v, it retains them for %v", ErrDisagree, o.MaxAge,
			cur.MaxAge)
	case o.MaxBytes > 0 && (cur.MaxBytes <= 0 || o.MaxBytes < cur.MaxBytes):
		return fmt.Errorf("%w: a partition shall hold %d bytes, it may hold %d (-1 is no limit)", ErrDisagree, o.MaxBytes,
			cur.MaxBytes)
	}
	return nil
}

// drift names the settings of a partition or the journal that are not as Sluice makes them and that no option changes.
// With another discard policy, for example, a full partition would drop its oldest events instead of rejecting new
// ones.
func drift(cur, want *jetstream.StreamConfig) []string {
	var names []string
	for name, differs := range map[string]bool{
		"subjects":             !slices.Equal(cur.Subjects, want.Subjects),
		"retention policy":     cur.Retention != want.Retention,
		"discard policy":       cur.Discard != want.Discard || cur.DiscardNewPerSubject,
		"storage":              cur.Storage != want.Storage,
		"compression":          cur.Compression != want.Compression,
		"direct reads":         cur.AllowDirect != want.AllowDirect,
		"batches":              cur.AllowAtomicPublish != want.AllowAtomicPublish,
		"acknowledgements":     cur.NoAck,
		"messages":             max(0, cur.MaxMsgs) != want.MaxMsgs,
		"messages per subject": cur.MaxMsgsPerSubject > 0,
		"message size":         cur.MaxMsgSize > 0,
	} {
		if differs {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Copies is how many copies everything has: as the record says, or as the options do where there is none.
func (e *Engine) Copies() int {
	if r := e.record.Load(); r != nil {
		return r.Replicas
	}
	return e.o.Replicas
}

// limits are the limits of the partitions as the record has them.
func (r *Record) limits() PartitionOptions {
	return PartitionOptions{Count: r.Partitions, MaxAge: r.StreamRetention, MaxBytes: r.MaxStream}
}
