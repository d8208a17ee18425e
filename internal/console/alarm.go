package console

import (
	"fmt"
	"time"

	"sluice/internal/histogram"
	"sluice/internal/stream"
)

// severity of an alarm.
const (
	critical = "critical" // act now
	warning  = "warning"  // look today
)

// The edges of the alarms, once for the page and the rules.
const (
	unloadedWarn  = 30 * time.Second // a loader that dies is replaced after 9 s; arbitrary multiple of that
	backlogWarn   = 2 * time.Minute  // the loader commits every few seconds; arbitrary multiple of that
	backlogRisk   = 24 * time.Hour   // a third of the 72 h that the stream keeps: time left to act
	diskWarn      = 0.15             // of the disk free
	diskRisk      = 0.07             // just above the headroom at which the stream rejects events
	slowSync      = 250 * time.Millisecond
	slowSyncs     = 20  // frames; of fewer the slowest says little. Arbitrary
	rejectedShare = 0.5 // of a dataset's events
	queueFull     = 0.8 // of the bytes in flight
	registryStale = time.Minute
)

// Alarm is one thing that can go wrong: how the page sees it, how Prometheus sees it, what to do. The pages, the
// rules of deploy/alerts.yml and the runbook of docs/operate.md are held together by this table.
type Alarm struct {
	Name     string // in Prometheus
	Severity string
	For      string // how long it must last before Prometheus speaks
	Expr     string
	Summary  string
	Do       string
	on       func(*state) (string, bool) // what the page says; nil where only Prometheus can see it
	each     func(*state) []finding      // the same for an alarm of single datasets
}

