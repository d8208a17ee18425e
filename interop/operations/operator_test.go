package operations

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"sluice/internal/enginetest"
	"sluice/internal/servicetest"
	"sluice/interop/gateway"
)

// follows is how long running servers may take to follow a command.
const follows = 6 * time.Second

// probe asks whether a key opens a dataset, and what becomes of an opt-out there.
func (w *world) probe(dataset, key string) (status int, outcome string) {
	body := fmt.Sprintf(`{"data_set_id":%q,"timestamp":%d,"event_type":"purchase","identifiers":{"partner_id":"p","email_sha256":%q},"privacy":{"us_privacy_string":"1YYN"}}`,
		dataset, w.now().Unix(), hexHash(0))
	a, err := w.server.Call(http.MethodPost, key, "/v1/events/validate", body)
	if err != nil {
		return 0, ""
	}
	var answer struct {
		Events []struct {
			Privacy string `json:"privacy"`
		} `json:"events"`
	}
	_ = json.Unmarshal(a.Body, &answer)
	if len(answer.Events) == 1 {
		outcome = answer.Events[0].Privacy
	}
	return a.Status, outcome
}

// followed waits until a running server treats every key of a dataset as the model says.
func (w *world) followed(id string, ended ...string) {
	w.Helper()
	if w.server == nil {
		return
	}
	d := w.datasets[id]
	wantOutcome := map[bool]string{false: "measurement_only", true: "suppressed"}[d.suppress]
	servicetest.Eventually(w, follows, "a server that follows what was changed of "+id, func() error {
		for _, k := range d.keys {
			status, outcome := w.probe(id, k.secret)
			if d.disabled && status != http.StatusForbidden {
				return fmt.Errorf("a key of a disabled dataset got %d", status)
			}
			if !d.disabled && (status != http.StatusOK || outcome != wantOutcome) {
				return fmt.Errorf("a key got %d %q, want 200 %q", status, outcome, wantOutcome)
			}
		}
		for _, secret := range ended {
			if status, _ := w.probe(id, secret); status != http.StatusForbidden {
				return fmt.Errorf("a revoked key got %d", status)
			}
		}
		return nil
	})
}

func (w *world) issued(out string) keyModel {
	w.Helper()
	var made struct {
		ID     string `json:"key_id"`
		Secret string `json:"api_key"`
	}
	if err := json.Unmarshal([]byte(out), &made); err != nil || made.Secret == "" {
		w.Fatalf("got no key (%v)", err)
	}
	return keyModel{made.ID, made.Secret}
}

func (w *world) createDataset() {
	if len(w.datasets) >= 4 {
		return
	}
	id := fmt.Sprintf("shop-%d", w.number())
	d := &datasetModel{suppress: w.chance(2)}
	policy := map[bool]string{false: "measurement_only", true: "suppress"}[d.suppress]
	w.note("create %s with %s", id, policy)
	d.keys = []keyModel{w.issued(w.sluice("dataset", "create", id, "--opt-out", policy, "--json"))}
	w.datasets[id] = d
	w.followed(id)
}

func (w *world) changeDataset() {
	if len(w.datasets) == 0 {
		return
	}
	id := pick(w, w.ids())
	d := w.datasets[id]
	if w.chance(2) {
		d.suppress = !d.suppress
		policy := map[bool]string{false: "measurement_only", true: "suppress"}[d.suppress]
		w.note("set %s to %s", id, policy)
		w.sluice("dataset", "set", id, "--opt-out", policy)
	} else {
		d.disabled = !d.disabled
		w.note("disabled %s: %v", id, d.disabled)
		w.sluice("dataset", map[bool]string{false: "enable", true: "disable"}[d.disabled], id)
	}
	w.followed(id)
}

// keepDataset changes for how long rows of a dataset are kept.
func (w *world) keepDataset() {
	if len(w.datasets) == 0 {
		return
	}
	w.loads()
	id, days := pick(w, w.ids()), w.random.IntN(4)
	w.note("keep %s for %d days", id, days)
	w.sluice("dataset", "set", id, "--retention", fmt.Sprint(days), "--yes")
	w.setKeep(id, days, w.now())
}

// deleteDataset deletes a dataset, sometimes killed first and given again. Its keys end, and its id is taken.
func (w *world) deleteDataset() {
	if len(w.datasets) < 2 {
		return
	}
	w.loads()
	id, killed := pick(w, w.ids()), w.chance(3)
	w.note("delete %s, server: %v, killed first: %v", id, w.server != nil, killed)
	args := []string{"dataset", "delete", id, "--yes"}
	if killed {
		w.killed(args...)
	}
	w.sluice(args...)
	keys := w.datasets[id].keys
	w.erased(erasure{everybody, id})
	if w.server == nil {
		return
	}
	servicetest.Eventually(w, follows, "keys that have ended", func() error {
		for _, k := range keys {
			if status, _ := w.probe(id, k.secret); status != http.StatusForbidden {
				return fmt.Errorf("a key of a deleted dataset got %d", status)
			}
		}
		return nil
	})
}

