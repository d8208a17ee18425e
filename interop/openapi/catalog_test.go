package openapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/interop/service"
)

// The answers of the catalog have the shapes of the Iceberg REST protocol, as ajv sees them: those that succeed, those that fail,
// and those of the token endpoint.
func TestCatalogAnswers(t *testing.T) {
	s := start(t)
	token := s.Run("", "reader", "create", "analyst")
	base := strings.TrimSuffix(s.Ops, "/") + "/iceberg"
	send(t, s, fmt.Sprintf(`[{"data_set_id":"shop","timestamp":%d,"event_type":"purchase","value":1,"currency_code":"EUR","identifiers":{"ifa":"97987bca-ae59-4c7d-94ba-ee4f19ab8c21"}},{"data_set_id":"shop"}]`, time.Now().Unix()))
	for _, table := range []string{"events", "rejections", "hours"} { // the first row of days comes when a day is over
		await(t, base+"/v1/namespaces/sluice/tables/"+table)
	}
	dir, _ := workshop(t)
	must(t, os.CopyFS(filepath.Join(dir, "testdata"), os.DirFS("testdata")))
	env := append(os.Environ(), "CATALOG_URL="+base, "CATALOG_TOKEN="+token, "SENDER_KEY="+s.Key)
	if got := run(t, dir, env, "node", "testdata/catalog.cjs"); got != "ok" {
		t.Errorf("got %q", got)
	}
}

func send(t *testing.T, s *service.Service, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/v1/events/batch", strings.NewReader(body))
	must(t, err)
	r.Header.Set("Authorization", "Bearer "+s.Key)
	answer, err := http.DefaultClient.Do(r)
	must(t, err)
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("send: got %s", answer.Status)
	}
}

// await waits until a table has a snapshot.
func await(t *testing.T, address string) {
	t.Helper()
	var table struct {
		Metadata struct {
			Snapshots []any `json:"snapshots"`
		} `json:"metadata"`
	}
	for end := time.Now().Add(30 * time.Second); len(table.Metadata.Snapshots) == 0; time.Sleep(50 * time.Millisecond) {
		answer, err := http.Get(address)
		must(t, err)
		err = json.NewDecoder(answer.Body).Decode(&table)
		_ = answer.Body.Close()
		must(t, err)
		if time.Now().After(end) {
			t.Fatalf("%s has no snapshot", address)
		}
	}
}
