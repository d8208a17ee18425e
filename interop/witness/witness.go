// Package witness holds what a service says about storage against what is true, second by second, while a test tries faults
// on it. What is true it asks from NATS and reads from the files of the table.
package witness

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"sluice/internal/servicetest"
)

// Service is whom a witness asks.
type Service struct {
	Nodes     func() []*servicetest.Server                // those that run
	Status    func(context.Context) (out string, ok bool) // sluice cluster status --json: what it prints, and whether its exit code is 0
	JetStream jetstream.JetStream
	Table     []string      // directories in which the metadata of the table of events may lie
	Commit    time.Duration // --commit-every of the nodes
	Backlog   time.Duration // --max-backlog-age of the nodes; 0 is none
}

// What a claim may lag behind the truth. A sample takes up to a second, and the machine of a test is busy.
const (
	tolerance = 4 * time.Second
	// An alarm begins when a watermark has stood still for 30 s. A node may hear of its last move six seconds late: from a
	// heartbeat, when what it read itself is too old.
	alarmAfter     = 30 * time.Second
	alarmTolerance = tolerance + 6*time.Second
	// Who loads looks every ten seconds whether an older copy of the tables is in their place. Nobody knows it before.
	putBackAfter = 10*time.Second + tolerance
)

// Witness asks a service and the truth every second.
type Witness struct {
	t     testing.TB
	s     Service
	truth *truth

	mu    sync.Mutex
	begun time.Time                // of the fault
	signs map[string]time.Duration // after it each sign was first seen
	asked int                      // samples in which something had waited for too long
	lies  []string
	done  map[string]int // lies by claim
	still map[int]standing
	back  time.Time // when an older copy of the tables was seen in their place
	away  bool      // somebody changes the tables, and no node can see it
	met   map[*servicetest.Server]time.Time
	doubt []lie // an alarm that is off: right if loading goes on at once, of which a node may hear first
}

type lie struct {
	at          time.Time
	about, text string
}

// standing is since when the first frame of a partition is the same one.
type standing struct {
	seq   uint64
	since time.Time
}

// Watch asks until stop is called, which fails the test if the service said that all was stored while events waited for
// longer than two commits.
func Watch(t testing.TB, s Service) (w *Witness, stop func()) {
	t.Helper()
	w = &Witness{t: t, s: s, begun: time.Now(), signs: map[string]time.Duration{}, done: map[string]int{}, still: map[int]standing{}, met: map[*servicetest.Server]time.Time{}}
	var err error
	if w.truth, err = openTruth(t.Context(), s.JetStream, s.Table); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for ctx.Err() == nil {
			w.look(ctx)
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	}()
	return w, sync.OnceFunc(func() {
		cancel()
		<-ended
		w.verdict(t)
	})
}

// Begin says that a fault begins now: signs are measured from here.
func (w *Witness) Begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun, w.signs = time.Now(), map[string]time.Duration{}
}

// Unseen does something to the tables while no node reaches them. What was said meanwhile is not held against the truth.
func (w *Witness) Unseen(do func()) {
	set := func(away bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.away, w.back = away, time.Now()
	}
	set(true)
	defer set(false)
	do()
}

// Signs says after how long each sign was first seen since Begin.
func (w *Witness) Signs() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for sign, after := range w.signs {
		out = append(out, fmt.Sprintf("%s after %v", sign, after.Round(time.Second)))
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

func (w *Witness) verdict(t testing.TB) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.settle(time.Time{}, 0)
	t.Logf("witness: in %d samples events had waited for longer than two commits", w.asked)
	if len(w.lies) > 0 {
		t.Errorf("witness: what was said was not so, %v:\n%s", w.done, strings.Join(w.lies[:min(len(w.lies), 12)], "\n"))
	}
}

