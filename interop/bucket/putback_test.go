package bucket

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	iceberg "github.com/apache/iceberg-go/io"
	_ "github.com/apache/iceberg-go/io/gocloud/s3" // reads s3:// addresses
	"github.com/apache/iceberg-go/table"

	"sluice/internal/objectstore"
	"sluice/internal/servicetest"
	s3 "sluice/interop/gateway"
)

// handled is a running server whose tables somebody else handles.
type handled struct {
	*badBucket
	program  servicetest.Program
	data     string
	args     []string // of serve
	tables   []string // where a command finds the tables
	store    objectstore.Store
	settings map[string]string // by which other programs reach the tables
	stop     atomic.Bool
	senders  *sync.WaitGroup
}

// eachPlace runs a test with tables in a bucket, and with tables in a directory, under load.
func eachPlace(t *testing.T, test func(t *testing.T, h *handled)) {
	program := servicetest.Program{Path: buildOnce(t, sluice), Env: credentials}
	g := startGateway(t)
	dir := t.TempDir()
	inDir, err := objectstore.OpenDir(filepath.Join(dir, "lake"))
	if err != nil {
		t.Fatal(err)
	}
	for name, h := range map[string]*handled{
		"bucket": {
			tables: []string{"--lake", "s3://" + bucket + "/lake", "--s3-endpoint", g.url, "--s3-region", s3.Region, "--s3-path-style"}, store: open(t, g.url),
			settings: (&s3.Gateway{URL: g.url}).Properties(),
		},
		"directory": {tables: []string{"--lake", "file://" + filepath.Join(dir, "lake")}, store: inDir},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it waits most of the time
			h.program, h.data = program, filepath.Join(t.TempDir(), "data")
			key, _, err := program.CreateDataset(t.Context(), h.data, "shop")
			if err != nil {
				t.Fatal(err)
			}
			h.badBucket = &badBucket{t: t, ledger: &servicetest.Ledger{ID: "shop", Key: key}}
			h.args = append([]string{"--commit-every", "500ms"}, h.tables...)
			h.serve()
			h.ledger.Settle(t, h.server, time.Minute)
			h.load()
			defer h.pause()
			h.accepts("whole")
			test(t, h)
		})
	}
}

// load lets senders send until pause.
func (h *handled) load() {
	h.stop.Store(false)
	h.senders = h.ledger.Load(h, 2, &h.stop)
}

func (h *handled) pause() {
	h.stop.Store(true)
	h.senders.Wait()
}

func (h *handled) serve() {
	h.t.Helper()
	server, err := servicetest.Launch{Program: h.program, Data: h.data, Args: h.args, Within: time.Minute}.Start()
	if err != nil {
		h.t.Fatal(err)
	}
	h.server = server
	h.t.Cleanup(func() { server.Stop(syscall.SIGKILL) })
}

