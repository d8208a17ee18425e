package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"sluice/internal/objectstore"
	"sluice/internal/servicetest"
	s3 "sluice/interop/gateway"
)

// harms are what somebody with other programs does to the tables and the stream.
var harms = []fault{
	{"tables put back", true, putTablesBack},
	{"tables deleted", true, deleteTables},
	{"files of a table missing", true, loseFiles},
	{"settings of a stream changed", true, changeStream},
}

// tables is the bucket, as somebody with other programs sees it.
type tables struct {
	objectstore.Store
	t *testing.T
}

func (w *world) tables(t *testing.T) tables {
	t.Helper()
	store, err := objectstore.OpenS3(t.Context(), objectstore.S3Options{
		Endpoint: w.bucket.URL, Region: s3.Region, Bucket: s3.Bucket, Prefix: "lake", PathStyle: true, AccessKey: s3.AccessKey, SecretKey: s3.SecretKey,
	})
	if err != nil {
		t.Fatal(err)
	}
	return tables{store, t}
}

func (s tables) names(under string) (names []string) {
	s.t.Helper()
	all, err := s.List(s.t.Context(), under, true)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, o := range all {
		names = append(names, o.Name)
	}
	return names
}

func (s tables) copied() map[string][]byte {
	s.t.Helper()
	out := map[string][]byte{}
	for _, name := range s.names("") {
		b, err := s.Read(s.t.Context(), name)
		if err != nil {
			s.t.Fatal(err)
		}
		out[name] = b
	}
	return out
}

func (s tables) remove(names ...string) {
	s.t.Helper()
	for _, name := range names {
		if err := s.Remove(s.t.Context(), name); err != nil {
			s.t.Fatal(err)
		}
	}
}

// put writes files, the metadata of the events last: the witness reads it while no node reaches the bucket.
func (s tables) put(files map[string][]byte) {
	s.t.Helper()
	late := func(name string) int { return strings.Index(name, "events/metadata/") } // 0, or -1
	for _, name := range slices.SortedFunc(maps.Keys(files), func(a, b string) int {
		return cmp.Or(late(a)-late(b), strings.Compare(a, b))
	}) {
		if err := objectstore.WriteAll(s.t.Context(), s, name, files[name]); err != nil {
			s.t.Fatal(err)
		}
	}
}

// untouched does something while no node reaches the bucket: else files are missing in a copy. No node can know of it before the end.
func (w *world) untouched(do func()) {
	w.spoiler.Set(func(*http.Request) string { return "reset" })
	defer w.spoiler.Set(nil)
	time.Sleep(time.Second) // requests that are on their way end
	w.witness.Unseen(do)
}

// alarmed waits until every node has an alarm, or no node has it.
func (w *world) alarmed(t *testing.T, alarm string, on bool, within time.Duration) {
	t.Helper()
	begun := time.Now()
	for i := range w.nodes {
		servicetest.Eventually(t, within, fmt.Sprint(alarm, " ", on), func() error {
			if w.says(i, "/metrics", http.StatusOK, `sluice_alarm{alarm="`+alarm+`",dataset=""} 1`) != on {
				return fmt.Errorf("node %d says something else", i)
			}
			return nil
		})
	}
	t.Logf("%s %v on every node after %v", alarm, on, time.Since(begun).Round(time.Second))
}

// complains waits until sluice cluster status ends with 1 and names a problem.
func (w *world) complains(t *testing.T, of string) {
	t.Helper()
	begun := time.Now()
	servicetest.Eventually(t, 60*time.Second, "a problem: "+of, func() error {
		st, err := w.status()
		if err == nil || !strings.Contains(strings.Join(st.Problems, " "), of) {
			return fmt.Errorf("got %v %q", err, st.Problems)
		}
		return nil
	})
	t.Logf("sluice cluster status named it after %v", time.Since(begun).Round(time.Second))
}

// putTablesBack puts a copy of all tables, some seconds old, in their place.
func putTablesBack(t *testing.T, w *world, _ *ledger) {
	s := w.tables(t)
	var older map[string][]byte
	w.untouched(func() { older = s.copied() })
	time.Sleep(15 * time.Second) // what the copy lacks
	w.untouched(func() {
		s.remove(s.names("")...)
		s.put(older)
	})
}

// deleteTables deletes all tables. Nodes that load say so and accept events; with the tables back they go on.
func deleteTables(t *testing.T, w *world, l *ledger) {
	s := w.tables(t)
	var all map[string][]byte
	w.untouched(func() {
		all = s.copied()
		s.remove(s.names("")...)
	})
	w.alarmed(t, "SluiceLoadStopped", true, 40*time.Second)
	w.complains(t, "tables")
	w.served(t, l, 10*time.Second)
	w.untouched(func() {
		s.remove(s.names("")...)
		s.put(all)
	})
	w.alarmed(t, "SluiceLoadStopped", false, 60*time.Second)
}

// loseFiles deletes the files that hold the newest events. Upkeep misses them, and sluice lake reload loads their events again.
func loseFiles(t *testing.T, w *world, l *ledger) {
	s := w.tables(t)
	before := s.names("events/data")
	w.processed(t, l, 0)
	w.untouched(func() {
		s.remove(slices.DeleteFunc(s.names("events/data"), func(name string) bool { return slices.Contains(before, name) })...)
	})
	w.alarmed(t, "SluiceDamagedFiles", true, 3*time.Minute)
	w.complains(t, ".parquet")
	w.roll()
	w.alarmed(t, "SluiceDamagedFiles", true, 30*time.Second)
	t.Logf("%s", w.run(t, "lake", "reload", "--yes"))
	w.alarmed(t, "SluiceDamagedFiles", false, 2*time.Minute)
}

// changeStream lets a stream drop events early. Every node says so, and one that starts puts it right.
func changeStream(t *testing.T, w *world, _ *ledger) {
	js := w.connect(t)
	config := func() jetstream.StreamConfig {
		t.Helper()
		one, err := js.Stream(t.Context(), "SLUICE_0")
		if err != nil {
			t.Fatal(err)
		}
		return one.CachedInfo().Config
	}
	right := config()
	wrong := right
	wrong.MaxAge = time.Hour
	if _, err := js.UpdateStream(t.Context(), wrong); err != nil {
		t.Fatal(err)
	}
	w.alarmed(t, "SluiceSettingsChanged", true, 30*time.Second)
	w.complains(t, "SLUICE_0")
	w.node(0).Stop(syscall.SIGTERM)
	w.startNode(0)
	if got := config().MaxAge; got != right.MaxAge {
		t.Errorf("got a retention of %v after a restart, want %v", got, right.MaxAge)
	}
	w.alarmed(t, "SluiceSettingsChanged", false, 60*time.Second)
}
