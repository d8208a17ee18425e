package operations

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/apache/iceberg-go/catalog/rest"
	"github.com/apache/iceberg-go/io"
	_ "github.com/apache/iceberg-go/io/gocloud/s3" // reads s3:// addresses
	"github.com/apache/iceberg-go/table"

	"sluice/internal/servicetest"
)

// row is what is compared of a stored event.
type row struct {
	id, dataset, email, partner, order, privacy string
	value                                       int
}

// check holds the service against the model: iceberg-go reads the tables through the catalog and from where they are, sluice
// export has the same rows, sluice lake check finds nothing, receipts can be looked up, the views of DuckDB count each order once.
func (w *world) check() {
	w.Helper()
	w.start()
	if len(w.datasets) == 0 {
		return
	}
	// Retention runs beside this, so a day that has just passed may still be there for a moment.
	servicetest.Eventually(w, 20*time.Second, "export as the model says", func() error { return w.differs(w.exported()) })
	w.compare("the catalog", w.readCatalog)
	w.compare("the tables", w.readAt(w.location()))
	w.sluice("lake", "check")
	for range min(5, len(w.receipts)) {
		w.lookUp(pick(w, w.receipts))
	}
	w.stop(syscall.SIGTERM)
	w.compare("the tables of a stopped service", w.readAt(w.location()))
	w.must(w.checkViews(w.Context()))
	w.sluice("lake", "check")
}

// checkNow checks in the middle of a sequence.
func (w *world) checkNow() {
	w.note("check")
	w.check()
}

// compare reads until the rows are what the model says.
func (w *world) compare(what string, read func(context.Context) ([]row, error)) {
	w.Helper()
	servicetest.Eventually(w, 20*time.Second, what, func() error {
		rows, err := read(w.Context())
		if err != nil {
			return err
		}
		return w.differs(rows)
	})
}

// differs says where rows are not what the model says.
func (w *world) differs(rows []row) error {
	now, newest := w.now(), w.newest()
	found, ids := map[int]int{}, map[string]bool{}
	var wrong []string
	for _, r := range rows {
		found[r.value]++
		ids[r.id] = true
		e := w.events[r.value]
		if e == nil {
			wrong = append(wrong, fmt.Sprintf("event %d was never sent, or was sent after the backup", r.value))
			continue
		}
		want := row{r.id, e.dataset, hexHash(e.person), fmt.Sprintf("p-%d", r.value), orderOf(r.value), r.privacy, r.value}
		if e.suppressed {
			want.email, want.partner, want.order, want.privacy = "", "", "", "suppressed"
		}
		if r != want {
			wrong = append(wrong, fmt.Sprintf("event %d: got %+v, want %+v", r.value, r, want))
		}
	}
	for value, e := range w.events {
		n := found[value]
		if want := e.want(now, newest, w.keep(e.dataset)); n > 1 || n == 0 && want == once || n > 0 && want == absent {
			wrong = append(wrong, fmt.Sprintf("event %d of %s, received %v ago, erased: %v: got %d times",
				value, e.dataset, now.Sub(e.received).Round(time.Second), e.presence == absent, n))
		}
	}
	if len(ids) != len(rows) {
		wrong = append(wrong, fmt.Sprintf("%d rows have %d event ids", len(rows), len(ids)))
	}
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%d differences, such as: %s", len(wrong), strings.Join(wrong[:min(5, len(wrong))], "; "))
}

func (w *world) exported() (rows []row) {
	w.Helper()
	for line := range strings.Lines(w.sluice("export", "--format", "ndjson")) {
		var r struct {
			ID      string  `json:"event_id"`
			Dataset string  `json:"data_set_id"`
			Email   string  `json:"email_sha256"`
			Partner string  `json:"partner_id"`
			Order   string  `json:"order_id"`
			Privacy string  `json:"privacy"`
			Value   float64 `json:"value"`
		}
		w.must(json.Unmarshal([]byte(line), &r))
		rows = append(rows, row{r.ID, r.Dataset, r.Email, r.Partner, r.Order, r.Privacy, int(r.Value)})
	}
	return rows
}