// copied is everything that lies at a place now.
func (h *handled) copied() map[string][]byte {
	h.t.Helper()
	list, err := h.store.List(h.t.Context(), "", true)
	if err != nil {
		h.t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, e := range list {
		if b, err := h.store.Read(h.t.Context(), e.Name); err == nil {
			out[e.Name] = b
		} else if !errors.Is(err, os.ErrNotExist) {
			h.t.Fatal(err)
		}
	}
	return out
}

// empty deletes everything.
func (h *handled) empty() {
	h.t.Helper()
	for range 2 { // what was written meanwhile, too
		list, err := h.store.List(h.t.Context(), "", true)
		if err != nil {
			h.t.Fatal(err)
		}
		for _, e := range list {
			if err := h.store.Remove(h.t.Context(), e.Name); err != nil {
				h.t.Fatal(err)
			}
		}
	}
}

// putBack writes a copy, object by object, as programs that restore do.
func (h *handled) putBack(objects map[string][]byte) {
	h.t.Helper()
	var names []string
	for name := range objects {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		_ = h.store.Remove(h.t.Context(), name) // the program may have made one by that name
		if err := objectstore.WriteAll(h.t.Context(), h.store, name, objects[name]); err != nil {
			h.t.Fatal(err)
		}
	}
}

// alarm waits until the console shows an alarm, as one that needs somebody now.
func (h *handled) alarm(within time.Duration, say string) {
	h.t.Helper()
	servicetest.Eventually(h.t, within, "the alarm "+say, func() error {
		page, err := h.page()
		if err == nil && (!strings.Contains(page, "Something needs you now") || !strings.Contains(page, say)) {
			err = errors.New("the console does not show it")
		}
		return err
	})
}

// well waits until the console shows no alarm.
func (h *handled) well(within time.Duration) {
	h.t.Helper()
	servicetest.Eventually(h.t, within, "the end of all alarms", func() error {
		page, err := h.page()
		if err == nil && !strings.Contains(page, "All is well") {
			err = fmt.Errorf("the console shows %q", alarmText.FindAllString(page, -1))
		}
		return err
	})
}

// alarmText finds what the alarms of a page say.
var alarmText = regexp.MustCompile(`(?s)<ul class="todo">.*?</ul>`)

func (h *handled) page() (string, error) {
	answer, err := http.Get(h.server.Ops() + "/")
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	page, err := io.ReadAll(answer.Body)
	return string(page), err
}

// status is what cluster status says, and whether it found problems.
func (h *handled) status() (string, error) {
	return h.program.Run(h.t.Context(), "cluster", "status", "--data", h.data)
}

// complete ends the load, and has another program read the tables: every acknowledged event must be there once.
func (h *handled) complete() {
	h.t.Helper()
	h.pause()
	h.ledger.Settle(h.t, h.server, 2*time.Minute)
	found := map[string]int{}
	if err := h.read(func(mark string) { found[mark]++ }); err != nil {
		h.t.Fatal(err)
	}
	h.ledger.Check(h.t, found)
}

// read reads the table of events with iceberg-go, from its newest metadata on.
func (h *handled) read(each func(mark string)) error {
	ctx := h.t.Context()
	newest := h.newest()
	tbl, err := table.NewFromLocation(ctx, table.Identifier{"sluice", "events"}, newest, iceberg.LoadFSFunc(h.settings, newest), nil)
	if err != nil {
		return err
	}
	_, batches, err := tbl.Scan(table.WithSelectedFields("partner_id")).ToArrowRecords(ctx)
	if err != nil {
		return err
	}
	for batch, err := range batches {
		if err != nil {
			return err
		}
		marks := batch.Column(0).(*array.String)
		for i := range marks.Len() {
			each(marks.Value(i))
		}
		batch.Release()
	}
	return nil
}

// newest is where the metadata file with the highest number lies.
func (h *handled) newest() string {
	h.t.Helper()
	list, err := h.store.List(h.t.Context(), "events/metadata", false)
	if err != nil {
		h.t.Fatal(err)
	}
	most, name := 0, ""
	for _, e := range list {
		n := 0
		if _, err := fmt.Sscanf(filepath.Base(e.Name), "v%d.metadata.json", &n); err == nil && strings.HasSuffix(e.Name, ".json") && n > most {
			most, name = n, e.Name
		}
	}
	return h.store.Path(name)
}

// An older copy of the tables is put in their place under a running server. It goes on from the copy, and loads again what
// the copy lacks.
func TestTablesPutBack(t *testing.T) {
	eachPlace(t, func(t *testing.T, h *handled) {
		old := h.copied()
		h.accepts("ahead of the copy")
		h.ledger.Settle(t, h.server, time.Minute)
		h.empty()
		h.putBack(old)
		h.accepts("put back")
		h.complete()
		h.well(time.Minute)
	})
}

// The tables are deleted under a running server. It accepts and does not load, and says so; when they are put back it goes on
// by itself.
func TestTablesEmptied(t *testing.T) {
	eachPlace(t, func(t *testing.T, h *handled) {
		old := h.copied()
		h.accepts("ahead of the copy")
		h.ledger.Settle(t, h.server, time.Minute)
		h.empty()
		h.alarm(time.Minute, "Nothing is loaded: ")
		h.accepts("emptied")
		if err := h.server.Ready(); err != nil {
			t.Errorf("got %v, want a server that is ready", err)
		}
		servicetest.Eventually(t, time.Minute, "a problem in cluster status", func() error {
			if out, err := h.status(); err == nil || !strings.Contains(out, "cannot load since") {
				return fmt.Errorf("it says %s", out)
			}
			return nil
		})
		h.putBack(old)
		h.complete()
		h.well(time.Minute)
	})
}

// The tables are deleted under a running server and not put back: a restart makes new ones, and loads what the stream holds.
func TestTablesMadeAnew(t *testing.T) {
	eachPlace(t, func(t *testing.T, h *handled) {
		h.empty()
		h.alarm(time.Minute, "Nothing is loaded: ")
		h.server.Stop(syscall.SIGKILL)
		h.serve()
		h.complete()
		h.well(time.Minute)
	})
}

// A data file is deleted under a running server: that is told, and lake reload brings its events back.
func TestLostFileIsLoadedAgain(t *testing.T) {
	eachPlace(t, func(t *testing.T, h *handled) {
		h.pause()
		h.ledger.Settle(t, h.server, time.Minute)
		files, err := h.program.Run(t.Context(), append([]string{"lake", "files", "events", "--data", h.data}, h.tables...)...)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Fields(files)
		name, _ := strings.CutPrefix(lines[len(lines)/2], h.store.Path("")+"/")
		if err := h.store.Remove(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		h.load() // compaction, or the sweep, finds out
		servicetest.Eventually(t, 3*time.Minute, "a problem in cluster status", func() error {
			if out, err := h.status(); err == nil || !strings.Contains(out, "is missing or damaged") {
				return fmt.Errorf("it says %s", out)
			}
			return nil
		})
		h.alarm(time.Minute, "missing or unreadable")
		args := append([]string{"lake", "reload", "--data", h.data, "--json"}, h.tables...)
		before, err := h.program.Run(t.Context(), append(args, "--dry-run")...)
		if err != nil || strings.Contains(before, `"loaded":0,`) || !strings.Contains(before, `"damaged_files":1`) {
			t.Fatalf("got %s, %v, want events to load", before, err)
		}
		if out, err := h.program.Run(t.Context(), args...); err != nil {
			t.Fatalf("got %s, %v", out, err)
		}
		after, err := h.program.Run(t.Context(), args...)
		if err != nil || !strings.Contains(after, `"loaded":0,`) {
			t.Errorf("got %s, %v, want nothing to load", after, err)
		}
		t.Logf("%s%s", before, after)
		h.complete()
		h.well(2 * time.Minute)
	})
}
