package console

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"time"

	"sluice/internal/histogram"
	"sluice/internal/stream"
)

type systemPage struct {
	Say   string
	Cards []systemCard
}

type systemCard struct {
	ID, Name string
	Wide     bool
	State    *systemState
	Facts    []fact
	Table    *systemTable
}

type systemState struct{ Word, Class string }

type fact struct{ Name, Value string }

type systemTable struct {
	Caption, Empty string
	Head           []string
	Rows           [][]string
}

func (c *Console) system(w http.ResponseWriter, r *http.Request) {
	s := c.look()
	p := systemPage{Say: fmt.Sprintf("Sluice %s, up for %s, data in %s.", s.version, span(s.now.Sub(s.started)), c.s.DataDir)}
	p.Cards = []systemCard{
		c.alarmCard(s), streamCard(s), loaderCard(s), lakeCard(s), feedCard(s), memoryCard(s), nodeCard(s), clusterCard(s), c.auditCard(r.Context(), s),
	}
	c.show(w, r, http.StatusOK, "system", "System", "/system", refreshEvery, p)
}

func good(ok bool, yes, no string) *systemState {
	if ok {
		return &systemState{yes, "ok"}
	}
	return &systemState{no, "bad"}
}

// alarmsShown is how many alarms the page lists. Arbitrary.
const alarmsShown = 100

// alarmCard lists alarms that are on and those that were.
func (c *Console) alarmCard(s *state) systemCard {
	now := sound(s)
	card := systemCard{ID: "alarms", Name: "Alarms", Wide: true, State: good(len(now) == 0, "none", plural(len(now), "alarm", "alarms"))}
	card.Table = &systemTable{Caption: "Recent alarms", Head: []string{"Alarm", "Severity", "Since", "Until", "What it says"}, Empty: "None yet."}
	if c.o.Webhook != "" {
		card.Facts = append(card.Facts, fact{"Webhook", plural(c.hookFailures.Load(), "try", "tries") + " of this node failed since its start"})
	}
	for i, a := range c.history.recent() {
		if i == alarmsShown {
			break
		}
		until := "now"
		if !a.Until.IsZero() {
			until = stamp(a.Until)
		}
		say := a.Summary
		if a.Node != "" {
			say = "Node " + a.Node + ": " + say
		}
		card.Table.Rows = append(card.Table.Rows, []string{a.Alarm, a.Severity, stamp(a.Since), until, say})
	}
	return card
}

// streamState names why the stream takes no records.
func streamState(s *state) string {
	if s.stream.Phase == stream.Writing {
		return "overloaded"
	}
	return s.stream.Phase.String()
}

func streamCard(s *state) systemCard {
	card := systemCard{ID: "stream", Name: "Stream", State: good(s.stream.Ready, "taking writes", streamState(s))}
	card.Facts = []fact{
		{"Engine", s.engine.Mode.String() + ", NATS " + s.engine.Version + ", " + plural(max(1, s.engine.Replicas), "copy", "copies")},
		{"Acknowledged", fmt.Sprintf("%s in %s, %s", plural(s.stream.Records, "submission", "submissions"), plural(s.stream.Frames, "frame", "frames"), size(int64(s.stream.Bytes)))},
		{"Sync, 99 %", "within " + edge(s.stream.Latency[:], histogram.Bounds[:]) + ", " + size(s.stream.Queued) + " waiting"},
		{"Rejected", fmt.Sprintf("%s overloaded, %s no space, %s engine down, %s unanswered", num(s.stream.RejectedOverload), num(s.stream.RejectedSpace), num(s.stream.RejectedDown), num(s.stream.Failed))},
		{"Restarts of the engine", num(s.engine.Restarts)},
	}
	for _, problem := range s.engine.Exposed {
		card.Facts = append(card.Facts, fact{"Not protected", problem})
	}
	if len(s.engine.Exposed) > 0 && s.stream.Ready {
		card.State = &systemState{"taking writes, not protected", "warn"}
	}
	card.Table = &systemTable{Caption: "Partitions", Head: []string{"Partition", "Newest frame", "Holds", "Oldest"}, Empty: "The engine was not asked yet."}
	for i, x := range s.extents {
		oldest := "–"
		if !x.First.IsZero() {
			oldest = ago(s.now, x.First)
		}
		card.Table.Rows = append(card.Table.Rows, []string{strconv.Itoa(i), num(x.Last), size(x.Bytes) + " in " + plural(x.Frames, "frame", "frames"), oldest})
	}
	return card
}

