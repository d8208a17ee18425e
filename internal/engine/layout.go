package engine

import (
	"strconv"
	"strings"
	"time"
)

// Everything that Sluice keeps in the engine has its name, its age and its number of copies here and nowhere else.
//
//	name             kind       what                                                    kept for
//	SLUICE_<n>       stream     frames of partition n                                   72 h, or as the operator says
//	SLUICE_AUDIT     stream     what operators did, see Journal                         the newest 200,000
//	SLUICE_ERASED    stream     which events were erased, see Journal                   as long as frames
//	SLUICE_DATASETS  key-value  datasets, and hashes of their keys                      for ever
//	SLUICE_READERS   key-value  readers, and hashes of their tokens                     for ever
//	SLUICE_KEY_USE   key-value  when each key was last used                             for ever
//	SLUICE_ENDS      key-value  the end of each partition, and how far it is loaded     for ever
//	SLUICE_SETTINGS  key-value  what all nodes share: settings and secrets              for ever
//	SLUICE_ERASURES  key-value  tombstones of erased identifiers: keyed digests         90 days, or as long as frames
//	SLUICE_SUPPRESS  key-value  identifiers whose events are suppressed: keyed digests  until they are removed
//	SLUICE_ALARMS    key-value  alarms that last, and the last ones                     the last 1,000
//	SLUICE_LEASES    key-value  which process does a job that one process does          9 s after the last renewal
//	SLUICE_NODES     key-value  which nodes run, and what each loads                    15 s after the last heartbeat
//	SLUICE_NEWS.*    subject    "something changed": not stored, may get lost           –
//
// Each stream and bucket has Options.Replicas copies. Every name begins with SLUICE, because other programs may use the
// same account of a NATS server. Each has the version of what is in it, see formatVersion.

// Kind names one of the key-value buckets.
type Kind uint8

// The buckets.
const (
	Datasets    Kind = iota // datasets, and hashes of their keys
	StreamEnds              // the end of each partition, and how far it is loaded
	Settings                // what all nodes share
	Readers                 // readers, and hashes of their tokens
	KeyUse                  // when each key was last used
	Nodes                   // which nodes run
	Erasures                // tombstones of erased identifiers
	Alarms                  // alarms that last, and the last ones
	Suppression             // keyed digests of identifiers whose events are suppressed
	leases                  // see Lease
)

// NodeAge is how long a node counts as running after its last heartbeat. Arbitrary: it sends five in this time.
const NodeAge = 15 * time.Second

// leaseAge is how long a lease outlives the last renewal. Arbitrary: a process renews it four times in this time.
const leaseAge = 9 * time.Second

// buckets is the table of the buckets, by Kind.
var buckets = [...]struct {
	name, description string
	age               time.Duration // 0 means for ever
}{
	Datasets:   {name: "SLUICE_DATASETS", description: "Sluice datasets and key hashes"},
	StreamEnds: {name: "SLUICE_ENDS", description: "Sluice stream ends"},
	Settings:   {name: "SLUICE_SETTINGS", description: "Sluice settings and secrets that all nodes share"},
	Readers:    {name: "SLUICE_READERS", description: "Sluice readers and token hashes"},
	KeyUse:     {name: "SLUICE_KEY_USE", description: "Sluice last use of keys"},
	Nodes:      {name: "SLUICE_NODES", description: "Sluice nodes", age: NodeAge},
	// their owner forgets them
	Erasures: {name: "SLUICE_ERASURES", description: "Sluice tombstones of erased identifiers"},
	// their owner forgets them
	Alarms:      {name: "SLUICE_ALARMS", description: "Sluice alarms"},
	Suppression: {name: "SLUICE_SUPPRESS", description: "Sluice suppression list: keyed digests of identifiers"},
	leases:      {name: "SLUICE_LEASES", description: "Sluice leases", age: leaseAge},
}

const (
	// frameAge is how long a partition keeps a frame unless the operator says otherwise: idempotency keys must be known
	// for 48 h, and the loader may be down over a weekend.
	frameAge = 72 * time.Hour
	// duplicateWindow is as short as NATS allows it to be useful: nothing relies on it, and a long one costs start-up
	// time.
	duplicateWindow = time.Second
	// keyedPartitions names, in the metadata of a partition, how many partitions hold keyed records. It is fixed when
	// the first partition is made: were it to follow the number of partitions, a key could be used twice.
	keyedPartitions = "sluice_once_partitions"
	// movedCreation has, in the metadata of a partition of a stream that was moved here, when the one that it continues
	// was made. Cursors of the feed name that time.
	movedCreation = "sluice_moved_creation"
	// restoredIdentity has, in the metadata of the first partition, the identity of the stream that it is a copy of. The
	// tables that were loaded from that stream go on with the copy.
	restoredIdentity = "sluice_restored_identity"
)

// JournalEntries bounds the audit log (arbitrary: some 64 MiB). A bound in bytes would be reserved on the disk at once.
const JournalEntries = 200_000

// JournalKind names one of the journals.
type JournalKind uint8

// The journals.
const (
	AuditJournal  JournalKind = iota // what operators did
	ErasedJournal                    // which events were erased
)

// journals is the table of the journals, by JournalKind.
var journals = [...]struct {
	name, description string
	entries           int64 // the newest that are kept; 0 means as long as frames
}{
	AuditJournal:  {name: "SLUICE_AUDIT", description: "Sluice audit log", entries: JournalEntries},
	ErasedJournal: {name: "SLUICE_ERASED", description: "Sluice ids of erased events"},
}

func partitionName(p uint8) string { return "SLUICE_" + strconv.Itoa(int(p)) }
func frameSubject(p uint8) string  { return "SLUICE." + strconv.Itoa(int(p)) + ".frame" }
func keyPrefix(p uint8) string     { return "SLUICE." + strconv.Itoa(int(p)) + ".keyed." }

// keyOf returns the key that a subject of keyPrefix ends with, "" for another subject.
func keyOf(subject string) string {
	_, key, _ := strings.Cut(subject, ".keyed.")
	return key
}

func newsSubject(topic string) string {
	return "SLUICE_NEWS." + topic
}
