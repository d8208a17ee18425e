package console

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"sluice/internal/api"
)

// More datasets than have series of their own are summed up, and each of them can be seen by its name.
func TestMetricsOfAnyDataset(t *testing.T) {
	s := &state{}
	for i := range datasetLabels + 50 {
		s.API.Datasets = append(s.API.Datasets, api.DatasetStats{DatasetID: fmt.Sprintf("shop-%03d", i), Accepted: uint64(i)})
	}
	h := metricsHandler(func() *state { return s })
	ask := func(named ...string) (int, string) {
		a := httptest.NewRecorder()
		h.ServeHTTP(a, httptest.NewRequest(http.MethodGet, "/metrics?"+url.Values{"dataset": named}.Encode(), nil))
		return a.Code, a.Body.String()
	}
	const last = `sluice_events_accepted_total{dataset="shop-249"} 249`
	if _, page := ask(); strings.Contains(page, last) || !strings.Contains(page, `{dataset="shop-007"} 7`) {
		t.Error("got other series than those of the first datasets")
	}
	sum := 250*249/2 - 249
	_, page := ask("shop-249", "unknown")
	if !strings.Contains(page, last) || strings.Contains(page, "shop-007") || strings.Contains(page, `dataset="unknown"`) ||
		!strings.Contains(page, fmt.Sprintf(`sluice_events_accepted_total{dataset="(all others)"} %d`, sum)) {
		t.Errorf("got %s, want the series of one dataset and the sum of the others", page)
	}
	if status, _ := ask(make([]string, datasetLabels+1)...); status != http.StatusBadRequest {
		t.Errorf("got %d for too many, want 400", status)
	}
}