// lookUp asks for the state of a submission.
func (w *world) lookUp(r receiptModel) {
	w.Helper()
	d := w.datasets[r.dataset]
	if d.disabled || len(d.keys) == 0 {
		return
	}
	var a servicetest.Answer
	servicetest.Eventually(w, 20*time.Second, "processed", func() (err error) {
		a, err = w.server.Call(http.MethodGet, d.keys[0].secret, "/v1/submissions/"+r.id, "")
		if err == nil && a.Status == http.StatusOK && !strings.Contains(string(a.Body), `"PROCESSED"`) {
			err = fmt.Errorf("got %s", a.Body)
		}
		return err
	})
	if a.Status != http.StatusOK || !strings.Contains(string(a.Body), fmt.Sprintf(`"accepted":%d,`, r.accepted)) {
		w.Fatalf("look-up of %s: got %d %s, want %d accepted events", r.id, a.Status, a.Body, r.accepted)
	}
}

// location is the URL of the tables.
func (w *world) location() string {
	if w.tables != "" {
		return w.tables
	}
	return "file://" + filepath.Join(w.data, "lake")
}

// readCatalog reads the events through the catalog of the running server.
func (w *world) readCatalog(ctx context.Context) ([]row, error) {
	c, err := rest.NewCatalog(ctx, "sluice", w.server.Ops()+"/iceberg", rest.WithAdditionalProps(w.bucket.Properties()))
	if err != nil {
		return nil, err
	}
	t, err := c.LoadTable(ctx, table.Identifier{"sluice", "events"})
	if err != nil {
		return nil, err
	}
	return scan(ctx, t, w.location())
}

// readAt reads the events from where the tables are: the newest version that is there.
func (w *world) readAt(url string) func(context.Context) ([]row, error) {
	return func(ctx context.Context) ([]row, error) {
		t, err := w.openAt(ctx, url)
		if err != nil {
			return nil, err
		}
		return scan(ctx, t, url)
	}
}

func (w *world) openAt(ctx context.Context, url string) (*table.Table, error) {
	dir := w.onDisk(url)
	name, err := newest(filepath.Join(dir, "events", "metadata"))
	if err != nil {
		return nil, err
	}
	location := filepath.Join(dir, "events", "metadata", name)
	if strings.HasPrefix(url, "s3://") {
		location = url + "/events/metadata/" + name
	}
	return table.NewFromLocation(ctx, table.Identifier{"sluice", "events"}, location, io.LoadFSFunc(w.bucket.Properties(), location), nil)
}

// onDisk is where something with an address is on this machine: the objects of the bucket are plain files.
func (w *world) onDisk(url string) string {
	if name, remote := strings.CutPrefix(url, "s3://"); remote {
		return filepath.Join(filepath.Dir(w.bucket.Dir), name)
	}
	return strings.TrimPrefix(url, "file://")
}

// newest is the name of the newest version of a table.
func newest(dir string) (name string, err error) {
	entries, err := os.ReadDir(dir)
	most := 0
	for _, e := range entries {
		n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(e.Name(), "v"), ".metadata.json"))
		if err == nil && n > most {
			most, name = n, e.Name()
		}
	}
	if err == nil && name == "" {
		err = fmt.Errorf("no version of a table")
	}
	return name, err
}

// scan reads all rows with iceberg-go. Every file must be where the tables are: what was moved or copied must not need the old
// place.
func scan(ctx context.Context, t *table.Table, place string) (rows []row, err error) {
	tasks, err := t.Scan().PlanFiles(ctx)
	if err != nil {
		return nil, err
	}
	for _, task := range tasks {
		if name := task.File.FilePath(); !strings.HasPrefix(name, place) {
			return nil, fmt.Errorf("the tables are at %s and list a file at %s", place, name)
		}
	}
	_, batches, err := t.Scan(table.WithSelectedFields("event_id", "data_set_id", "email_sha256", "partner_id", "order_id", "privacy", "value")).ToArrowRecords(ctx)
	if err != nil {
		return nil, err
	}
	for batch, err := range batches {
		if err != nil {
			return nil, err
		}
		text := map[string]func(i int) string{}
		for i, f := range batch.Schema().Fields() {
			c := batch.Column(i)
			text[f.Name] = func(i int) string {
				if c.IsNull(i) {
					return ""
				}
				return c.ValueStr(i)
			}
		}
		for i := range int(batch.NumRows()) {
			value, err := strconv.ParseFloat(text["value"](i), 64)
			if err != nil {
				return nil, err
			}
			rows = append(rows, row{text["event_id"](i), text["data_set_id"](i), unhash(text["email_sha256"](i)), text["partner_id"](i), text["order_id"](i), text["privacy"](i), int(value)})
		}
		batch.Release()
	}
	return rows, nil
}
