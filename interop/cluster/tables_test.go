package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog/rest"
	_ "github.com/apache/iceberg-go/io/gocloud/s3" // reads s3:// addresses
	"github.com/apache/iceberg-go/table"

	"sluice/internal/servicetest"
)

// stored counts the rows in the tables by mark. iceberg-go reads them: through the catalog of each node, and from the bucket.
// sluice export, which first waits until all that is acknowledged is loaded, must have the same rows.
func (w *world) stored(t *testing.T) map[string]int {
	t.Helper()
	exported := w.exported(t)
	token, err := w.program.Run(t.Context(), append([]string{"reader", "create", fmt.Sprint("check-", time.Now().UnixNano()), "--data", w.operator()}, w.flags...)...)
	if err != nil {
		t.Fatal(err)
	}
	var stored map[string]int
	for i := range w.nodes {
		// It takes a node some seconds to know a new reader, and two to know a commit of another node.
		servicetest.Eventually(t, 20*time.Second, fmt.Sprint("the rows that sluice export has, read by iceberg-go through node ", i), func() (err error) {
			stored, err = w.scan(t.Context(), i, strings.TrimSpace(token))
			if err == nil && !maps.Equal(stored, exported) {
				err = fmt.Errorf("got %d different marks, sluice export has %d, and they are not the same", len(stored), len(exported))
			}
			return err
		})
	}
	return stored
}

// exported counts the rows that sluice export prints.
func (w *world) exported(t *testing.T) map[string]int {
	t.Helper()
	out, err := w.program.Run(t.Context(), append([]string{"export", "--data", w.operator(), "--dataset", "shop"}, w.flags...)...)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for line := range strings.Lines(out) {
		var row struct {
			PartnerID string `json:"partner_id"`
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		found[row.PartnerID]++
	}
	return found
}

// scan counts the rows that iceberg-go finds.
func (w *world) scan(ctx context.Context, node int, token string) (map[string]int, error) {
	catalog, err := rest.NewCatalog(ctx, "sluice", w.node(node).Ops()+"/iceberg", rest.WithOAuthToken(token), rest.WithAdditionalProps(w.bucket.Properties()))
	if err != nil {
		return nil, err
	}
	events, err := catalog.LoadTable(ctx, table.Identifier{"sluice", "events"})
	if err != nil {
		return nil, err
	}
	_, batches, err := events.Scan(
		table.WithSelectedFields("event_id", "partner_id"), table.WithRowFilter(iceberg.EqualTo(iceberg.Reference("data_set_id"), "shop")),
	).ToArrowRecords(ctx)
	if err != nil {
		return nil, err
	}
	found, ids := map[string]int{}, map[string]bool{}
	for batch, err := range batches {
		if err != nil {
			return nil, err
		}
		columns := map[string]func(i int) string{}
		for i, f := range batch.Schema().Fields() {
			columns[f.Name] = batch.Column(i).ValueStr
		}
		for row := range int(batch.NumRows()) {
			found[columns["partner_id"](row)]++
			ids[columns["event_id"](row)] = true
		}
		batch.Release()
	}
	rows := 0
	for _, n := range found {
		rows += n
	}
	if rows != len(ids) {
		return nil, fmt.Errorf("%d rows have %d event ids", rows, len(ids))
	}
	return found, nil
}
