// Package alarm says what is wrong with the service: it judges the numbers of the other packages, remembers in the
// engine when each alarm began and ended, and tells a webhook.
package alarm

import (
	"fmt"
	"time"

	"sluice/internal/humanize"
	"sluice/internal/stream"
)

// severity of an alarm.
const (
	Critical = "critical" // act now
	Warning  = "warning"  // look today
)

// The edges of the alarms, once for the page and the rules.
const (
	copiesWarn    = time.Minute     // a NATS server that is restarted is in step again in seconds; arbitrary
	BacklogWarn   = 2 * time.Minute // the loader commits every few seconds; arbitrary multiple of that
	backlogRisk   = 24 * time.Hour  // a third of the 72 h that the stream keeps: time left to act
	DiskWarn      = 0.15            // of the disk free
	DiskRisk      = 0.07            // just above the headroom at which the stream rejects events
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
	Expr     string // what only Prometheus can see; "" where the page sees it
	Summary  string
	Do       string
	on       func(*State) (string, bool) // what the page says; nil where only Prometheus can see it
	Each     func(*State) []finding      // the same for an alarm of single datasets
}

// ofService is an alarm that the page sees, about the service as a whole.
func ofService(name, severity, lasts, summary, do string, on func(*State) (string, bool)) Alarm {
	return Alarm{Name: name, Severity: severity, For: lasts, Summary: summary, Do: do, on: on}
}

// ofDatasets is an alarm that the page sees, about each of some datasets.
func ofDatasets(name, summary, do string, each func(*State) []finding) Alarm {
	return Alarm{Name: name, Severity: Warning, For: "0m", Summary: summary, Do: do, Each: each}
}

// ofPrometheus is an alarm that only Prometheus can see.
func ofPrometheus(name, severity, lasts, expr, summary, do string) Alarm {
	return Alarm{Name: name, Severity: severity, For: lasts, Expr: expr, Summary: summary, Do: do}
}