// erased notes an erasure, also for the backups from before it.
func (w *world) erased(e erasure) {
	w.model.erase(e)
	for i := range w.backups {
		if w.backups[i].branch == w.branch {
			w.backups[i].erasures = append(w.backups[i].erasures, e)
		}
	}
}

func (w *world) changeKeys() {
	if len(w.datasets) == 0 {
		return
	}
	id := pick(w, w.ids())
	d := w.datasets[id]
	if len(d.keys) < 2 {
		w.note("issue a key of %s", id)
		d.keys = append(d.keys, w.issued(w.sluice("key", "issue", id, "--json")))
		w.followed(id)
		return
	}
	i := w.random.IntN(len(d.keys))
	gone := d.keys[i]
	w.note("revoke a key of %s", id)
	w.sluice("key", "revoke", gone.id)
	d.keys = slices.Delete(d.keys, i, i+1)
	w.followed(id, gone.secret)
}

// erase erases a person. The stream and the tables are settled by the command, with a server or without one. Sometimes the
// command is killed on its way, and given again.
func (w *world) erase() {
	if len(w.datasets) == 0 {
		return
	}
	e := erasure{person: w.random.IntN(people)}
	if w.chance(2) {
		e.dataset = pick(w, w.ids())
	}
	w.eraseOne(e, w.chance(3))
}

// eraseEverybody leaves no row of an identifier, in a dataset or in all: files, and lists of files, become empty.
func (w *world) eraseEverybody() {
	if len(w.datasets) == 0 {
		return
	}
	dataset := ""
	if w.chance(2) {
		dataset = pick(w, w.ids())
	}
	for person := range people {
		w.eraseOne(erasure{person, dataset}, false)
	}
}

func (w *world) eraseOne(e erasure, killed bool) {
	w.Helper()
	w.loads()
	args := []string{"erase", "--email-sha256", hexHash(e.person), "--yes"}
	if e.dataset != "" {
		args = append(args, "--dataset", e.dataset)
	}
	w.note("erase person %d from %q, server: %v, killed first: %v", e.person, e.dataset, w.server != nil, killed)
	if killed {
		w.killed(args...)
	}
	w.sluice(args...)
	w.erased(e)
}

func (w *world) stopServer() {
	signal := pick(w, []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL})
	w.note("stop the server: %v", signal)
	w.stop(signal)
}

func (w *world) restart() {
	w.note("start the server")
	w.start()
}

// moveDirectory renames the data directory of a stopped service.
func (w *world) moveDirectory() {
	if _, err := os.Stat(w.data); err != nil || w.nats != "" {
		return
	}
	to := w.path("moved")
	w.note("rename the directory")
	w.stop(syscall.SIGTERM)
	w.must(os.Rename(w.data, to))
	w.data = to
}

func (w *world) addPartition() {
	if w.parts >= 3 || w.nats != "" {
		return
	}
	w.parts++
	w.note("grow to %d partitions", w.parts)
	w.stop(syscall.SIGTERM)
	w.start("--partitions", fmt.Sprint(w.parts))
}

// nextDay moves the clock, so that days pass out of retention.
func (w *world) nextDay() {
	w.ahead += time.Duration(6+w.random.IntN(19)) * time.Hour
	w.note("the clock is ahead by %v", w.ahead)
	w.setClock()
	<-time.After(600 * time.Millisecond) // the service reads it twice a second
}

func (w *world) backUp() {
	if len(w.datasets) == 0 || strings.HasPrefix(w.tables, "s3:") { // tables in a bucket are not part of a backup
		return
	}
	w.loads()
	b := savedBackup{dir: w.path("backup"), branch: w.branch}
	w.note("backup %s, server: %v", filepath.Base(b.dir), w.server != nil)
	w.sluice("backup", b.dir)
	b.model = w.clone()
	w.backups = append(w.backups, b)
}

// restore goes on with an earlier state, in a new directory. With a newer backup, what was erased until then stays erased.
func (w *world) restore() {
	if len(w.backups) == 0 {
		return
	}
	i := w.random.IntN(len(w.backups))
	b := w.backups[i]
	w.stop(pick(w, []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL}))
	args := []string{"restore", b.dir}
	m := b.model.clone()
	if j := i + 1; j < len(w.backups) && w.backups[j].branch == b.branch {
		args = append(args, "--erasures", w.backups[j].dir)
		for _, e := range b.erasures[:len(b.erasures)-len(w.backups[j].erasures)] {
			m.erase(e)
		}
	}
	w.branch++
	if w.chance(4) {
		w.note("restore %s, killed", filepath.Base(b.dir))
		w.data, w.nats = w.path("half"), ""
		w.killed(args...)
	}
	w.leaveCluster(m)
	w.data, w.tables, w.model = w.path("restored"), "", m
	if w.chance(3) {
		w.tables = w.elsewhere()
		args = append(args, "--lake", w.tables)
	}
	w.note("%s", strings.ReplaceAll(strings.Join(args, " "), w.root+"/", ""))
	w.sluice(args...)
}