func loaderCard(s *state) systemCard {
	step := loaderStep(s)
	card := systemCard{ID: "loader", Name: "Loader", State: &systemState{step.State, step.Class}, Facts: []fact{
		{"Oldest event waiting", span(s.backlog.Age())},
		{"Damaged or missing", num(s.damagedFrames()) + " in quarantine, " + num(s.missing()) + " missing, over restarts"},
		{"Commits tried again", num(s.failures())},
	}}
	card.Table = &systemTable{Caption: "Leases and watermarks", Head: []string{"Partition", "Lease", "Stored up to", "Commits", "Newest"}, Empty: "No partition yet."}
	for i := range s.loader.Partitions {
		p := &s.loader.Partitions[i]
		held := "–"
		switch {
		case p.Held:
			held = "this node"
		case s.cluster != nil && s.cluster.Loader(p.Partition) != nil:
			held = "another node"
		}
		card.Table.Rows = append(card.Table.Rows, []string{
			strconv.Itoa(int(p.Partition)), held, "frame " + num(p.Watermark), num(p.Commits), ago(s.now, p.LastCommit),
		})
	}
	if t := s.loader.Trouble; t.Error != "" {
		card.Facts = append(card.Facts, fact{"Cannot load since", stamp(t.Since) + ": " + t.Error})
	}
	return card
}

func lakeCard(s *state) systemCard {
	card := systemCard{ID: "lake", Name: "Lake", Wide: true, State: good(len(s.damaged) == 0, "readable", "damage")}
	if len(s.lake.Tables) == 0 {
		card.State = good(false, "", "not open")
	}
	for i, file := range s.damaged {
		if i == namedMost {
			card.Facts = append(card.Facts, fact{"And", plural(len(s.damaged)-i, "other file", "other files")})
			break
		}
		card.Facts = append(card.Facts, fact{"Cannot be read", file})
	}
	card.Table = &systemTable{Caption: "Tables", Head: []string{"Table", "Rows", "Files", "Size", "To compact", "Snapshots", "Newest commit", "Oldest day"}, Empty: "No tables yet."}
	for _, t := range s.lake.Tables {
		oldest := "–"
		if !t.OldestDay.IsZero() {
			oldest = t.OldestDay.Format("2 Jan 2006")
		}
		card.Table.Rows = append(card.Table.Rows, []string{
			t.Name, num(t.Rows), num(t.Files), size(t.Bytes), num(t.SmallFiles), num(t.Snapshots), ago(s.now, t.LastCommit), oldest,
		})
	}
	return card
}

// feedCard shows who follows the feed, and how far behind.
func feedCard(s *state) systemCard {
	f := &s.feed
	card := systemCard{ID: "feed", Name: "Feed", Wide: true, State: &systemState{plural(f.Followers, "request open", "requests open"), "note"}}
	card.Facts = []fact{
		{"Handed out", plural(f.Rows, "row", "rows") + ", " + size(int64(f.Bytes)) + ", by this node since its start"},
		{"Ended early", num(f.Rejected) + " too many at once, " + num(f.Cut) + " not read in time"},
	}
	card.Table = &systemTable{Caption: "Readers", Head: []string{"Reader", "Rows", "Size", "Behind", "Last answer"}, Empty: "Nobody has followed the feed of this node since its start."}
	for _, r := range f.Readers {
		behind := "at the end"
		if r.Lag > 0 {
			behind = span(r.Lag)
		}
		card.Table.Rows = append(card.Table.Rows, []string{r.Name, num(r.Rows), size(int64(r.Bytes)), behind, ago(s.now, r.Last)})
	}
	return card
}