// Alarms in order of gravity.
var Alarms = []Alarm{
	ofPrometheus("SluiceDown", Critical, "1m", `up{job="sluice"} == 0`, "A node does not answer.",
		"See whether the process runs and what its last log lines say; start it again."),
	ofService("SluiceDamagedFrames", Critical, "0m", "Frames of the stream cannot be read.",
		"The frames hold acknowledged events. Keep a copy of the directory "+
			"quarantine, check the disk, and restore from a replica if there is one. Then move the files out of quarantine "+
			"and restart.",
		func(s *State) (string, bool) {
			return fmt.Sprintf("%s of the stream cannot be read.", humanize.Plural(s.Loader.Damaged, "frame", "frames")),
				s.Loader.Damaged > 0
		}),
	ofService("SluiceSequenceGap", Critical, "0m", "Sequence numbers of the stream are missing.",
		"Acknowledged events may be lost. Check the disk and the engine's "+
			"log, and compare the counts with the senders'. Then move the files out of the directory quarantine and restart.",
		func(s *State) (string, bool) {
			return fmt.Sprintf("%s missing from the stream.", humanize.Plural(s.Loader.Missing, "frame is", "frames are")),
				s.Loader.Missing > 0
		}),
	ofService("SluiceLoadStopped", Critical, "0m",
		"Events are accepted and not stored: somebody removed the tables or put others in their place, the tables belong "+
			"to another stream, another program removed their watermarks, or a newer version of Sluice has written what this "+
			"one does not know.",
		"Nothing that waits is lost until the stream's retention is over. Tables that were removed: put "+
			"them back, and loading goes on by itself; without a copy stop the server and run sluice lake reload, which "+
			"makes new ones. Written by a newer version: start this server with it. Else start with the stream that the "+
			"tables belong to, or with an empty --lake, or run sluice lake adopt.",
		func(s *State) (string, bool) { return "Nothing is loaded: " + s.Loader.Stopped, s.Loader.Stopped != "" }),
	ofService("SluiceDamagedFiles", Critical, "0m", "Files of the tables are missing or cannot be read.",
		"They hold acknowledged events. sluice lake reload loads "+
			"those again that the stream still holds. Older ones come from a backup: put the files that the page System names "+
			"back first, under the same names. The alarm ends within a minute of that.",
		func(s *State) (string, bool) {
			return fmt.Sprintf("%s missing or unreadable.", humanize.Plural(len(s.Damaged), "file of the tables is",
				"files of the tables are")), len(s.Damaged) > 0
		}),
	ofService("SluiceRetentionHeld", Critical, "0m",
		"Retention would drop more days than have passed since it last ran, so it drops nothing.",
		"No row is gone. If --table-retention is wrong, correct it (in a cluster: sluice cluster set --table-retention). "+
			"If the days shall go, run sluice lake retain --yes (in a cluster: sluice cluster set --table-retention with "+
			"--yes). The alarm ends with the next run, within five minutes.",
		func(s *State) (string, bool) {
			for i := len(s.Lake.Tables) - 1; i >= 0; i-- { // events come last
				if h := s.Lake.Tables[i].Held; h.Days > 0 {
					return fmt.Sprintf("Retention would drop %s of %s, %s, all before %s. Nothing is dropped until somebody "+
						"confirms it.",
						humanize.Plural(h.Days, "day", "days"), s.Lake.Tables[i].Name, humanize.Plural(h.Rows, "row", "rows"),
						h.Before.Format(time.DateOnly)), true
				}
			}
			return "", false
		}),
	ofService("SluiceSettingsChanged", Critical, "0m", "Somebody changed settings of a stream in NATS.",
		"The stream may drop acknowledged events before they are stored. "+
			"sluice cluster status names stream and settings. Find out who did it; restart a node, which puts them right, or "+
			"stops and says why it cannot.",
		func(s *State) (string, bool) {
			return fmt.Sprintf("Somebody changed settings of %s in NATS.",
				humanize.Plural(s.Copies.Changed(), "stream", "streams")), s.Copies.Changed() > 0
		}),
	ofService("SluiceBacklogAtRisk", Critical, "0m",
		"Events that are not stored yet come near the age at which the stream drops them.",
		"Repair the loader now (see SluiceLoadBehind), or raise --stream-retention until it works again.",
		func(s *State) (string, bool) {
			return fmt.Sprintf("The oldest event that is not stored yet has waited %s; the stream keeps it %s.",
				humanize.Span(s.Backlog.Age()), humanize.Span(s.Retention)), s.Backlog.Age() > backlogRisk
		}),
	ofService("SluiceDiskFull", Critical, "0m", "The disk is nearly full: the service rejects events, or soon will.",
		"Free space or enlarge the disk. Nothing acknowledged is lost; senders get a 503 and try again.",
		func(s *State) (string, bool) {
			// by its headroom, or out of files: whatever share is free
			if s.Stream.Phase == stream.NoSpace && !s.Stream.Account {
				return fmt.Sprintf("The service rejects events because too little disk space is free: %s.",
					humanize.Bytes(s.Stream.DiskFree)), true
			}
			return fmt.Sprintf("The disk is nearly full: %s of %s free.", humanize.Bytes(s.Disk.Free),
				humanize.Bytes(s.Disk.Size)), s.Disk.Size > 0 && humanize.Share(s.Disk.Free, s.Disk.Size) < DiskRisk
		}),
	ofService("SluiceEngineFull", Critical, "0m",
		"The NATS account has nearly reached its storage limit: the service rejects events, or soon will.",
		"Raise the limit of the account (max_file of jetstream in its accounts, or max_file_store of the servers), or see "+
			"what else is stored in it. Nothing acknowledged is lost; senders get a 503 and try again.",
		func(s *State) (string, bool) {
			st := &s.Stream
			return fmt.Sprintf("The NATS account has nearly reached its storage limit: %s of %s free.",
					humanize.Bytes(st.DiskFree), humanize.Bytes(st.DiskSize)),
				st.Account && (st.Phase == stream.NoSpace || st.DiskSize > 0 && humanize.Share(st.DiskFree, st.DiskSize) < DiskRisk)
		}),
	ofService("SluiceNotReady", Critical, "1m", "A node takes no events.",
		"The page System and the log say why: engine, disk, queue or backlog. Senders get a 503 and try again.",
		func(s *State) (string, bool) {
			if s.Ready == nil || s.starting() || s.Stream.Phase == stream.NoSpace { // SluiceDiskFull says so
				return "", false
			}
			return "No events are taken: " + s.Ready.Error() + ".", true
		}),
	ofService("SluiceEngineUnhealthy", Critical, "1m", "The engine does not take writes.",
		"The node restarts it by itself. If that does not help, check the disk and its permissions, then restart the node.",
		func(s *State) (string, bool) { return "The engine does not take writes.", !s.Engine.Healthy }),
	ofService("SluiceServerErrors", Critical, "5m", "More than 1 % of requests end in a 5xx.",
		"500s have a stack trace in the log; 503s come from the queue, the disk "+
			"or the memory limit: the page System shows which.",
		func(s *State) (string, bool) {
			return fmt.Sprintf("%s of the requests of the last 5 minutes ended in a 5xx.",
					humanize.Percent(humanize.Share(int64(s.last5.errs), int64(s.last5.requests)))),
				s.last5.errs > 0 && humanize.Share(int64(s.last5.errs), int64(s.last5.requests)) > 0.01
		}),
	ofService("SluiceNoLoader", Critical, "0m", "Events wait, and nothing of their partition is loaded.",
		"Nothing is lost while the stream retains them. If a node says why it cannot load, "+
			"repair that: the bucket, its credentials, the network or the disk of the tables. If none "+
			"does, start a node with --loading and the tables of the cluster; sluice cluster status shows nodes and leases.",
		func(s *State) (string, bool) {
			n, why := s.Backlog.Unloaded(), s.failure()
			if why == "" {
				why = "No node says that it loads them."
			}
			return fmt.Sprintf("%s events that nobody carries into the tables; the oldest has waited %s. %s",
				humanize.Plural(n, "partition has", "partitions have"), humanize.Span(s.Backlog.Age()), why), n > 0
		}),
	ofService("SluiceCopiesBehind", Warning, "1m", "Streams or buckets in NATS have fewer copies in step than configured.",
		"Nothing is lost. Until the copies are in step, the loss of another server stops the service. sluice cluster "+
			"status names streams and servers: start the server, or repair its network or disk.",
		func(s *State) (string, bool) {
			n := s.Copies.Behind()
			return fmt.Sprintf("%s in NATS fewer copies in step than configured, since %s.",
					humanize.Plural(n, "stream has", "streams have"), humanize.Time(s.Copies.Since)), n > 0 &&
					s.Now.Sub(s.Copies.Since) > copiesWarn
		}),
	ofService("SluiceLoadBehind", Warning, "5m", "Events wait longer than usual before they are stored.",
		"Nothing is lost: they are safe in the stream. Look at the "+
			"loader's errors, the disk's speed and whether one node holds the lease.",
		func(s *State) (string, bool) {
			return fmt.Sprintf("Events wait %s before they are stored.", humanize.Span(s.Backlog.Age())),
				s.Backlog.Age() > BacklogWarn && s.Backlog.Age() <= backlogRisk
		}),
	ofService("SluiceDiskLow", Warning, "10m", "The disk fills up.",
		"Enlarge it, or shorten --stream-retention or --table-retention.",
		func(s *State) (string, bool) {
			free := humanize.Share(s.Disk.Free, s.Disk.Size)
			return fmt.Sprintf("The disk fills up: %s of %s free.", humanize.Bytes(s.Disk.Free), humanize.Bytes(s.Disk.Size)),
				s.Disk.Size > 0 && free < DiskWarn && free >= DiskRisk && s.Stream.Phase != stream.NoSpace
		}),
	ofService("SluiceSlowSync", Warning, "10m", "The disk is slow to make events durable.",
		"Look for other programs on the disk, a volume out of credits or a "+
			"failing drive; senders see the delay in their answers.",
		func(s *State) (string, bool) {
			p99 := s.last10.latency.Quantile(0.99)
			return "Of the syncs of the last 10 minutes, 1 % took " + humanize.Span(p99) + " or longer.", p99 > slowSync &&
				s.last10.latency.Count() >= slowSyncs
		}),
	ofService("SluiceMemoryShed", Warning, "5m", "The service rejects requests because too many bytes are in flight.",
		"Add a node or memory, or ask the largest sender for smaller batches; the limit protects the process from being "+
			"killed.",
		func(s *State) (string, bool) {
			a := &s.API
			return "Nearly all memory for requests is in use.", a.BytesInFlightLimit > 0 &&
				float64(a.BytesInFlight) > queueFull*float64(a.BytesInFlightLimit)
		}),
	ofService("SluiceRegistryStale", Warning, "2m", "A node works with an old copy of datasets and keys.",
		"New and revoked keys do not reach it. Check its connection to the engine.",
		func(s *State) (string, bool) {
			old := s.Now.Sub(s.Registry.Synced)
			return "Datasets and keys were last read " + humanize.Span(old) + " ago.", !s.Registry.Synced.IsZero() &&
				old > registryStale
		}),
	ofDatasets(requestsFailing, "Every request of a dataset is rejected.",
		"Open Diagnosis for the dataset: it names the code and what to do, and "+
			"copies a text for the sender. The alarm ends with the next accepted request.",
		func(s *State) []finding { return s.found.failing }),
	ofDatasets("SluiceDatasetRejected", "More than half of a dataset's events are rejected.",
		"Open Diagnosis for the dataset: the first card names code, field and remedy. Send it to the sender.",
		func(s *State) []finding { return s.found.rejected }),
	ofDatasets("SluiceDatasetSilent", "A dataset has been silent for longer than it usually is.",
		"Ask the sender; check on its page whether its key expired or was revoked.",
		func(s *State) []finding { return s.found.silent }),
	ofDatasets("SluiceDatasetDropped", "A dataset has far fewer events than in the same hours of last week.",
		"Ask the sender whether a campaign ended or a program was changed; its page shows which event types became fewer.",
		func(s *State) []finding { return s.found.dropped }),
	ofDatasets("SluiceKeyEnding", "A key that is still in use ends within a day.",
		"Tell the sender to change to the new key. For more time: sluice key extend KEY_ID --until TIME.",
		func(s *State) []finding { return s.found.keys }),
	ofDatasets("SluiceEndedKeyInUse", "A revoked or expired key is still in use.",
		"Its requests get 403. Ask the sender which program still has it. If "+
			"the sender does not know, somebody else has the key: it stays revoked.",
		func(s *State) []finding { return s.found.ended }),
	ofDatasets("SluiceConsentNotRead",
		"A dataset has many events with a consent signal that is not read: a consent platform may have switched to a newer "+
			"version.",
		"Nothing is lost, and nothing is used that may not be used: the events are suppressed or restricted. "+
			"Open Diagnosis for the dataset: it names the code and what to do. docs/privacy.md has the steps for each.",
		func(s *State) []finding { return s.found.consent }),
	ofPrometheus("SluiceConnectionsRejected", Warning, "5m", `increase(sluice_http_connections_rejected_total[5m]) > 0`,
		"Senders open more connections than the server takes.",
		"sluice_http_connections_rejected_total says whether one "+
			"peer has too many. Raise --memory if there is more, or block the peer."),
	ofPrometheus("SluiceIdempotencyKeys", Warning, "5m", `increase(sluice_idempotency_keys_limited_total[5m]) > 0`,
		"Requests are rejected because too many idempotency keys are in use.",
		"If sluice_idempotency_keys of a dataset is at sluice_idempotency_keys_limit, ask its sender to put more events "+
			"into each request, or allow more in all: a dataset may have a half of them. Raise --memory, an eighth of which "+
			"is for keys, 16 bytes each; in a cluster use sluice cluster set --max-idempotency-keys-total, about 170 bytes "+
			"each in a NATS server."),
	ofService("SluiceRejectionsLost", Warning, "0m", "Counts of rejected events were dropped.",
		"Events are not affected: only the numbers on Diagnosis are too small. "+
			"The stream did not take writes while many different problems came in.",
		func(s *State) (string, bool) {
			return fmt.Sprintf("%s of rejected events were dropped in the last hour.",
				humanize.Plural(s.last60.lost, "count", "counts")), s.last60.lost > 0
		}),
	ofService("SluiceAuditBroken", Critical, "0m", "The audit log does not match its seals.",
		"Keep the file as it is, find out who can write to the data directory, "+
			"and compare with a backup: sluice audit verify names the line.",
		func(s *State) (string, bool) {
			return "The audit log does not match its seals.", s.Audit != nil
		}),
}