// Alarms in order of gravity.
var Alarms = []Alarm{
	{
		"SluiceDown", critical, "1m", `up{job="sluice"} == 0`,
		"A node does not answer.", "See whether the process runs and what its last log lines say; start it again.", nil, nil,
	},
	{
		"SluiceDamagedFrames", critical, "0m", `sluice_load_damaged_frames > 0`,
		"Frames of the stream cannot be read.", "The frames hold acknowledged events. Keep a copy of the directory quarantine, check the disk, and restore from a replica if there is one. Then move the files out of quarantine and restart.",
		func(s *state) (string, bool) {
			return fmt.Sprintf("%s of the stream cannot be read.", plural(s.damaged(), "frame", "frames")), s.damaged() > 0
		}, nil,
	},
	{
		"SluiceSequenceGap", critical, "0m", `sluice_load_missing_frames > 0`,
		"Sequence numbers of the stream are missing.", "Acknowledged events may be lost. Check the disk and the engine's log, and compare the counts with the senders'. Then move the files out of the directory quarantine and restart.",
		func(s *state) (string, bool) {
			return fmt.Sprintf("%s missing from the stream.", plural(s.missing(), "frame is", "frames are")), s.missing() > 0
		}, nil,
	},
	{
		"SluiceLoadStopped", critical, "0m", `sluice_load_stopped > 0`,
		"Events are accepted and not stored: the tables belong to another stream, or another program removed their watermarks.", "Nothing is lost until the stream's retention is over. Start with the stream that the tables belong to, or with an empty --lake, or run sluice lake adopt.",
		func(s *state) (string, bool) { return "Nothing is loaded: " + s.loader.Stopped, s.loader.Stopped != "" }, nil,
	},
	{
		"SluiceBacklogAtRisk", critical, "0m", fmt.Sprintf(`sluice_load_backlog_seconds > %d`, int(backlogRisk.Seconds())),
		"Events that are not stored yet come near the age at which the stream drops them.", "Repair the loader now (see SluiceLoadBehind), or raise --stream-retention until it works again.",
		func(s *state) (string, bool) {
			return fmt.Sprintf("The oldest event that is not stored yet has waited %s; the stream keeps it %s.", span(s.backlog()), span(s.retention)), s.backlog() > backlogRisk
		}, nil,
	},
	{
		"SluiceDiskFull", critical, "0m", fmt.Sprintf(`sluice_disk_free_bytes / sluice_disk_size_bytes < %g`, diskRisk),
		"The disk is nearly full: the service rejects events, or soon will.", "Free space or enlarge the disk. Nothing acknowledged is lost; senders get a 503 and try again.",
		func(s *state) (string, bool) {
			if s.stream.Phase == stream.NoSpace { // by --headroom, or out of files: whatever share is free
				return fmt.Sprintf("The service rejects events because too little disk space is free: %s.", size(s.stream.DiskFree)), true
			}
			return fmt.Sprintf("The disk is nearly full: %s of %s free.", size(s.disk.free), size(s.disk.total)), s.disk.total > 0 && share(s.disk.free, s.disk.total) < diskRisk
		}, nil,
	},
	{
		"SluiceNotReady", critical, "1m", `sluice_ready == 0`,
		"A node takes no events.", "The page System and the log say why: engine, disk, queue or backlog. Senders get a 503 and try again.",
		func(s *state) (string, bool) {
			if s.ready == nil || s.starting() || s.stream.Phase == stream.NoSpace { // SluiceDiskFull says so
				return "", false
			}
			return "No events are taken: " + s.ready.Error() + ".", true
		}, nil,
	},
	{
		"SluiceEngineUnhealthy", critical, "1m", `sluice_engine_healthy == 0`,
		"The engine does not take writes.", "The node restarts it by itself. If that does not help, check the disk and its permissions, then restart the node.",
		func(s *state) (string, bool) { return "The engine does not take writes.", !s.engine.Healthy }, nil,
	},
	{
		"SluiceServerErrors", critical, "5m", `sum(rate(sluice_http_requests_total{status=~"5.."}[5m])) / sum(rate(sluice_http_requests_total[5m])) > 0.01`,
		"More than 1 % of requests end in a 5xx.", "500s have a stack trace in the log; 503s come from the queue, the disk or the memory limit: the page System shows which.",
		func(s *state) (string, bool) {
			return fmt.Sprintf("%s of the requests of the last 5 minutes ended in a 5xx.", pct(share(int64(s.last5.errs), int64(s.last5.requests)))),
				s.last5.errs > 0 && share(int64(s.last5.errs), int64(s.last5.requests)) > 0.01
		}, nil,
	},
	{
		"SluiceNoLoader", critical, "1m", `sluice_cluster_unloaded_partitions > 0`,
		"Events wait in a partition that no node loads.", "Nothing is lost while the stream retains them. Start a node with --loading and the tables of the cluster; sluice cluster status shows nodes and leases.",
		func(s *state) (string, bool) {
			return fmt.Sprintf("%s events that no node carries into the tables.", plural(s.unloaded(), "partition has", "partitions have")), s.unloaded() > 0 && s.unloadedFor > unloadedWarn
		}, nil,
	},
	{
		"SluiceLoadBehind", warning, "5m", fmt.Sprintf(`sluice_load_backlog_seconds > %d`, int(backlogWarn.Seconds())),
		"Events wait longer than usual before they are stored.", "Nothing is lost: they are safe in the stream. Look at the loader's errors, the disk's speed and whether one node holds the lease.",
		func(s *state) (string, bool) {
			return fmt.Sprintf("Events wait %s before they are stored.", span(s.backlog())), s.backlog() > backlogWarn && s.backlog() <= backlogRisk
		}, nil,
	},
	{
		"SluiceDamagedFiles", warning, "0m", `increase(sluice_lake_damaged_files_total[1h]) > 0`,
		"Files of the lake cannot be read.", "Restore the files named in the log from a backup; while the stream still holds their events they can be loaded again.",
		func(s *state) (string, bool) {
			return fmt.Sprintf("%s of the lake cannot be read.", plural(s.lake.DamagedFiles, "file", "files")), s.lake.DamagedFiles > 0
		}, nil,
	},
	{
		"SluiceDiskLow", warning, "10m", fmt.Sprintf(`sluice_disk_free_bytes / sluice_disk_size_bytes < %g`, diskWarn),
		"The disk fills up.", "Enlarge it, or shorten --stream-retention or --table-retention.",
		func(s *state) (string, bool) {
			free := share(s.disk.free, s.disk.total)
			return fmt.Sprintf("The disk fills up: %s of %s free.", size(s.disk.free), size(s.disk.total)), s.disk.total > 0 && free < diskWarn && free >= diskRisk && s.stream.Phase != stream.NoSpace
		}, nil,
	},
	{
		"SluiceSlowSync", warning, "10m", fmt.Sprintf(`histogram_quantile(0.99, sum by (le, instance) (rate(sluice_stream_append_seconds_bucket[5m]))) > %g`, slowSync.Seconds()),
		"The disk is slow to make events durable.", "Look for other programs on the disk, a volume out of credits or a failing drive; senders see the delay in their answers.",
		func(s *state) (string, bool) {
			p99 := quantile(0.99, s.last10.latency[:], histogram.Bounds[:])
			return "Of the syncs of the last 10 minutes, 1 % took " + span(p99) + " or longer.", p99 > slowSync && s.last10.synced() >= slowSyncs
		}, nil,
	},
	{
		"SluiceMemoryShed", warning, "5m", `increase(sluice_http_shed_total{reason="memory"}[5m]) > 0`,
		"The service rejects requests because too many bytes are in flight.", "Add a node or memory, or ask the largest sender for smaller batches; the limit protects the process from being killed.",
		func(s *state) (string, bool) {
			a := &s.api
			return "Nearly all memory for requests is in use.", a.BytesInFlightLimit > 0 && float64(a.BytesInFlight) > queueFull*float64(a.BytesInFlightLimit)
		}, nil,
	},
	{
		"SluiceRegistryStale", warning, "2m", fmt.Sprintf(`time() - sluice_registry_synced_timestamp_seconds > %d`, int(registryStale.Seconds())),
		"A node works with an old copy of datasets and keys.", "New and revoked keys do not reach it. Check its connection to the engine.",
		func(s *state) (string, bool) {
			old := s.now.Sub(s.registry.Synced)
			return "Datasets and keys were last read " + span(old) + " ago.", !s.registry.Synced.IsZero() && old > registryStale
		}, nil,
	},
	{
		"SluiceDatasetRejected", warning, "15m", fmt.Sprintf(`sum by (dataset) (rate(sluice_events_rejected_total[15m])) / (sum by (dataset) (rate(sluice_events_rejected_total[15m])) + sum by (dataset) (rate(sluice_events_accepted_total[15m]))) > %g`, rejectedShare),
		"More than half of a dataset's events are rejected.", "Open Diagnosis for the dataset: the first card names code, field and remedy. Send it to the sender.", nil,
		func(s *state) []finding { return s.found.rejected },
	},
	{
		"SluiceDatasetSilent", warning, "1h", `sum by (dataset) (rate(sluice_events_accepted_total[1h])) == 0 and sum by (dataset) (rate(sluice_events_accepted_total[1h] offset 1d)) > 0`,
		"A dataset that had events at this time yesterday has none.", "Ask the sender; check on its page whether its key expired or was revoked.", nil,
		func(s *state) []finding { return s.found.silent },
	},
	{
		"SluiceKeyEnding", warning, "0m", `sluice_key_expires_timestamp_seconds - time() < 86400 and sluice_key_expires_timestamp_seconds > time() and time() - sluice_key_last_used_timestamp_seconds < 3600`,
		"A key that is still in use ends within a day.", "Tell the sender to change to the new key, or rotate again with a longer overlap.", nil,
		func(s *state) []finding { return s.found.keys },
	},
	{
		"SluiceEndedKeyInUse", warning, "0m", `time() - sluice_key_rejected_timestamp_seconds < 3600`,
		"A revoked or expired key is still in use.", "Its requests get 403. Ask the sender which program still has it. If the sender does not know, somebody else has the key: it stays revoked.", nil,
		func(s *state) []finding { return s.found.ended },
	},
	{
		"SluiceConnectionsRejected", warning, "5m", `increase(sluice_http_connections_rejected_total[5m]) > 0`,
		"Senders open more connections than the server takes.", "sluice_http_connections_rejected_total says whether one peer has too many. Raise --max-connections if there is memory, or block the peer.", nil, nil,
	},
	{
		"SluiceIdempotencyKeys", warning, "5m", `increase(sluice_idempotency_keys_limited_total[5m]) > 0`,
		"A dataset uses more idempotency keys than it may.", "sluice_idempotency_keys says which. Ask the sender to put more events into each request, or raise --max-idempotency-keys if there is memory: 16 bytes a key with the embedded engine, about 170 in a NATS server.", nil, nil,
	},
	{
		"SluiceRejectionsLost", warning, "0m", `increase(sluice_rejections_lost_total[1h]) > 0`,
		"Counts of rejected events were dropped.", "Events are not affected: only the numbers on Diagnosis are too small. The stream did not take writes while many different problems came in.",
		func(s *state) (string, bool) {
			return fmt.Sprintf("%s of rejected events were dropped in the last hour.", plural(s.last60.lost, "count", "counts")), s.last60.lost > 0
		}, nil,
	},
	{
		"SluiceAuditBroken", critical, "0m", `sluice_audit_intact == 0`,
		"The audit log does not match its seals.", "Keep the file as it is, find out who can write to the data directory, and compare with a backup: sluice audit verify names the line.",
		func(s *state) (string, bool) {
			return "The audit log does not match its seals.", s.audit.problem != nil
		}, nil,
	},
}

