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

	"sluice/internal/alarm"
	"sluice/internal/humanize"
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

func newTable(caption, empty string, head ...string) *systemTable {
	return &systemTable{Caption: caption, Empty: empty, Head: head}
}

func (t *systemTable) add(cells ...string) { t.Rows = append(t.Rows, cells) }

func (c *systemCard) add(name, value string) { c.Facts = append(c.Facts, fact{name, value}) }

func (c *Console) system(w http.ResponseWriter, r *http.Request) {
	s := c.look()
	p := systemPage{Say: fmt.Sprintf("Sluice %s, up for %s, data in %s.", s.version, humanize.Span(s.Now.Sub(s.Started)),
		c.s.DataDir)}
	p.Cards = []systemCard{
		c.alarmCard(s), streamCard(s), loaderCard(s), lakeCard(s), feedCard(s), memoryCard(s), nodeCard(s), clusterCard(s),
		c.auditCard(r.Context(), s),
	}
	if len(c.o.Settings) > 0 {
		p.Cards = append(p.Cards, settingsCard(c.o.Settings))
	}
	c.show(w, http.StatusOK, "system", "System", "/system", refreshEvery, p)
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
	now := sound(s.Raised())
	card := systemCard{
		ID: "alarms", Name: "Alarms", Wide: true,
		State: good(len(now) == 0, "none", humanize.Plural(len(now), "alarm", "alarms")),
	}
	card.Table = newTable("Recent alarms", "None yet.", "Alarm", "Severity", "Since", "Until", "What it says")
	if c.o.Webhook != "" {
		card.add("Webhook", humanize.Plural(c.alarms.WebhookFailures(), "try", "tries")+
			" of this node failed since its start")
	}
	for i, a := range c.alarms.Recent() {
		if i == alarmsShown {
			break
		}
		until := "now"
		if !a.Until.IsZero() {
			until = humanize.Time(a.Until)
		}
		say := a.Summary
		if a.Node != "" {
			say = "Node " + a.Node + ": " + say
		}
		card.Table.add(a.Alarm, a.Severity, humanize.Time(a.Since), until, say)
	}
	return card
}

// settingsCard lists the settings with which this node was started.
func settingsCard(all []Setting) systemCard {
	card := systemCard{ID: "settings", Name: "Settings", Wide: true}
	card.Table = newTable("Settings", "", "Setting", "Value", "From")
	for _, s := range all {
		card.Table.add("--"+s.Name, s.Value, s.From)
	}
	return card
}

// streamState names why the stream takes no records.
func streamState(s *state) string {
	if s.Stream.Phase == stream.Writing {
		return "overloaded"
	}
	return s.Stream.Phase.String()
}

func streamCard(s *state) systemCard {
	card := systemCard{ID: "stream", Name: "Stream", State: good(s.Stream.Ready, "taking writes", streamState(s))}
	card.Facts = []fact{
		{"Engine", s.Engine.Mode.String() + ", NATS " + s.Engine.Version + ", " + humanize.Plural(max(1, s.Engine.Replicas),
			"copy", "copies")},
		{"Acknowledged", fmt.Sprintf("%s in %s, %s", humanize.Plural(s.Stream.Records, "submission", "submissions"),
			humanize.Plural(s.Stream.Frames, "frame", "frames"), humanize.Bytes(int64(s.Stream.Bytes)))},
		{"Sync, 99 %", "within " + edge(&s.Stream.Latency) + ", " + humanize.Bytes(s.Stream.Queued) +
			" waiting"},
		{"Rejected", fmt.Sprintf("%s overloaded, %s no space, %s engine down, %s unanswered",
			humanize.Count(s.Stream.RejectedOverload), humanize.Count(s.Stream.RejectedSpace),
			humanize.Count(s.Stream.RejectedDown), humanize.Count(s.Stream.Failed))},
		{"Restarts of the engine", humanize.Count(s.Engine.Restarts)},
	}
	for _, problem := range s.Engine.Exposed {
		card.add("Not protected", problem)
	}
	if len(s.Engine.Exposed) > 0 && s.Stream.Ready {
		card.State = &systemState{"taking writes, not protected", "warn"}
	}
	card.Table = newTable("Partitions", "The engine was not asked yet.",
		"Partition", "Newest frame", "Holds", "Oldest")
	for i, x := range s.extents {
		oldest := "–"
		if !x.Oldest.IsZero() {
			oldest = humanize.Ago(s.Now, x.Oldest)
		}
		card.Table.add(strconv.Itoa(i), humanize.Count(x.Last), humanize.Bytes(x.Bytes)+
			" in "+humanize.Plural(x.Frames, "frame", "frames"), oldest)
	}
	return card
}

