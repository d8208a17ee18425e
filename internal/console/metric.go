package console

import (
	"strconv"
	"time"

	"sluice/internal/api"
	"sluice/internal/feed"
	"sluice/internal/histogram"
	"sluice/internal/iceberg"
)

// The types of metric.
const (
	counter      = "counter"
	gauge        = "gauge"
	distribution = "histogram"
)

// Metric is one number that /metrics gives out. The endpoint, docs/metrics.md, the dashboard and the alert rules
// are made from the one table of them; a name that is not in it is used nowhere.
type Metric struct {
	Name   string
	Type   string
	Help   string
	Labels []string

	read    func(*state, put)
	measure func(*state, putHistogram)
}

// Metrics is the table.
var Metrics = []Metric{
	{
		Name: "sluice_build_info", Type: gauge, Help: "Always 1; the label names the version.", Labels: []string{"version"},
		read: func(s *state, p put) { p(1, s.version) },
	},
	{
		Name: "sluice_start_time_seconds", Type: gauge, Help: "When the node began, in Unix seconds.",
		read: one(func(s *state) float64 { return unix(s.Started) }),
	},
	{
		Name: "sluice_ready", Type: gauge, Help: "1 when a POST would be taken now.",
		read: truth(func(s *state) bool { return s.Ready == nil }),
	},

	{
		Name: "sluice_alarm", Type: gauge,
		Help: "1 while an alarm of the console lasts; no series, no alarm. dataset is empty where the alarm is about none. " +
			"At most 1,000 are told apart, the gravest first, and the others are (other).", Labels: []string{"alarm", "dataset"},
		read: func(s *state, p put) {
			for _, a := range s.Raised() {
				p(1, a.Name, a.Subject)
			}
		},
	},

	{
		Name: "sluice_http_requests_total", Type: counter, Help: "Answers of the senders' API, by route and status.",
		Labels: []string{"method", "route", "status"}, read: func(s *state, p put) {
			for i := range s.API.Routes {
				r := &s.API.Routes[i]
				for _, st := range r.Statuses {
					p(float64(st.Count), r.Method, r.Path, strconv.Itoa(st.Status))
				}
			}
		},
	},
	{
		Name: "sluice_http_request_seconds", Type: distribution, Help: "Time from a request's headers to its answer.",
		Labels: []string{"method", "route"}, measure: func(s *state, p putHistogram) {
			for i := range s.API.Routes {
				r := &s.API.Routes[i]
				p(r.Latency[:], histogram.Bounds[:], r.LatencySum, r.Method, r.Path)
			}
		},
	},
	{
		Name: "sluice_http_rejections_total", Type: counter,
		Help: "Requests rejected, by error code and the dataset of their key; dataset is empty for those without a " +
			"valid key.", Labels: []string{"code", "dataset"}, read: rejectedRequests,
	},
	{
		Name: "sluice_http_shed_total", Type: counter,
		Help:   "Requests answered 503, by what was short: memory, one dataset's share of it, or the stream.",
		Labels: []string{"reason"}, read: func(s *state, p put) {
			p(float64(s.API.ShedMemory), "memory")
			p(float64(s.API.ShedShare), "share")
			p(float64(s.API.ShedStream), "stream")
		},
	},
	{
		Name: "sluice_http_faults_total", Type: counter, Help: "Requests answered 500.",
		read: one(func(s *state) uint64 { return s.API.Faults }),
	},
	{
		Name: "sluice_http_slow_bodies_total", Type: counter, Help: "Requests cut off because their body took too long.",
		read: one(func(s *state) uint64 { return s.API.SlowBodies }),
	},
	{
		Name: "sluice_http_replays_total", Type: counter, Help: "Receipts given again for a repeated Idempotency-Key.",
		read: one(func(s *state) uint64 { return s.API.Replays }),
	},
	{
		Name: "sluice_http_connections", Type: gauge,
		Help: "Connections of senders that are open now. Streams of HTTP/2 without a valid key count, but for the first of " +
			"a connection.", read: one(func(s *state) int64 { return s.API.Connections }),
	},
	{
		Name: "sluice_http_connections_limit", Type: gauge,
		Help: "Connections of senders that may be open at one time; one peer may have a half.",
		read: one(func(s *state) int64 { return s.API.ConnectionsLimit }),
	},
	{
		Name: "sluice_http_connections_rejected_total", Type: counter,
		Help: "Connections closed because a limit was reached: of all connections, of one peer, or replaced by a newer one " +
			"before they carried a valid key.", Labels: []string{"limit"}, read: func(s *state, p put) {
			p(float64(s.API.ConnectionsFull), "all")
			p(float64(s.API.ConnectionsPeer), "peer")
			p(float64(s.API.ConnectionsLost), "replaced")
		},
	},
	{
		Name: "sluice_http_streams_reset_total", Type: counter,
		Help: "Streams of HTTP/2 without a valid key that were reset, because their connection had eight of them or a " +
			"limit of connections was reached.", read: one(func(s *state) uint64 { return s.API.StreamsReset }),
	},
	{
		Name: "sluice_ops_connections", Type: gauge,
		Help: "Connections to the operators' listener that are open now. Streams of HTTP/2 without credentials count, but " +
			"for the first of a connection.", read: one(func(s *state) int64 { return s.ops.Open }),
	},
	{
		Name: "sluice_ops_connections_limit", Type: gauge,
		Help: "Connections to the operators' listener that may be open at one time.",
		read: one(func(s *state) int64 { return s.ops.Limit }),
	},
	{
		Name: "sluice_ops_connections_rejected_total", Type: counter,
		Help: "Connections to the operators' listener closed because a limit was reached: of all connections, of one peer, " +
			"or replaced by a newer one before they carried credentials.", Labels: []string{"limit"},
		read: func(s *state, p put) {
			p(float64(s.ops.RejectedAll), "all")
			p(float64(s.ops.RejectedPeers), "peer")
			p(float64(s.ops.Replaced), "replaced")
		},
	},
	{
		Name: "sluice_ops_streams_reset_total", Type: counter,
		Help: "Streams of HTTP/2 to the operators' listener without credentials that were reset, because their connection " +
			"had eight of them or a limit of connections was reached.",
		read: one(func(s *state) uint64 { return s.ops.Streams }),
	},
	{
		Name: "sluice_idempotency_keys", Type: gauge,
		Help:   "Idempotency keys that were used on this node since it started and are still known.",
		Labels: []string{"dataset"}, read: func(s *state, p put) {
			for i := range s.API.Datasets {
				p(float64(s.API.Datasets[i].Keys), s.API.Datasets[i].DatasetID)
			}
		},
	},
	{
		Name: "sluice_idempotency_keys_limit", Type: gauge, Help: "Idempotency keys that one dataset may have in use.",
		read: one(func(s *state) int64 { return s.API.KeysLimit }),
	},
	{
		Name: "sluice_large_requests_limited_total", Type: counter,
		Help: "Large requests rejected because those of their dataset delay the requests of others.",
		read: one(func(s *state) uint64 { return s.API.Paced }),
	},
	{
		Name: "sluice_large_requests_rest_seconds_total", Type: counter,
		Help: "Time that datasets waited between large requests for that reason, together.",
		read: one(func(s *state) float64 { return s.API.Rested.Seconds() }),
	},
	{
		Name: "sluice_idempotency_keys_limited_total", Type: counter,
		Help: "Requests rejected because their dataset, or all datasets together, have as many idempotency keys in use as " +
			"they may.", read: one(func(s *state) uint64 { return s.API.KeysLimited }),
	},
	{
		Name: "sluice_http_body_bytes_total", Type: counter, Help: "Bytes of request bodies, as they came and decompressed.",
		Labels: []string{"form"}, read: func(s *state, p put) {
			p(float64(s.API.BytesWire), "wire")
			p(float64(s.API.BytesPlain), "plain")
		},
	},
	{
		Name: "sluice_http_in_flight_bytes", Type: gauge, Help: "Bytes of requests that are being answered now.",
		read: one(func(s *state) int64 { return s.API.BytesInFlight }),
	},
	{
		Name: "sluice_http_in_flight_limit_bytes", Type: gauge, Help: "Bytes in flight at which requests are rejected.",
		read: one(func(s *state) int64 { return s.API.BytesInFlightLimit }),
	},

	{
		Name: "sluice_events_accepted_total", Type: counter, Help: "Events acknowledged by this node.",
		Labels: []string{"dataset"}, read: perDataset(func(d *api.DatasetStats) uint64 { return d.Accepted }),
	},
	{
		Name: "sluice_events_rejected_total", Type: counter, Help: "Events rejected by this node.",
		Labels: []string{"dataset"}, read: perDataset(func(d *api.DatasetStats) uint64 { return d.Rejected }),
	},
	{
		Name: "sluice_events_late_total", Type: counter, Help: "Accepted events that were late.", Labels: []string{"dataset"},
		read: perDataset(func(d *api.DatasetStats) uint64 { return d.Late }),
	},
	{
		Name: "sluice_events_restricted_total", Type: counter, Help: "Accepted events restricted to measurement.",
		Labels: []string{"dataset"}, read: perDataset(func(d *api.DatasetStats) uint64 { return d.Restricted }),
	},
	{
		Name: "sluice_events_suppressed_total", Type: counter, Help: "Accepted events whose identifiers were removed.",
		Labels: []string{"dataset"}, read: perDataset(func(d *api.DatasetStats) uint64 { return d.Suppressed }),
	},
	{
		Name: "sluice_consent_unread_ratio", Type: gauge,
		Help: "Share of a dataset's accepted events of the last 24 hours that have a consent signal which is not read, by " +
			"warning code, while it is too high: from 1 % and 20 events on, until it is below 0.5 %.",
		Labels: []string{"dataset", "code"}, read: func(s *state, p put) {
			for _, u := range s.Unread() {
				for _, c := range u.Codes {
					if s.labels[u.Dataset] {
						p(c.Share, u.Dataset, string(c.Code))
					}
				}
			}
		},
	},
	{
		Name: "sluice_requests_limited_total", Type: counter, Help: "Requests over a dataset's rate limit.",
		Labels: []string{"dataset"}, read: perDataset(func(d *api.DatasetStats) uint64 { return d.Limited }),
	},
	{
		Name: "sluice_rejections_lost_total", Type: counter,
		Help: "Counts of rejected events that were dropped on their way to the tables: too many different ones.",
		read: one(func(s *state) uint64 { return s.API.RejectionsLost }),
	},

	{
		Name: "sluice_datasets", Type: gauge, Help: "Datasets, by state.", Labels: []string{"state"},
		read: func(s *state, p put) {
			p(float64(s.Registry.Datasets-s.Registry.Disabled), "enabled")
			p(float64(s.Registry.Disabled), "disabled")
		},
	},
	{
		Name: "sluice_registry_synced_timestamp_seconds", Type: gauge,
		Help: "When this node's copy of datasets and keys was last known to be current.",
		read: one(func(s *state) float64 { return unix(s.Registry.Synced) }),
	},
	{
		Name: "sluice_key_last_used_timestamp_seconds", Type: gauge,
		Help:   "When a live key was last used: on this node to the second, on others to about a minute.",
		Labels: []string{"dataset", "key"}, read: func(s *state, p put) {
			s.eachKey(func(dataset, key string, used, _ time.Time) {
				if !used.IsZero() {
					p(unix(used), dataset, key)
				}
			})
		},
	},
	{
		Name: "sluice_key_rejected_timestamp_seconds", Type: gauge,
		Help:   "When a key that is revoked or has expired was last presented, with its right secret.",
		Labels: []string{"dataset", "key"}, read: func(s *state, p put) {
			s.eachEndedKey(func(dataset, key string, rejected time.Time) { p(unix(rejected), dataset, key) })
		},
	},
	{
		Name: "sluice_key_expires_timestamp_seconds", Type: gauge, Help: "When a live key that is being rotated out ends.",
		Labels: []string{"dataset", "key"}, read: func(s *state, p put) {
			s.eachKey(func(dataset, key string, _, ends time.Time) {
				if !ends.IsZero() {
					p(unix(ends), dataset, key)
				}
			})
		},
	},

	{
		Name: "sluice_cluster_nodes", Type: gauge,
		Help: "Nodes that this node hears of, itself among them. Of the cluster, not of this node.",
		read: one(func(s *state) int { return len(s.Nodes()) }),
	},
	{
		Name: "sluice_cluster_unloaded_partitions", Type: gauge,
		Help: "Partitions in which events wait and whose watermark has not moved for 30 s. Of the cluster, not of this node.",
		read: one(func(s *state) int { return s.Backlog.Unloaded() }),
	},
	{
		Name: "sluice_cluster_watermark", Type: gauge,
		Help:   "Sequence number up to which a partition is in the tables. Of the cluster, not of this node.",
		Labels: []string{"partition"}, read: func(s *state, p put) {
			for i, b := range s.Backlog {
				if b.Known {
					p(float64(b.Watermark), strconv.Itoa(i))
				}
			}
		},
	},

	{
		Name: "sluice_cluster_streams_behind", Type: gauge,
		Help: "Streams and buckets in NATS with fewer copies in step than the configuration says. Of the cluster, not of " +
			"this node.", read: one(func(s *state) int { return s.Copies.Behind() }),
	},
	{
		Name: "sluice_cluster_streams_changed", Type: gauge,
		Help: "Streams in NATS whose settings somebody changed. Of the cluster, not of this node.",
		read: one(func(s *state) int { return s.Copies.Changed() }),
	},
	{
		Name: "sluice_engine_storage_free_bytes", Type: gauge,
		Help: "Bytes that the NATS account may still store. None for an embedded engine, and for an account without a limit.",
		read: func(s *state, p put) {
			if s.Stream.Account && s.Stream.DiskSize > 0 {
				p(float64(s.Stream.DiskFree))
			}
		},
	},
	{
		Name: "sluice_engine_storage_limit_bytes", Type: gauge, Help: "Bytes that the NATS account may store in all.",
		read: func(s *state, p put) {
			if s.Stream.Account && s.Stream.DiskSize > 0 {
				p(float64(s.Stream.DiskSize))
			}
		},
	},

	{
		Name: "sluice_engine_healthy", Type: gauge,
		Help: "1 when the engine takes writes as far as can be known without one.",
		read: truth(func(s *state) bool { return s.Engine.Healthy }),
	},
	{
		Name: "sluice_engine_restarts_total", Type: counter, Help: "Times the embedded engine was restarted after a fault.",
		read: one(func(s *state) uint64 { return s.Engine.Restarts }),
	},
	{
		Name: "sluice_stream_frames_total", Type: counter, Help: "Frames acknowledged: each is one synced write.",
		read: one(func(s *state) uint64 { return s.Stream.Frames }),
	},
	{
		Name: "sluice_stream_records_total", Type: counter, Help: "Submissions acknowledged.",
		read: one(func(s *state) uint64 { return s.Stream.Records }),
	},
	{
		Name: "sluice_stream_appended_bytes_total", Type: counter, Help: "Bytes of acknowledged frames.",
		read: one(func(s *state) uint64 { return s.Stream.Bytes }),
	},
	{
		Name: "sluice_stream_append_seconds", Type: distribution, Help: "Time until a frame was on stable storage.",
		measure: func(s *state, p putHistogram) {
			p(s.Stream.Latency[:], histogram.Bounds[:], s.Stream.LatencySum)
		},
	},
	{
		Name: "sluice_stream_rejected_total", Type: counter, Help: "Submissions the stream did not take, by reason.",
		Labels: []string{"reason"}, read: func(s *state, p put) {
			p(float64(s.Stream.RejectedOverload), "overload")
			p(float64(s.Stream.RejectedSpace), "space")
			p(float64(s.Stream.RejectedDown), "down")
			p(float64(s.Stream.Failed), "failed")
		},
	},
	{
		Name: "sluice_stream_queued_bytes", Type: gauge, Help: "Bytes waiting to be written or on their way.",
		read: one(func(s *state) int64 { return s.Stream.Queued }),
	},
	{
		Name: "sluice_stream_stored_bytes", Type: gauge, Help: "Bytes the stream holds, by partition.",
		Labels: []string{"partition"}, read: func(s *state, p put) {
			for i, x := range s.extents {
				p(float64(x.Bytes), strconv.Itoa(i))
			}
		},
	},
	{
		Name: "sluice_stream_age_seconds", Type: gauge, Help: "Age of the oldest frame the stream holds, by partition.",
		Labels: []string{"partition"}, read: func(s *state, p put) {
			for i, x := range s.extents {
				if !x.Oldest.IsZero() {
					p(max(0, s.Now.Sub(x.Oldest).Seconds()), strconv.Itoa(i))
				}
			}
		},
	},

	{
		Name: "sluice_load_backlog_seconds", Type: gauge,
		Help: "How long the oldest event that is not in the tables yet has waited, whichever node loads it. While the " +
			"engine does not answer: at most so long. Of the cluster, not of this node.",
		read: one(func(s *state) float64 { return s.Backlog.Age().Seconds() }),
	},
	{
		Name: "sluice_load_backlog_known", Type: gauge,
		Help: "1 when sluice_load_backlog_seconds is exact: the engine answers for every partition, and a node has read " +
			"the watermarks.", read: truth(func(s *state) bool { return s.Backlog.Known() }),
	},
	{
		Name: "sluice_load_damaged_frames", Type: gauge, Help: "Unreadable frames and records in the directory quarantine.",
		read: one(func(s *state) int64 { return s.Loader.Damaged }),
	},
	{
		Name: "sluice_load_missing_frames", Type: gauge,
		Help: "Sequence numbers of the stream that held nothing when the loader came to them, noted in the directory " +
			"quarantine.", read: one(func(s *state) int64 { return s.Loader.Missing }),
	},
	{
		Name: "sluice_load_stopped", Type: gauge,
		Help: "1 while nothing is loaded because the tables belong to another stream or have no watermark.",
		read: one(func(s *state) float64 {
			if s.Loader.Stopped != "" {
				return 1
			}
			return 0
		}),
	},
	{
		Name: "sluice_load_commits_total", Type: counter, Help: "Commits by the loader of this node.",
		read: one(func(s *state) int64 { return s.Loader.Commits }),
	},
	{
		Name: "sluice_load_commit_seconds_total", Type: counter,
		Help: "Time that commits by the loader of this node took, each from its beginning until its rows are visible.",
		read: one(func(s *state) float64 { return s.Loader.CommitTime.Seconds() }),
	},
	{
		Name: "sluice_load_failures_total", Type: counter,
		Help: "Commits, and reads of the watermarks, that failed and were tried again by this node.",
		read: one(func(s *state) int64 { return s.Loader.Failures }),
	},

	{
		Name: "sluice_lake_rows", Type: gauge, Help: "Rows of a table.", Labels: []string{"table"},
		read: perTable(func(t iceberg.Stats) float64 { return float64(t.Rows) }),
	},
	{
		Name: "sluice_lake_bytes", Type: gauge, Help: "Bytes of a table's files.", Labels: []string{"table"},
		read: perTable(func(t iceberg.Stats) float64 { return float64(t.Bytes) }),
	},
	{
		Name: "sluice_lake_files", Type: gauge, Help: "Data files of a table.", Labels: []string{"table"},
		read: perTable(func(t iceberg.Stats) float64 { return float64(t.Files) }),
	},
	{
		Name: "sluice_lake_small_files", Type: gauge, Help: "Small files that wait for compaction.",
		Labels: []string{"table"}, read: perTable(func(t iceberg.Stats) float64 { return float64(t.SmallFiles) }),
	},
	{
		Name: "sluice_lake_retention_held_days", Type: gauge,
		Help:   "Days of a table that retention would drop, and holds back until somebody confirms it.",
		Labels: []string{"table"}, read: perTable(func(t iceberg.Stats) float64 { return float64(t.Held.Days) }),
	},
	{
		Name: "sluice_lake_snapshots", Type: gauge, Help: "Snapshots a table keeps.", Labels: []string{"table"},
		read: perTable(func(t iceberg.Stats) float64 { return float64(t.Snapshots) }),
	},
	{
		Name: "sluice_lake_commit_timestamp_seconds", Type: gauge, Help: "When a table was last committed to, by anybody.",
		Labels: []string{"table"}, read: perTable(func(t iceberg.Stats) float64 { return unix(t.LastCommit) }),
	},
	{
		Name: "sluice_objectstore_requests_total", Type: counter,
		Help: "Requests to the bucket of the tables since the start, repeated ones as well, by method. None for tables " +
			"in a directory.", Labels: []string{"method"}, read: func(s *state, p put) {
			if r := s.requests; r != nil {
				p(float64(r.Put), "PUT")
				p(float64(r.Get), "GET")
				p(float64(r.Head), "HEAD")
				p(float64(r.List), "LIST")
				p(float64(r.Delete), "DELETE")
			}
		},
	},
	{
		Name: "sluice_lake_damaged_files", Type: gauge,
		Help: "Files of the tables that a node found unreadable, until they can be read again or no table lists them. Of " +
			"the cluster, not of this node.", read: one(func(s *state) int { return len(s.Damaged) }),
	},

	{
		Name: "sluice_feed_followers", Type: gauge, Help: "Requests of the feed that this node answers now.",
		read: one(func(s *state) int64 { return s.feed.Followers }),
	},
	{
		Name: "sluice_feed_rows_total", Type: counter, Help: "Rows that the feed of this node handed out.",
		read: one(func(s *state) uint64 { return s.feed.Rows }),
	},
	{
		Name: "sluice_feed_bytes_total", Type: counter, Help: "Bytes of the rows that the feed of this node handed out.",
		read: one(func(s *state) uint64 { return s.feed.Bytes }),
	},
	{
		Name: "sluice_feed_rejected_total", Type: counter,
		Help: "Requests of the feed that ended early: too many followers at once, or a follower that did not read its " +
			"answer.", Labels: []string{"reason"}, read: func(s *state, p put) {
			p(float64(s.feed.Rejected), "followers")
			p(float64(s.feed.Cut), "slow")
		},
	},
	{
		Name: "sluice_feed_lag_seconds", Type: gauge,
		Help:   "How old the last row of a reader's last answer was, if more rows were there to be read; else 0.",
		Labels: []string{"reader"}, read: perReader(func(r feed.ReaderStats) float64 { return r.Lag.Seconds() }),
	},
	{
		Name: "sluice_feed_last_answer_timestamp_seconds", Type: gauge,
		Help: "When this node last answered a reader of the feed.", Labels: []string{"reader"},
		read: perReader(func(r feed.ReaderStats) float64 { return unix(r.Last) }),
	},

	{
		Name: "sluice_disk_free_bytes", Type: gauge, Help: "Free bytes of the data directory's file system.",
		read: one(func(s *state) int64 { return s.Disk.Free }),
	},
	{
		Name: "sluice_disk_size_bytes", Type: gauge, Help: "Size of the data directory's file system.",
		read: one(func(s *state) int64 { return s.Disk.Size }),
	},
	{
		Name: "sluice_audit_entries", Type: gauge, Help: "Entries of the audit log when it was last verified.",
		read: one(func(s *state) uint64 { return s.audit.entries }),
	},
	{
		Name: "sluice_audit_intact", Type: gauge, Help: "1 when the audit log matched its seals when it was last verified.",
		read: truth(func(s *state) bool { return s.audit.problem == nil }),
	},
}
