package console

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/internal/alarm"
	"sluice/internal/cluster"
	"sluice/internal/dataset"
	"sluice/internal/durable"
	"sluice/internal/engine"
	"sluice/internal/humanize"
	"sluice/internal/iceberg"
	"sluice/internal/loader"
	"sluice/internal/stream"
)

func wellState() *state {
	s := &state{State: alarm.State{Now: noon, Started: noon.Add(-time.Hour), Datasets: []*dataset.Dataset{{Spec: dataset.Spec{ID: "shop"}}}, Disk: durable.Disk{Free: 50 << 30, Size: 100 << 30}}}
	s.Engine.Healthy, s.Stream.Ready, s.Registry.Synced = true, true, noon
	return s
}

// The sentence at the top says whether all is well, and else what to do, the gravest first.
func TestVerdict(t *testing.T) {
	for name, c := range map[string]struct {
		change      func(*state)
		class, says string
		alarms      []string
	}{
		"well":       {func(*state) {}, "ok", "All is well.", nil},
		"no dataset": {func(s *state) { s.Datasets = nil }, "ok", "nothing to do yet", nil},
		"starting":   {func(s *state) { s.Ready = errors.New("not running"); s.Started = noon }, "warn", "Starting.", nil},
		"closed":     {func(s *state) { s.Ready = errors.New("the disk is nearly full") }, "bad", "needs you now", []string{"SluiceNotReady"}},
		"engine":     {func(s *state) { s.Engine.Healthy = false }, "bad", "needs you now", []string{"SluiceEngineUnhealthy"}},
		"disk low":   {func(s *state) { s.Disk.Free = 10 << 30 }, "warn", "needs a look", []string{"SluiceDiskLow"}},
		"disk full":  {func(s *state) { s.Disk.Free = 1 << 30 }, "bad", "needs you now", []string{"SluiceDiskFull"}},
		"no space at the start": {func(s *state) {
			s.Started, s.Ready, s.Stream.Phase, s.Stream.DiskFree = noon, stream.ErrNoSpace, stream.NoSpace, 300<<20
		}, "bad", "needs you now", []string{"SluiceDiskFull"}},
		"behind":  {func(s *state) { lag(s, 10*time.Minute) }, "warn", "needs a look", []string{"SluiceLoadBehind"}},
		"at risk": {func(s *state) { lag(s, 30*time.Hour) }, "bad", "needs you now", []string{"SluiceBacklogAtRisk"}},
		"no loader": {func(s *state) {
			s.Backlog = loader.BacklogStats{{Watermark: 5, Known: true, First: 7, Age: time.Minute, Still: 31 * time.Second}}
		}, "bad", "needs you now", []string{"SluiceNoLoader"}},
		"a loader that has just begun": {func(s *state) {
			s.Backlog = loader.BacklogStats{{Watermark: 5, Known: true, First: 7, Age: time.Minute, Still: 29 * time.Second}}
		}, "ok", "All is well.", nil},
		"damaged frame": {func(s *state) { s.Loader.Damaged = 1 }, "bad", "needs you now", []string{"SluiceDamagedFrames"}},
		"gap":           {func(s *state) { s.Loader.Missing = 3 }, "bad", "needs you now", []string{"SluiceSequenceGap"}},
		"damaged file":  {func(s *state) { s.Damaged = []string{"a.parquet"} }, "bad", "needs you now", []string{"SluiceDamagedFiles"}},
		"retention held": {func(s *state) {
			s.Lake.Tables = []iceberg.Stats{{Name: "events", Held: iceberg.Held{Before: noon, Days: 40, Rows: 800}}}
		}, "bad", "needs you now", []string{"SluiceRetentionHeld"}},
		"account full": {func(s *state) {
			s.Ready, s.Stream.Phase, s.Stream.Account, s.Stream.DiskFree, s.Stream.DiskSize = stream.ErrNoSpace, stream.NoSpace, true, 1<<20, 100<<20
		}, "bad", "needs you now", []string{"SluiceEngineFull"}},
		"a copy behind": {func(s *state) {
			s.Copies = cluster.Copies{Streams: []engine.StreamStatus{{Wanted: 3, InStep: 2}}, Since: noon.Add(-2 * time.Minute)}
		}, "warn", "needs a look", []string{"SluiceCopiesBehind"}},
		"a copy just behind": {func(s *state) {
			s.Copies = cluster.Copies{Streams: []engine.StreamStatus{{Wanted: 3, InStep: 2}}, Since: noon.Add(-time.Second)}
		}, "ok", "All is well.", nil},
		"settings changed": {func(s *state) {
			s.Copies = cluster.Copies{Streams: []engine.StreamStatus{{Wanted: 3, InStep: 3, Drift: []string{"retention"}}}}
		}, "bad", "needs you now", []string{"SluiceSettingsChanged"}},
		"old registry":   {func(s *state) { s.Registry.Synced = noon.Add(-2 * time.Minute) }, "warn", "needs a look", []string{"SluiceRegistryStale"}},
		"audit":          {func(s *state) { s.Audit = errors.New("changed") }, "bad", "needs you now", []string{"SluiceAuditBroken"}},
		"memory":         {func(s *state) { s.API.BytesInFlight, s.API.BytesInFlightLimit = 90, 100 }, "warn", "needs a look", []string{"SluiceMemoryShed"}},
		"two, one grave": {func(s *state) { s.Disk.Free = 10 << 30; s.Loader.Damaged = 2 }, "bad", "needs you now", []string{"SluiceDamagedFrames", "SluiceDiskLow"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := wellState()
			c.change(s)
			v := judge(s)
			if v.Class != c.class || !strings.Contains(v.Sentence, c.says) {
				t.Errorf("got %s %q, want %s %q", v.Class, v.Sentence, c.class, c.says)
			}
			var names []string
			for _, a := range v.Alarms {
				names = append(names, a.Name)
				if a.Say == "" || a.Do == "" {
					t.Errorf("%s says nothing", a.Name)
				}
			}
			if strings.Join(names, " ") != strings.Join(c.alarms, " ") {
				t.Errorf("got alarms %v, want %v", names, c.alarms)
			}
		})
	}
}

