package console

import (
	"strconv"
	"time"

	"sluice/internal/api"
	"sluice/internal/dataset"
	"sluice/internal/feed"
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
	labeled(gauge, "sluice_build_info", "version", "Always 1; the label names the version.",
		func(s *state, p put) { p(1, s.version) }),
	value(gauge, "sluice_start_time_seconds", "When the node began, in Unix seconds.",
		func(s *state) float64 { return unix(s.Started) }),
	truth("sluice_ready", "1 when a POST would be taken now.", func(s *state) bool { return s.Ready == nil }),

	labeled(gauge, "sluice_alarm", "alarm dataset",
		"1 while an alarm of the console lasts; no series, no alarm. dataset is empty where the alarm is about none. "+
			"At most 1,000 are told apart, the gravest first, and the others are (other).",
		func(s *state, p put) {
			for _, a := range s.Raised() {
				p(1, a.Name, a.Subject)
			}
		}),

	labeled(counter, "sluice_http_requests_total", "method route status",
		"Answers of the senders' API, by route and status.",
		func(s *state, p put) {
			for i := range s.API.Routes {
				r := &s.API.Routes[i]
				for _, st := range r.Statuses {
					p(float64(st.Count), r.Method, r.Path, strconv.Itoa(st.Status))
				}
			}
		}),
	{
		Name: "sluice_http_request_seconds", Type: distribution, Help: "Time from a request's headers to its answer.",
		Labels: []string{"method", "route"}, measure: func(s *state, p putHistogram) {
			for i := range s.API.Routes {
				r := &s.API.Routes[i]
				p(&r.Latency, r.LatencySum, r.Method, r.Path)
			}
		},
	},
	labeled(counter, "sluice_http_rejections_total", "code dataset",
		"Requests rejected, by error code and the dataset of their key; dataset is empty for those without a valid key.",
		rejectedRequests),
	labeled(counter, "sluice_http_shed_total", "reason",
		"Requests answered 503, by what was short: memory, one dataset's share of it, or the stream.",
		func(s *state, p put) {
			p(float64(s.API.ShedMemory), "memory")
			p(float64(s.API.ShedShare), "share")
			p(float64(s.API.ShedStream), "stream")
		}),
	value(counter, "sluice_http_faults_total", "Requests answered 500.", func(s *state) uint64 { return s.API.Faults }),
	value(counter, "sluice_http_slow_bodies_total", "Requests cut off because their body took too long.",
		func(s *state) uint64 { return s.API.SlowBodies }),
	value(counter, "sluice_http_replays_total", "Receipts given again for a repeated Idempotency-Key.",
		func(s *state) uint64 { return s.API.Replays }),
	value(gauge, "sluice_http_connections",
		"Connections of senders that are open now. Streams of HTTP/2 without a valid key count, but for the first of "+
			"a connection.",
		func(s *state) int64 { return s.API.Connections.Open }),
	value(gauge, "sluice_http_connections_limit",
		"Connections of senders that may be open at one time; one peer may have a half.",
		func(s *state) int64 { return s.API.Connections.Limit }),
	labeled(counter, "sluice_http_connections_rejected_total", "limit",
		"Connections closed because a limit was reached: of all connections, of one peer, or replaced by a newer one "+
			"before they carried a valid key.",
		func(s *state, p put) { rejectedConnections(&s.API.Connections, p) }),
	value(counter, "sluice_http_streams_reset_total",
		"Streams of HTTP/2 without a valid key that were reset, because their connection had eight of them or a "+
			"limit of connections was reached.",
		func(s *state) uint64 { return s.API.Connections.Streams }),
	value(gauge, "sluice_ops_connections",
		"Connections to the operators' listener that are open now. Streams of HTTP/2 without credentials count, but "+
			"for the first of a connection.",
		func(s *state) int64 { return s.ops.Open }),
	value(gauge, "sluice_ops_connections_limit", "Connections to the operators' listener that may be open at one time.",
		func(s *state) int64 { return s.ops.Limit }),
	labeled(counter, "sluice_ops_connections_rejected_total", "limit",
		"Connections to the operators' listener closed because a limit was reached: of all connections, of one peer, "+
			"or replaced by a newer one before they carried credentials.",
		func(s *state, p put) { rejectedConnections(&s.ops, p) }),
	value(counter, "sluice_ops_streams_reset_total",
		"Streams of HTTP/2 to the operators' listener without credentials that were reset, because their connection "+
			"had eight of them or a limit of connections was reached.",
		func(s *state) uint64 { return s.ops.Streams }),
	labeled(gauge, "sluice_idempotency_keys", "dataset",
		"Idempotency keys that were used on this node since it started and are still known.",
		func(s *state, p put) {
			ofDatasets(s, p, func(d *api.DatasetStats) float64 { return float64(d.Keys) })
		}),
	value(gauge, "sluice_idempotency_keys_limit", "Idempotency keys that one dataset may have in use.",
		func(s *state) int64 { return s.API.KeysLimit }),
	value(counter, "sluice_large_requests_limited_total",
		"Large requests rejected because those of their dataset delay the requests of others.",
		func(s *state) uint64 { return s.API.Paced }),
	value(counter, "sluice_large_requests_rest_seconds_total",
		"Time that datasets waited between large requests for that reason, together.",
		func(s *state) float64 { return s.API.Rested.Seconds() }),
	value(counter, "sluice_idempotency_keys_limited_total",
		"Requests rejected because their dataset, or all datasets together, have as many idempotency keys in use as "+
			"they may.",
		func(s *state) uint64 { return s.API.KeysLimited }),
	labeled(counter, "sluice_http_body_bytes_total", "form", "Bytes of request bodies, as they came and decompressed.",
		func(s *state, p put) {
			p(float64(s.API.BytesWire), "wire")
			p(float64(s.API.BytesPlain), "plain")
		}),
	value(gauge, "sluice_http_in_flight_bytes", "Bytes of requests that are being answered now.",
		func(s *state) int64 { return s.API.BytesInFlight }),
	value(gauge, "sluice_http_in_flight_limit_bytes", "Bytes in flight at which requests are rejected.",
		func(s *state) int64 { return s.API.BytesInFlightLimit }),

	perDataset("sluice_events_accepted_total", "Events acknowledged by this node.",
		func(d *api.DatasetStats) uint64 { return d.Accepted }),
	perDataset("sluice_events_rejected_total", "Events rejected by this node.",
		func(d *api.DatasetStats) uint64 { return d.Rejected }),
	perDataset("sluice_events_late_total", "Accepted events that were late.",
		func(d *api.DatasetStats) uint64 { return d.Late }),
	perDataset("sluice_events_restricted_total", "Accepted events restricted to measurement.",
		func(d *api.DatasetStats) uint64 { return d.Restricted }),
	perDataset("sluice_events_suppressed_total", "Accepted events whose identifiers were removed.",
		func(d *api.DatasetStats) uint64 { return d.Suppressed }),
	labeled(gauge, "sluice_consent_unread_ratio", "dataset code",
		"Share of a dataset's accepted events of the last 24 hours that have a consent signal which is not read, by "+
			"warning code, while it is too high: from 1 % and 20 events on, until it is below 0.5 %.",
		func(s *state, p put) {
			for _, u := range s.Unread() {
				for _, c := range u.Codes {
					if s.labels[u.Dataset] {
						p(c.Share, u.Dataset, string(c.Code))
					}
				}
			}
		}),
	perDataset("sluice_requests_limited_total", "Requests over a dataset's rate limit.",
		func(d *api.DatasetStats) uint64 { return d.Limited }),
	value(counter, "sluice_rejections_lost_total",
		"Counts of rejected events that were dropped on their way to the tables: too many different ones.",
		func(s *state) uint64 { return s.API.RejectionsLost }),

	labeled(gauge, "sluice_datasets", "state", "Datasets, by state.",
		func(s *state, p put) {
			p(float64(s.Registry.Datasets-s.Registry.Disabled), "enabled")
			p(float64(s.Registry.Disabled), "disabled")
		}),
	value(gauge, "sluice_registry_synced_timestamp_seconds",
		"When this node's copy of datasets and keys was last known to be current.",
		func(s *state) float64 { return unix(s.Registry.Synced) }),
	labeled(gauge, "sluice_key_last_used_timestamp_seconds", "dataset key",
		"When a live key was last used: on this node to the second, on others to about a minute.",
		perKey(true, func(s *state, k *dataset.KeyInfo) time.Time { return s.Used[k.ID].Accepted })),
	labeled(gauge, "sluice_key_rejected_timestamp_seconds", "dataset key",
		"When a key that is revoked or has expired was last presented, with its right secret.",
		perKey(false, keyRejected)),
	labeled(gauge, "sluice_key_expires_timestamp_seconds", "dataset key",
		"When a live key that is being rotated out ends.",
		perKey(true, func(_ *state, k *dataset.KeyInfo) time.Time { return k.Expires })),

	value(gauge, "sluice_cluster_nodes",
		"Nodes that this node hears of, itself among them. Of the cluster, not of this node.",
		func(s *state) int { return len(s.Nodes()) }),
	value(gauge, "sluice_cluster_unloaded_partitions",
		"Partitions in which events wait and whose watermark has not moved for 30 s. Of the cluster, not of this node.",
		func(s *state) int { return s.Backlog.Unloaded() }),
	labeled(gauge, "sluice_cluster_watermark", "partition",
		"Sequence number up to which a partition is in the tables. Of the cluster, not of this node.",
		func(s *state, p put) {
			for i, b := range s.Backlog {
				if b.Known {
					p(float64(b.Watermark), strconv.Itoa(i))
				}
			}
		}),

	value(gauge, "sluice_cluster_streams_behind",
		"Streams and buckets in NATS with fewer copies in step than the configuration says. Of the cluster, not of "+
			"this node.",
		func(s *state) int { return s.Copies.Behind() }),
	value(gauge, "sluice_cluster_streams_changed",
		"Streams in NATS whose settings somebody changed. Of the cluster, not of this node.",
		func(s *state) int { return s.Copies.Changed() }),
	ofAccount("sluice_engine_storage_free_bytes",
		"Bytes that the NATS account may still store. None for an embedded engine, and for an account without a limit.",
		func(s *state) int64 { return s.Stream.DiskFree }),
	ofAccount("sluice_engine_storage_limit_bytes", "Bytes that the NATS account may store in all.",
		func(s *state) int64 { return s.Stream.DiskSize }),

	truth("sluice_engine_healthy", "1 when the engine takes writes as far as can be known without one.",
		func(s *state) bool { return s.Engine.Healthy }),
	value(counter, "sluice_engine_restarts_total", "Times the embedded engine was restarted after a fault.",
		func(s *state) uint64 { return s.Engine.Restarts }),
	value(counter, "sluice_stream_frames_total", "Frames acknowledged: each is one synced write.",
		func(s *state) uint64 { return s.Stream.Frames }),
	value(counter, "sluice_stream_records_total", "Submissions acknowledged.",
		func(s *state) uint64 { return s.Stream.Records }),
	value(counter, "sluice_stream_appended_bytes_total", "Bytes of acknowledged frames.",
		func(s *state) uint64 { return s.Stream.Bytes }),
	{
		Name: "sluice_stream_append_seconds", Type: distribution, Help: "Time until a frame was on stable storage.",
		measure: func(s *state, p putHistogram) { p(&s.Stream.Latency, s.Stream.LatencySum) },
	},
	labeled(counter, "sluice_stream_rejected_total", "reason", "Submissions the stream did not take, by reason.",
		func(s *state, p put) {
			p(float64(s.Stream.RejectedOverload), "overload")
			p(float64(s.Stream.RejectedSpace), "space")
			p(float64(s.Stream.RejectedDown), "down")
			p(float64(s.Stream.Failed), "failed")
		}),
	value(gauge, "sluice_stream_queued_bytes", "Bytes waiting to be written or on their way.",
		func(s *state) int64 { return s.Stream.Queued }),
	labeled(gauge, "sluice_stream_stored_bytes", "partition", "Bytes the stream holds, by partition.",
		func(s *state, p put) {
			for i, x := range s.extents {
				p(float64(x.Bytes), strconv.Itoa(i))
			}
		}),
	labeled(gauge, "sluice_stream_age_seconds", "partition", "Age of the oldest frame the stream holds, by partition.",
		func(s *state, p put) {
			for i, x := range s.extents {
				if !x.Oldest.IsZero() {
					p(max(0, s.Now.Sub(x.Oldest).Seconds()), strconv.Itoa(i))
				}
			}
		}),

	value(gauge, "sluice_load_backlog_seconds",
		"How long the oldest event that is not in the tables yet has waited, whichever node loads it. While the "+
			"engine does not answer: at most so long. Of the cluster, not of this node.",
		func(s *state) float64 { return s.Backlog.Age().Seconds() }),
	truth("sluice_load_backlog_known",
		"1 when sluice_load_backlog_seconds is exact: the engine answers for every partition, and a node has read "+
			"the watermarks.",
		func(s *state) bool { return s.Backlog.Known() }),
	value(gauge, "sluice_load_damaged_frames", "Unreadable frames and records in the directory quarantine.",
		func(s *state) int64 { return s.Loader.Damaged }),
	value(gauge, "sluice_load_missing_frames",
		"Sequence numbers of the stream that held nothing when the loader came to them, noted in the directory "+
			"quarantine.",
		func(s *state) int64 { return s.Loader.Missing }),
	truth("sluice_load_stopped",
		"1 while nothing is loaded because the tables belong to another stream or have no watermark.",
		func(s *state) bool { return s.Loader.Stopped != "" }),
	value(counter, "sluice_load_commits_total", "Commits by the loader of this node.",
		func(s *state) int64 { return s.Loader.Commits }),
	value(counter, "sluice_load_commit_seconds_total",
		"Time that commits by the loader of this node took, each from its beginning until its rows are visible.",
		func(s *state) float64 { return s.Loader.CommitTime.Seconds() }),
	value(counter, "sluice_load_failures_total",
		"Commits, and reads of the watermarks, that failed and were tried again by this node.",
		func(s *state) int64 { return s.Loader.Failures }),

	perTable("sluice_lake_rows", "Rows of a table.", func(t iceberg.Stats) int64 { return t.Rows }),
	perTable("sluice_lake_bytes", "Bytes of a table's files.", func(t iceberg.Stats) int64 { return t.Bytes }),
	perTable("sluice_lake_files", "Data files of a table.", func(t iceberg.Stats) int { return t.Files }),
	perTable("sluice_lake_small_files", "Small files that wait for compaction.",
		func(t iceberg.Stats) int { return t.SmallFiles }),
	perTable("sluice_lake_retention_held_days",
		"Days of a table that retention would drop, and holds back until somebody confirms it.",
		func(t iceberg.Stats) int { return t.Held.Days }),
	perTable("sluice_lake_snapshots", "Snapshots a table keeps.", func(t iceberg.Stats) int { return t.Snapshots }),
	perTable("sluice_lake_commit_timestamp_seconds", "When a table was last committed to, by anybody.",
		func(t iceberg.Stats) float64 { return unix(t.LastCommit) }),
	labeled(counter, "sluice_objectstore_requests_total", "method",
		"Requests to the bucket of the tables since the start, repeated ones as well, by method. None for tables in a "+
			"directory.",
		func(s *state, p put) {
			if r := s.requests; r != nil {
				p(float64(r.Put), "PUT")
				p(float64(r.Get), "GET")
				p(float64(r.Head), "HEAD")
				p(float64(r.List), "LIST")
				p(float64(r.Delete), "DELETE")
			}
		}),
	value(gauge, "sluice_lake_damaged_files",
		"Files of the tables that a node found unreadable, until they can be read again or no table lists them. Of "+
			"the cluster, not of this node.",
		func(s *state) int { return len(s.Damaged) }),

	value(gauge, "sluice_feed_followers", "Requests of the feed that this node answers now.",
		func(s *state) int64 { return s.feed.Followers }),
	value(counter, "sluice_feed_rows_total", "Rows that the feed of this node handed out.",
		func(s *state) uint64 { return s.feed.Rows }),
	value(counter, "sluice_feed_bytes_total", "Bytes of the rows that the feed of this node handed out.",
		func(s *state) uint64 { return s.feed.Bytes }),
	labeled(counter, "sluice_feed_rejected_total", "reason",
		"Requests of the feed that ended early: too many followers at once, or a follower that did not read its "+
			"answer.",
		func(s *state, p put) {
			p(float64(s.feed.Rejected), "followers")
			p(float64(s.feed.Cut), "slow")
		}),
	perReader("sluice_feed_lag_seconds",
		"How old the last row of a reader's last answer was, if more rows were there to be read; else 0.",
		func(r feed.ReaderStats) float64 { return r.Lag.Seconds() }),
	perReader("sluice_feed_last_answer_timestamp_seconds", "When this node last answered a reader of the feed.",
		func(r feed.ReaderStats) float64 { return unix(r.Last) }),

	value(gauge, "sluice_disk_free_bytes", "Free bytes of the data directory's file system.",
		func(s *state) int64 { return s.Disk.Free }),
	value(gauge, "sluice_disk_size_bytes", "Size of the data directory's file system.",
		func(s *state) int64 { return s.Disk.Size }),
	value(gauge, "sluice_audit_entries", "Entries of the audit log when it was last verified.",
		func(s *state) uint64 { return s.audit.Entries }),
	truth("sluice_audit_intact", "1 when the audit log matched its seals when it was last verified.",
		func(s *state) bool { return s.audit.problem == nil }),
}
