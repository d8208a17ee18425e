package console

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"sluice/internal/cluster"
	"sluice/internal/dataset"
	"sluice/internal/lake"
	"sluice/internal/loader"
	"sluice/internal/stream"
)

func wellState() *state {
	s := &state{now: noon, started: noon.Add(-time.Hour), datasets: []*dataset.Dataset{{ID: "shop"}}, disk: disk{free: 50 << 30, total: 100 << 30}}
	s.engine.Healthy, s.stream.Ready, s.registry.Synced = true, true, noon
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
		"no dataset": {func(s *state) { s.datasets = nil }, "ok", "nothing to do yet", nil},
		"starting":   {func(s *state) { s.ready = errors.New("not running"); s.started = noon }, "warn", "Starting.", nil},
		"closed":     {func(s *state) { s.ready = errors.New("the disk is nearly full") }, "bad", "needs you now", []string{"SluiceNotReady"}},
		"engine":     {func(s *state) { s.engine.Healthy = false }, "bad", "needs you now", []string{"SluiceEngineUnhealthy"}},
		"disk low":   {func(s *state) { s.disk.free = 10 << 30 }, "warn", "needs a look", []string{"SluiceDiskLow"}},
		"disk full":  {func(s *state) { s.disk.free = 1 << 30 }, "bad", "needs you now", []string{"SluiceDiskFull"}},
		"no space at the start": {func(s *state) {
			s.started, s.ready, s.stream.Phase, s.stream.DiskFree = noon, stream.ErrNoSpace, stream.NoSpace, 300<<20
		}, "bad", "needs you now", []string{"SluiceDiskFull"}},
		"behind":  {func(s *state) { lag(s, 10*time.Minute) }, "warn", "needs a look", []string{"SluiceLoadBehind"}},
		"at risk": {func(s *state) { lag(s, 30*time.Hour) }, "bad", "needs you now", []string{"SluiceBacklogAtRisk"}},
		"no loader": {func(s *state) {
			s.cluster = &cluster.View{Loaded: map[uint8]uint64{0: 5}}
			s.extents = []stream.Extent{{Last: 7}}
			s.unloadedFor = time.Minute
		}, "bad", "needs you now", []string{"SluiceNoLoader"}},
		"another node is behind": {func(s *state) {
			s.cluster = &cluster.View{Nodes: []cluster.Node{{Loads: []cluster.Load{{Lag: 10 * time.Minute}}}}}
		}, "warn", "needs a look", []string{"SluiceLoadBehind"}},
		"damaged frame":  {func(s *state) { s.loader.Damaged = 1 }, "bad", "needs you now", []string{"SluiceDamagedFrames"}},
		"gap":            {func(s *state) { s.loader.Missing = 3 }, "bad", "needs you now", []string{"SluiceSequenceGap"}},
		"damaged file":   {func(s *state) { s.lake = lake.Stats{DamagedFiles: 1} }, "warn", "needs a look", []string{"SluiceDamagedFiles"}},
		"old registry":   {func(s *state) { s.registry.Synced = noon.Add(-2 * time.Minute) }, "warn", "needs a look", []string{"SluiceRegistryStale"}},
		"audit":          {func(s *state) { s.audit.problem = errors.New("changed") }, "bad", "needs you now", []string{"SluiceAuditBroken"}},
		"memory":         {func(s *state) { s.api.BytesInFlight, s.api.BytesInFlightLimit = 90, 100 }, "warn", "needs a look", []string{"SluiceMemoryShed"}},
		"two, one grave": {func(s *state) { s.disk.free = 10 << 30; s.loader.Damaged = 2 }, "bad", "needs you now", []string{"SluiceDamagedFrames", "SluiceDiskLow"}},
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
	s.loader = loader.Stats{Partitions: []loader.PartitionStats{{Lag: time.Second}, {Lag: age}}}
}

// An alarm is logged when it begins and when it ends, and remembered.
func TestHistory(t *testing.T) {
	var words strings.Builder
	log := slog.New(slog.NewTextHandler(&words, nil))
	var h history
	on := []raised{{Name: "SluiceDiskLow", Level: warning, Say: "10 GiB free."}}
	h.look(noon, on, log)
	h.look(noon.Add(time.Second), on, log)
	h.look(noon.Add(time.Minute), nil, log)
	h.look(noon.Add(2*time.Minute), on, log)
	if n := strings.Count(words.String(), "SluiceDiskLow"); n != 3 {
		t.Errorf("got %d lines, want 3:\n%s", n, words.String())
	}
	got := h.recent()
	if len(got) != 2 || !got[0].until.IsZero() || got[1].until != noon.Add(time.Minute) {
		t.Errorf("got %+v", got)
	}
	for i := range 3 * historyMax {
		h.look(noon.Add(time.Duration(i)*time.Hour), []raised{{Name: "SluiceDiskLow"}}[:i%2], log)
	}
	if n := len(h.recent()); n != historyMax {
		t.Errorf("got %d episodes, want %d", n, historyMax)
	}
}