func lag(s *state, age time.Duration) {
	s.Backlog = loader.BacklogStats{{Known: true, First: 3, Age: time.Second}, {Known: true, First: 7, Age: age}}
}

// The console says that all is stored only if it knows that nothing waits, and names what the nodes report.
func TestStoredIsKnown(t *testing.T) {
	for name, c := range map[string]struct {
		backlog loader.BacklogStats
		says    string
	}{
		"nothing waits":             {loader.BacklogStats{{Known: true}}, "Every acknowledged event is stored"},
		"an event waits":            {loader.BacklogStats{{Known: true}, {Known: true, First: 3, Age: 8 * time.Second}}, "has waited 8 s"},
		"it waits on another clock": {loader.BacklogStats{{Known: true, First: 3}}, "has waited 0"},
		"the engine does not say":   {loader.BacklogStats{{Known: true}, {Known: true, Silent: true, Age: 9 * time.Second}}, "is not known"},
		"nobody has looked":         {nil, "is not known"},
	} {
		s := wellState()
		s.Backlog = c.backlog
		if v := judge(s); !strings.Contains(v.More, c.says) {
			t.Errorf("%s: got %q, want %q", name, v.More, c.says)
		}
	}
	s := wellState()
	s.Backlog = loader.BacklogStats{{Known: true, First: 3, Age: time.Minute, Still: time.Minute}}
	s.Cluster = &cluster.View{Nodes: []cluster.Node{{Host: "a"}, {Host: "b", Failure: &cluster.Failure{Since: noon, Error: "the bucket does not answer"}}}}
	if v := judge(s); len(v.Alarms) != 1 || !strings.Contains(v.Alarms[0].Say, "Node b") || !strings.Contains(v.Alarms[0].Say, "since "+humanize.Time(noon)+": the bucket does not answer") {
		t.Errorf("got %+v, want an alarm that names the node, since when and why", v.Alarms)
	}
}

// Of many datasets with the same problem the worst are named and the others counted.
func TestManyFindings(t *testing.T) {
	var all []alarm.Raised
	for i := range 12 {
		all = append(all, alarm.Raised{Name: "SluiceDatasetRejected", Subject: fmt.Sprint("shop-", i), Say: "x"})
	}
	all = append(all, alarm.Raised{Name: "SluiceKeyEnding", Subject: "shop"})
	page := sound(all)
	if len(page) != namedMost+2 || page[0].Subject != "shop-0" || page[namedMost].Say != "And 7 other datasets." || page[namedMost+1].Subject != "shop" {
		t.Errorf("got %+v", page)
	}
}