// Raised is an alarm that is on.
type Raised struct {
	Name, Level, Class, Say, Do string
	Subject, Path               string // the dataset that it is about, and where to look; empty for the service
}

// requestsFailing is the name of the alarm about datasets whose every request fails.
const requestsFailing = "SluiceRequestsFailing"

// alarmMost is how many alarms are told apart; the others are counted together, by alarm.
const alarmMost = 1000

// otherAlarms is the subject of what is beyond alarmMost. A dataset's id has no space and no parenthesis at its
// beginning.
const otherAlarms = "(other)"

// Raised are all alarms that are on, the gravest first, each once for each dataset that it is about.
func (s *State) Raised() []Raised {
	var out []Raised
	seen := map[[2]string]bool{}
	for _, level := range []string{Critical, Warning} {
		for i := range Alarms {
			a := &Alarms[i]
			if a.Severity != level {
				continue
			}
			for _, r := range a.all(s) {
				if len(out) >= alarmMost && r.Subject != "" {
					r.Subject, r.Say, r.Path = otherAlarms, "More datasets have this alarm than are told apart.", "/datasets"
				}
				if key := [2]string{r.Name, r.Subject}; !seen[key] {
					seen[key] = true
					out = append(out, r)
				}
			}
		}
	}
	return out
}

// all is the alarm if it is on: once, or once for each dataset that it is about. Until the numbers of the datasets are
// read, what lasted when the node was stopped still lasts.
func (a *Alarm) all(s *State) (out []Raised) {
	if a.on != nil {
		if say, on := a.on(s); on {
			out = append(out, Raised{Name: a.Name, Say: say, Do: a.Do})
		}
	}
	switch {
	case a.Each == nil:
	case s.found.known:
		for _, f := range a.Each(s) {
			out = append(out, Raised{Name: a.Name, Subject: f.dataset, Say: f.say, Do: a.Do, Path: f.path})
		}
	default:
		for _, e := range s.lasting {
			if e.Alarm == a.Name {
				out = append(out, Raised{Name: a.Name, Subject: e.Dataset, Say: e.Summary, Do: a.Do, Path: e.Path})
			}
		}
	}
	for i := range out {
		out[i].Level, out[i].Class = a.Severity, "warn"
		if a.Severity == Critical {
			out[i].Class = "bad"
		}
	}
	return out
}