// verdict is the sentence at the top of the overview.
type verdict struct {
	Class, Icon, Sentence, More string
	Alarms                      []raised
}

// raised is an alarm that is on.
type raised struct {
	Name, Level, Class, Say, Do string
	Subject, Path               string // the dataset that it is about, and where to look; empty for the service
}

// sound lists the alarms that are on, the gravest first.
func sound(s *state) []raised {
	var out []raised
	for _, level := range []string{critical, warning} {
		for i := range Alarms {
			a := &Alarms[i]
			if a.Severity == level {
				out = append(out, a.sound(s)...)
			}
		}
	}
	return out
}

// sound is the alarm if it is on: once, or once for each dataset that it is about.
func (a *Alarm) sound(s *state) (out []raised) {
	if a.on != nil {
		if say, on := a.on(s); on {
			out = append(out, raised{Name: a.Name, Say: say, Do: a.Do})
		}
	}
	if a.each != nil {
		out = append(out, a.raise(a.each(s))...)
	}
	for i := range out {
		out[i].Level, out[i].Class = a.Severity, "warn"
		if a.Severity == critical {
			out[i].Class = "bad"
		}
	}
	return out
}

// judge says whether all is well and, if not, what to do.
func judge(s *state) verdict {
	alarms := sound(s)
	v := verdict{Class: "ok", Icon: "check", Alarms: alarms}
	switch {
	case len(alarms) > 0 && alarms[0].Class == "bad":
		v.Class, v.Icon = "bad", "bad"
		v.Sentence = "Something needs you now."
		v.More = "See below what to do; docs/operate.md has more on each."
	case len(alarms) > 0:
		v.Class, v.Icon = "warn", "warn"
		v.Sentence = "Events flow, but something needs a look."
		v.More = "Nothing acknowledged is at risk. See below what to do."
	case s.ready != nil:
		v.Class, v.Icon, v.Sentence, v.More = "warn", "warn", "Starting.", "The service takes events in a moment."
	case len(s.datasets) == 0:
		v.Sentence = "All is well, and nothing to do yet."
		v.More = "The service is ready to take events. It needs a dataset first."
	default:
		v.Sentence = "All is well."
		v.More = wellBeing(s)
	}
	return v
}

func wellBeing(s *state) string {
	safe := "Every acknowledged event is stored"
	if s.backlog() > 0 {
		safe = "Every acknowledged event is safe; the oldest one not yet stored has waited " + span(s.backlog())
	}
	return fmt.Sprintf("Events are taken. %s. %s free on disk.", safe, size(s.disk.free))
}