// clusterCard shows all nodes. Everything else on the page, but for the lake and the oldest event waiting, is of one
// node.
func clusterCard(s *state) systemCard {
	card := systemCard{ID: "cluster", Name: "Cluster", Wide: true, State: good(s.backlog.Unloaded() == 0, plural(len(s.nodes()), "node", "nodes"), "partitions without a loader")}
	for i := range s.copies.Streams {
		st := &s.copies.Streams[i]
		switch {
		case st.Err != nil:
			card.Facts = append(card.Facts, fact{st.Name, "does not answer: " + st.Err.Error()})
		case st.Short():
			card.Facts = append(card.Facts, fact{st.Name, fmt.Sprintf("%d of %d copies are in step", st.InStep, st.Wanted)})
		}
		if len(st.Drift) > 0 {
			card.Facts = append(card.Facts, fact{st.Name, "somebody changed: " + strings.Join(st.Drift, ", ")})
		}
	}
	card.Table = &systemTable{Caption: "Nodes", Head: []string{"Node", "Version", "Role", "Loads", "Heartbeat"}, Empty: "No heartbeat yet."}
	for _, n := range s.nodes() {
		role := "accepts"
		if n.Loading {
			role = "accepts and loads"
		}
		if n.Draining {
			role = "draining"
		}
		var loads []string
		for _, l := range n.Loads {
			loads = append(loads, strconv.Itoa(int(l.Partition)))
		}
		card.Table.Rows = append(card.Table.Rows, []string{n.Host + " " + n.API, n.Version, role, cmp.Or(strings.Join(loads, ", "), "–"), ago(s.now, n.Seen)})
	}
	return card
}

func nodeCard(s *state) systemCard {
	free := share(s.disk.free, s.disk.total)
	state := &systemState{"enough free space", "ok"}
	switch {
	case free < diskRisk:
		state = &systemState{"disk nearly full", "bad"}
	case free < diskWarn:
		state = &systemState{"disk filling up", "warn"}
	}
	return systemCard{ID: "node", Name: "Disk and versions", State: state, Facts: []fact{
		{"Free on disk", size(s.disk.free) + " of " + size(s.disk.total) + ", " + pct(free)},
		{"Sluice", s.version + ", up for " + span(s.now.Sub(s.started))},
		{"Go", runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH},
		{"Engine", "NATS " + s.engine.Version},
		{"Datasets", plural(s.registry.Datasets, "dataset", "datasets") + ", " + plural(s.registry.LiveKeys, "live key", "live keys")},
		{"Copy of the registry", "current " + ago(s.now, s.registry.Synced)},
	}}
}

func memoryCard(s *state) systemCard {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return systemCard{ID: "memory", Name: "Requests and memory", State: good(s.ready == nil, "open", "closed"), Facts: []fact{
		{"In flight", size(s.api.BytesInFlight) + " of " + size(s.api.BytesInFlightLimit)},
		{"Rejected under load", fmt.Sprintf("%s memory, %s share, %s stream, %s large", num(s.api.ShedMemory), num(s.api.ShedShare), num(s.api.ShedStream), num(s.api.Paced))},
		{"Bodies", size(int64(s.api.BytesWire)) + " received, " + size(int64(s.api.BytesPlain)) + " decompressed"},
		{"Faults", num(s.api.Faults)},
		{"Heap", size(int64(m.HeapAlloc)) + " in use, " + size(int64(m.Sys)) + " from the system"},
		{"Goroutines", num(runtime.NumGoroutine())},
	}}
}

// auditWait is how long the page waits for the newest entries of the audit log (arbitrary).
const auditWait = time.Second

func (c *Console) auditCard(ctx context.Context, s *state) systemCard {
	card := systemCard{ID: "audit", Name: "Audit log", Wide: true, State: good(s.audit.problem == nil, "intact", "changed")}
	card.Facts = []fact{{"Entries", num(s.audit.entries) + " when verified " + ago(s.now, s.audit.at)}}
	if s.audit.seal != "" {
		card.Facts = append(card.Facts, fact{"Last seal", s.audit.seal})
	}
	card.Table = &systemTable{Caption: "Newest entries", Head: []string{"When", "Who", "What", "On"}, Empty: "No entries yet: provisioning, log-ins, exports and erasures are recorded here."}
	if c.s.Audit == nil {
		return card
	}
	ctx, cancel := context.WithTimeout(ctx, auditWait)
	defer cancel()
	entries, err := c.s.Audit.Tail(ctx, 10)
	if err != nil {
		c.log.Error("read audit log", "error", err)
	}
	for _, e := range entries {
		card.Table.Rows = append(card.Table.Rows, []string{stamp(e.Time), e.Actor, e.Action, e.Object})
	}
	return card
}