// look takes one sample. A claim is false if a frame waited before the question and still does after the answer.
func (w *Witness) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	before, err := w.truth.waits(ctx)
	if err != nil {
		return // NATS does not answer: nobody knows the truth
	}
	now := time.Now()
	claims := w.claims(ctx)
	after, err := w.truth.waits(ctx)
	if err != nil || ctx.Err() != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var waited, stood time.Duration
	for p, first := range before {
		if first.seq < w.still[p].seq {
			w.back = now
		}
		if w.still[p].seq != first.seq {
			w.still[p] = standing{first.seq, now}
		}
		if after[p].seq == first.seq {
			waited = max(waited, now.Sub(first.stored))
			stood = max(stood, now.Sub(w.still[p].since))
		}
	}
	for _, c := range claims {
		if c.sign != "" && w.signs[c.sign] == 0 {
			w.signs[c.sign] = time.Since(w.begun)
		}
	}
	w.settle(now, stood)
	if waited < 2*w.s.Commit+tolerance || w.away || now.Sub(w.back) < putBackAfter {
		return
	}
	w.asked++
	for _, c := range claims {
		if why := c.wrong(waited, stood); why != "" {
			found := lie{now, c.about, fmt.Sprintf("%s %s: %s; an event has waited for %v", now.Format("15:04:05"), c.about, why, waited.Round(time.Second))}
			if c.alarm {
				w.doubt = append(w.doubt, found)
			} else {
				w.tell(found)
			}
		}
	}
}

func (w *Witness) tell(found lie) {
	w.done[found.about]++
	w.lies = append(w.lies, found.text)
}

// settle decides on alarms that were off: loading has gone on, or it has not.
func (w *Witness) settle(now time.Time, stood time.Duration) {
	if !now.IsZero() && stood < alarmAfter {
		w.doubt = nil
	}
	for len(w.doubt) > 0 && (now.IsZero() || now.Sub(w.doubt[0].at) > tolerance) {
		w.tell(w.doubt[0])
		w.doubt = w.doubt[1:]
	}
}

// claim is something that a node or the command says.
type claim struct {
	about string
	sign  string // that something is wrong; "" if it says that all is well
	alarm bool   // it says whether loading stands still
	wrong func(waited, stood time.Duration) string
}

// claims asks everybody at the same time.
func (w *Witness) claims(ctx context.Context) (out []claim) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	ask := func(what func() []claim) {
		wg.Go(func() {
			found := what()
			mu.Lock()
			defer mu.Unlock()
			out = append(out, found...)
		})
	}
	var longest time.Duration // for which a node runs: what it says stands still has done so since its start, as far as it knows
	for _, n := range w.s.Nodes() {
		if n == nil || n.Ended() || n.Ops() == "" {
			continue
		}
		if w.met[n].IsZero() {
			w.met[n] = time.Now()
		}
		runs := time.Since(w.met[n])
		longest = max(longest, runs)
		ask(func() []claim { return metrics(ctx, n, runs) })
		ask(func() []claim { return overview(ctx, n, runs) })
		ask(func() []claim { return w.readyz(ctx, n) })
	}
	ask(func() []claim { return w.status(ctx, longest) })
	wg.Wait()
	return out
}

// get reads a page of the operators' listener. It is not ok if there is no answer.
func get(ctx context.Context, url string) (status int, body string, ok bool) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", false
	}
	a, err := servicetest.Client.Do(r)
	if err != nil {
		return 0, "", false
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	return a.StatusCode, string(text), err == nil
}