func loaderCard(s *state) systemCard {
	step := loaderStep(s)
	card := systemCard{ID: "loader", Name: "Loader", State: &systemState{step.State, step.Class}, Facts: []fact{
		{"Oldest event waiting", humanize.Span(s.Backlog.Age())},
		{"Damaged or missing", humanize.Count(s.Loader.Damaged) + " in quarantine, " + humanize.Count(s.Loader.Missing) +
			" missing, over restarts"},
		{"Commits tried again", humanize.Count(s.Loader.Failures)},
	}}
	card.Table = newTable("Leases and watermarks", "No partition yet.",
		"Partition", "Lease", "Stored up to", "Commits", "Newest")
	for i := range s.Loader.Partitions {
		p := &s.Loader.Partitions[i]
		held := "–"
		switch {
		case p.Held:
			held = "this node"
		case s.Cluster != nil && s.Cluster.Loader(p.Partition) != nil:
			held = "another node"
		}
		card.Table.add(strconv.Itoa(int(p.Partition)), held, "frame "+humanize.Count(p.Watermark), humanize.Count(p.Commits),
			humanize.Ago(s.Now, p.LastCommit))
	}
	if t := s.Loader.Failure; t.Error != "" {
		card.add("Cannot load since", humanize.Time(t.Since)+": "+t.Error)
	}
	return card
}

func lakeCard(s *state) systemCard {
	card := systemCard{ID: "lake", Name: "Lake", Wide: true, State: good(len(s.Damaged) == 0, "readable", "damage")}
	if len(s.Lake.Tables) == 0 {
		card.State = good(false, "", "not open")
	}
	for i, file := range s.Damaged {
		if i == namedMost {
			card.add("And", humanize.Plural(len(s.Damaged)-i, "other file", "other files"))
			break
		}
		card.add("Cannot be read", file)
	}
	card.Table = newTable("Tables", "No tables yet.",
		"Table", "Rows", "Files", "Size", "To compact", "Snapshots", "Newest commit", "Oldest day")
	for _, t := range s.Lake.Tables {
		oldest := "–"
		if !t.OldestDay.IsZero() {
			oldest = t.OldestDay.Format("2 Jan 2006")
		}
		card.Table.add(t.Name, humanize.Count(t.Rows), humanize.Count(t.Files), humanize.Bytes(t.Bytes),
			humanize.Count(t.SmallFiles), humanize.Count(t.Snapshots), humanize.Ago(s.Now, t.LastCommit), oldest)
	}
	return card
}

// feedCard shows who follows the feed, and how far behind.
func feedCard(s *state) systemCard {
	f := &s.feed
	card := systemCard{
		ID: "feed", Name: "Feed", Wide: true,
		State: &systemState{humanize.Plural(f.Followers, "request open", "requests open"), "note"},
	}
	card.Facts = []fact{
		{"Handed out", humanize.Plural(f.Rows, "row", "rows") + ", " + humanize.Bytes(int64(f.Bytes)) +
			", by this node since its start"},
		{"Ended early", humanize.Count(f.Rejected) + " too many at once, " + humanize.Count(f.Cut) + " not read in time"},
	}
	card.Table = newTable("Readers", "Nobody has followed the feed of this node since its start.",
		"Reader", "Rows", "Size", "Behind", "Last answer")
	for _, r := range f.Readers {
		behind := "at the end"
		if r.Lag > 0 {
			behind = humanize.Span(r.Lag)
		}
		card.Table.add(r.Name, humanize.Count(r.Rows), humanize.Bytes(int64(r.Bytes)),
			behind, humanize.Ago(s.Now, r.Last))
	}
	return card
}