// move moves the stopped service: to another directory, and its tables too or not; from a directory into a cluster; and back.
// Sometimes the final backup is killed and made again, or given up.
func (w *world) move() {
	if len(w.datasets) == 0 {
		return
	}
	w.start()
	token := strings.TrimSpace(w.sluice("reader", "create", fmt.Sprintf("follower-%d", w.number()), "--allow", "feed"))
	cursor := w.follow(token, "earliest")
	if w.nats != "" { // a command loads what is left in a directory, but not in a cluster
		w.settle()
	}
	w.stop(pick(w, []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL}))
	backup, final := w.path("final"), w.nats == ""
	args := []string{"backup", backup}
	if final {
		args = append(args, "--final")
	}
	if w.chance(4) {
		w.note("move, the backup is killed")
		w.killed("backup", w.path("half"), "--final")
	}
	w.sluice(args...)
	if final && w.chance(4) {
		w.note("move, undone")
		w.sluice("backup", "--undo-final")
	} else {
		w.restoreMoved(backup)
	}
	if final {
		w.start()
		w.follow(token, cursor)
	}
}

// restoreMoved goes on with what a backup of the stopped service has.
func (w *world) restoreMoved(backup string) {
	w.Helper()
	args := []string{"restore", backup}
	copied := !strings.HasPrefix(w.tables, "s3:")
	cluster := w.nats == "" && w.chance(2)
	w.leaveCluster(w.model)
	switch {
	case copied && (cluster || w.chance(3)):
		w.tables = w.elsewhere()
		args = append(args, "--lake", w.tables)
	case copied:
		w.tables = ""
	}
	w.note("move: %s, into a cluster: %v", strings.ReplaceAll(strings.Join(args, " "), w.root+"/", ""), cluster)
	w.data = w.path("moved")
	if !cluster {
		w.sluice(args...)
		return
	}
	server := enginetest.Start(w.T, "")
	nats := strings.Replace(server.URL(), "nats://", "nats://"+enginetest.Token+"@", 1)
	_, err := w.program.Run(w.Context(), append(args, "--nats", nats, "--replicas", "1", "--table-retention", fmt.Sprint(retention))...)
	w.must(err)
	w.nats = nats
	for _, r := range w.requests {
		r.moved = true
	}
}

// leaveCluster notes that the service is in a directory again, where a model knows receipts.
func (w *world) leaveCluster(m *model) {
	w.nats = ""
	for _, r := range m.requests {
		r.moved = false
	}
}

// follow reads the feed from a cursor on, and returns where it ends.
func (w *world) follow(token, cursor string) string {
	w.Helper()
	for {
		address := strings.TrimSuffix(w.server.Ops(), "/") + "/feed/v1/events?purpose=measurement&limit=10000&cursor=" + url.QueryEscape(cursor)
		r, err := http.NewRequest(http.MethodGet, address, nil)
		w.must(err)
		r.Header.Set("Authorization", "Bearer "+token)
		a, err := servicetest.Client.Do(r)
		w.must(err)
		body, err := io.ReadAll(a.Body)
		w.must(errors.Join(err, a.Body.Close()))
		if a.StatusCode != http.StatusOK {
			w.Fatalf("the feed from %s on: got %d %.200s, want 200", cursor, a.StatusCode, body)
		}
		lines := strings.Split(strings.TrimSpace(string(body)), "\n")
		var end struct {
			Cursor   string `json:"cursor"`
			CaughtUp bool   `json:"caught_up"`
		}
		w.must(json.Unmarshal([]byte(lines[len(lines)-1]), &end))
		if cursor = end.Cursor; end.CaughtUp {
			return cursor
		}
	}
}

// elsewhere is a new place for tables: another directory, or a prefix of the bucket.
func (w *world) elsewhere() string {
	if w.chance(2) {
		return "file://" + w.path("lake")
	}
	return fmt.Sprintf("s3://%s/%d-%d", gateway.Bucket, w.seed, w.number())
}

// copyTables copies them elsewhere. Sometimes the service goes on with the copy, and the tables before are gone.
func (w *world) copyTables() {
	if len(w.datasets) == 0 || w.nats != "" {
		return
	}
	to, goOn := w.elsewhere(), w.chance(2)
	w.note("copy the tables to %s, go on there: %v", strings.ReplaceAll(to, w.root, ""), goOn)
	w.settle()
	w.sluice("lake", "copy", "--to", to)
	if !goOn {
		_, err := w.program.Run(w.Context(), "lake", "check", "--data", w.data, "--lake", to)
		w.must(err)
		return
	}
	w.stop(syscall.SIGTERM)
	w.sluice("lake", "use", to)
	if dir, ok := strings.CutPrefix(w.location(), "file://"); ok {
		w.must(os.Rename(dir, w.path("left")))
	}
	w.tables = to
}

// settle waits until everything that was acknowledged is in the tables.
func (w *world) settle() {
	w.Helper()
	w.sluice("export", "--format", "ndjson")
}