// metrics are the numbers that alerts are made of.
func metrics(ctx context.Context, n *servicetest.Server, runs time.Duration) []claim {
	_, text, ok := get(ctx, n.Ops()+"/metrics")
	if !ok {
		return nil
	}
	value := func(name string) (v float64) {
		for line := range strings.Lines(text) {
			if number, found := strings.CutPrefix(line, name+" "); found {
				v, _ = strconv.ParseFloat(strings.TrimSpace(number), 64)
			}
		}
		return v
	}
	backlog := claim{about: "sluice_load_backlog_seconds", wrong: func(waited, _ time.Duration) string {
		if v := value("sluice_load_backlog_seconds"); v < (waited - tolerance).Seconds() {
			return fmt.Sprintf("is %.1f", v)
		}
		return ""
	}}
	if value("sluice_load_backlog_seconds") > alarmAfter.Seconds() {
		backlog.sign = "a backlog of 30 s in /metrics"
	}
	standing := claim{about: "sluice_cluster_unloaded_partitions", alarm: true, wrong: func(_, stood time.Duration) string {
		if min(stood, runs) > alarmAfter+alarmTolerance && value("sluice_cluster_unloaded_partitions") == 0 {
			return fmt.Sprintf("is 0, and nothing was loaded for %v", stood.Round(time.Second))
		}
		return ""
	}}
	if value("sluice_cluster_unloaded_partitions") > 0 {
		standing.sign = "sluice_cluster_unloaded_partitions"
	}
	copies := claim{about: "copies", wrong: func(_, _ time.Duration) string { return "" }}
	if value("sluice_cluster_streams_behind") > 0 {
		copies.sign = "sluice_cluster_streams_behind"
	}
	files := claim{about: "sluice_lake_damaged_files", wrong: func(_, _ time.Duration) string {
		if n := value("sluice_lake_damaged_files"); n > 0 {
			return fmt.Sprintf("is %v, and no file is damaged", n)
		}
		return ""
	}}
	return []claim{backlog, standing, copies, files}
}

// unloaded is what the alarm SluiceNoLoader says.
const unloaded = "events that nobody carries into the tables"

// overview is the sentence and the alarms at the top of the console.
func overview(ctx context.Context, n *servicetest.Server, runs time.Duration) []claim {
	_, page, ok := get(ctx, n.Ops()+"/")
	if !ok {
		return nil
	}
	stored := claim{about: "the console", wrong: func(_, _ time.Duration) string {
		if strings.Contains(page, "Every acknowledged event is stored") || strings.Contains(page, "nothing waits") {
			return "says that every acknowledged event is stored"
		}
		return ""
	}}
	alarm := claim{about: "the alarm", alarm: true, wrong: func(_, stood time.Duration) string {
		if min(stood, runs) > alarmAfter+alarmTolerance && !strings.Contains(page, unloaded) {
			return fmt.Sprintf("is not on, and nothing was loaded for %v", stood.Round(time.Second))
		}
		return ""
	}}
	if strings.Contains(page, unloaded) {
		alarm.sign = "SluiceNoLoader in the console"
	}
	return []claim{stored, alarm}
}

// readyz must fail when the backlog is older than the service accepts.
func (w *Witness) readyz(ctx context.Context, n *servicetest.Server) []claim {
	status, why, ok := get(ctx, n.Ops()+"/readyz")
	if !ok {
		return nil
	}
	c := claim{about: "/readyz", wrong: func(waited, _ time.Duration) string {
		if w.s.Backlog > 0 && waited > w.s.Backlog+tolerance && status == http.StatusOK {
			return fmt.Sprintf("is 200 with --max-backlog-age %v", w.s.Backlog)
		}
		return ""
	}}
	if status != http.StatusOK && strings.Contains(why, "waits") {
		c.sign = "/readyz 503"
	}
	return []claim{c}
}

// status is the command of operators.
func (w *Witness) status(ctx context.Context, runs time.Duration) []claim {
	if w.s.Status == nil {
		return nil
	}
	out, fine := w.s.Status(ctx)
	var st struct {
		Partitions []struct {
			Lag   float64 `json:"lag_seconds"`
			Known *bool   `json:"lag_known"`
		}
	}
	if ctx.Err() != nil || json.Unmarshal([]byte(out), &st) != nil {
		return nil // it says nothing about storage
	}
	most, unknown := 0.0, false
	for _, p := range st.Partitions {
		most = max(most, p.Lag)
		unknown = unknown || p.Known != nil && !*p.Known
	}
	lag := claim{about: "lag in cluster status", wrong: func(waited, _ time.Duration) string {
		if most < (waited-tolerance).Seconds() && !unknown {
			return fmt.Sprintf("is %.1f", most)
		}
		return ""
	}}
	code := claim{about: "exit code of cluster status", alarm: true, wrong: func(_, stood time.Duration) string {
		if fine && min(stood, runs) > alarmAfter+alarmTolerance {
			return "is 0"
		}
		return ""
	}}
	if !fine {
		code.sign = "cluster status ends with 1"
	}
	return []claim{lag, code}
}
