package bench

import (
	"math"
	"strings"
	"testing"
	"time"
)

// Requests are read from the metrics, and become requests and dollars a day.
func TestBucketFigures(t *testing.T) {
	const metrics = `# TYPE sluice_objectstore_requests_total counter
sluice_objectstore_requests_total{method="PUT"} 110
sluice_objectstore_requests_total{method="GET"} 20
sluice_objectstore_requests_total{method="HEAD"} 5
sluice_objectstore_requests_total{method="LIST"} 3
sluice_objectstore_requests_total{method="DELETE"} 1e+03
sluice_other_total{method="PUT"} 7
`
	all, err := parseMetrics(strings.NewReader(metrics))
	if err != nil {
		t.Fatal(err)
	}
	to, err := readRequests(all)
	if err != nil {
		t.Fatal(err)
	}
	var b BucketFigures
	b.add(BucketFigures{Put: 10, List: 3}, to, time.Minute)
	b.add(to, to, time.Minute)
	want := BucketFigures{Seconds: 120, Put: 100, Get: 20, Head: 5, Delete: 1000}
	if b != want {
		t.Errorf("got %+v, want %+v", b, want)
	}
	if got := b.Day(b.Put); got != 72_000 {
		t.Errorf("got %v a day, want 72000", got)
	}
	// 72,000 writes and 18,000 reads a day; deleting is free.
	if got := b.Dollars(); math.Abs(got-(0.36+0.0072)) > 1e-9 {
		t.Errorf("got %v dollars a day, want 0.3672", got)
	}
	if _, err := readRequests(map[string]float64{"sluice_other_total": 7}); err == nil {
		t.Error("got figures of a server that has no bucket")
	}
}