// clusterCard shows all nodes. Everything else on the page, but for the lake and the oldest event waiting, is of one
// node.
func clusterCard(s *state) systemCard {
	card := systemCard{
		ID: "cluster", Name: "Cluster", Wide: true,
		State: good(s.Backlog.Unloaded() == 0, humanize.Plural(len(s.Nodes()), "node", "nodes"),
			"partitions without a loader"),
	}
	for i := range s.Copies.Streams {
		st := &s.Copies.Streams[i]
		switch {
		case st.Err != nil:
			card.add(st.Name, "does not answer: "+st.Err.Error())
		case st.Short():
			card.add(st.Name, fmt.Sprintf("%d of %d copies are in step", st.InStep, st.Wanted))
		}
		if len(st.Drift) > 0 {
			card.add(st.Name, "somebody changed: "+strings.Join(st.Drift, ", "))
		}
	}
	card.Table = newTable("Nodes", "No heartbeat yet.", "Node", "Version", "Role", "Loads", "Heartbeat")
	for _, n := range s.Nodes() {
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
		card.Table.add(n.Host+" "+n.API, n.Version, role, cmp.Or(strings.Join(loads, ", "), "–"),
			humanize.Ago(s.Now, n.Seen))
	}
	return card
}

func nodeCard(s *state) systemCard {
	free := humanize.Share(s.Disk.Free, s.Disk.Size)
	state := &systemState{"enough free space", "ok"}
	switch {
	case free < alarm.DiskRisk:
		state = &systemState{"disk nearly full", "bad"}
	case free < alarm.DiskWarn:
		state = &systemState{"disk filling up", "warn"}
	}
	return systemCard{ID: "node", Name: "Disk and versions", State: state, Facts: []fact{
		{"Free on disk", humanize.Bytes(s.Disk.Free) + " of " + humanize.Bytes(s.Disk.Size) + ", " + humanize.Percent(free)},
		{"Sluice", s.version + ", up for " + humanize.Span(s.Now.Sub(s.Started))},
		{"Go", runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH},
		{"Engine", "NATS " + s.Engine.Version},
		{"Datasets", humanize.Plural(s.Registry.Datasets, "dataset", "datasets") + ", " + humanize.Plural(s.Registry.LiveKeys,
			"live key", "live keys")},
		{"Copy of the registry", "current " + humanize.Ago(s.Now, s.Registry.Synced)},
	}}
}

func memoryCard(s *state) systemCard {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return systemCard{
		ID: "memory", Name: "Requests and memory", State: good(s.Ready == nil, "open", "closed"),
		Facts: []fact{
			{"In flight", humanize.Bytes(s.API.BytesInFlight) + " of " + humanize.Bytes(s.API.BytesInFlightLimit)},
			{"Rejected under load", fmt.Sprintf("%s memory, %s share, %s stream, %s large", humanize.Count(s.API.ShedMemory),
				humanize.Count(s.API.ShedShare), humanize.Count(s.API.ShedStream), humanize.Count(s.API.Paced))},
			{"Bodies", humanize.Bytes(int64(s.API.BytesWire)) + " received, " + humanize.Bytes(int64(s.API.BytesPlain)) +
				" decompressed"},
			{"Faults", humanize.Count(s.API.Faults)},
			{"Heap", humanize.Bytes(int64(m.HeapAlloc)) + " in use, " + humanize.Bytes(int64(m.Sys)) + " from the system"},
			{"Goroutines", humanize.Count(runtime.NumGoroutine())},
		},
	}
}

// auditWait is how long the page waits for the newest entries of the audit log (arbitrary).
const auditWait = time.Second

func (c *Console) auditCard(ctx context.Context, s *state) systemCard {
	card := systemCard{
		ID: "audit", Name: "Audit log", Wide: true,
		State: good(s.audit.problem == nil, "intact", "changed"),
	}
	card.Facts = []fact{{"Entries", humanize.Count(s.audit.Entries) + " when verified " + humanize.Ago(s.Now, s.audit.at)}}
	if s.audit.Seal != "" {
		card.add("Last seal", s.audit.Seal)
	}
	card.Table = newTable("Newest entries",
		"No entries yet: provisioning, log-ins, exports and erasures are recorded here.", "When", "Who", "What", "On")
	ctx, cancel := context.WithTimeout(ctx, auditWait)
	defer cancel()
	entries, err := c.s.Audit.Tail(ctx, 10)
	if err != nil {
		c.s.Log.Error("read audit log", "error", err)
	}
	for _, e := range entries {
		card.Table.add(humanize.Time(e.Time), e.Actor, e.Action, e.Object)
	}
	return card
}
