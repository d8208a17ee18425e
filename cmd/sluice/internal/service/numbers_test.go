package service

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"sluice/internal/api"
	"sluice/internal/dataset"
	"sluice/internal/hours"
	"sluice/internal/lake"
)

// everyKey opens dataset ID with the key ID.
type everyKey struct{}

func (everyKey) Authenticate(id string) (*dataset.Dataset, string, error) {
	return &dataset.Dataset{Spec: dataset.Spec{ID: id}, Keys: []dataset.KeyInfo{{ID: "key"}}}, "key", nil
}

// What it costs when 1,000 busy datasets ask every minute for the numbers that are in memory: under 1 % of one core. TestMany has
// those that are read from files.
func BenchmarkNumbers(b *testing.B) {
	now := time.Now()
	s := &Service{hours: busyIndex(b, now, 1000)}
	handler := &api.Server{
		Keys: everyKey{}, Share: func() float64 { return 1 }, Limits: api.Limits{BytesInFlight: 256 << 20}, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		Numbers: func(ctx context.Context, id string, w api.NumbersWindow, now time.Time) (api.Numbers, error) {
			return readNumbers(ctx, s.hours, id, hours.NewWindow(w.Step, w.Steps, now))
		},
	}
	h := httptest.NewServer(handler)
	defer h.Close()
	for _, window := range []string{"1h", "24h"} {
		b.Run(window, func(b *testing.B) {
			before, n := processorTime(b), 0
			for b.Loop() {
				r, err := http.NewRequestWithContext(b.Context(), "GET", h.URL+"/v1/stats?window="+window, nil)
				if err != nil {
					b.Fatal(err)
				}
				r.Header.Set("Authorization", fmt.Sprintf("campaign-%04d", n%1000))
				a, err := http.DefaultClient.Do(r)
				if err != nil || a.StatusCode != 200 {
					b.Fatalf("got %v %v", a, err)
				}
				a.Body.Close()
				n++
			}
			each := (processorTime(b) - before) / time.Duration(n) // the sender's part included
			percent := 100 * each.Seconds() * 1000 / 60
			b.ReportMetric(percent, "%core")
			if n > 100 && percent > 1 {
				b.Errorf("1,000 datasets that ask every minute take %.2f %% of a core, want under 1 %%", percent)
			}
		})
	}
}

func processorTime(b testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// busyIndex has datasets with events in every hour of two days, of the types and with the problems that real ones have.
func busyIndex(b *testing.B, now time.Time, datasets int) *hours.Index {
	l, err := lake.OpenDir(b.Context(), b.TempDir(), lake.Options{Now: time.Now})
	if err != nil {
		b.Fatal(err)
	}
	var rows []lake.Hour
	end := now.Unix() - now.Unix()%3600
	for d := range datasets {
		put := func(hour int64, kind, name, field string, count int64) {
			rows = append(rows, lake.Hour{Hour: hour, DatasetID: fmt.Sprintf("campaign-%04d", d), Kind: kind, Name: name, Field: field, Count: count, Value: 1})
		}
		for h := end - 47*3600; h <= end; h += 3600 {
			for _, name := range []string{"page_view", "viewed_item", "add_to_cart", "purchase", "search"} {
				for _, field := range []string{hours.FieldAccepted, hours.FieldLate, hours.FieldRestricted} {
					put(h, hours.KindEvents, name, field, 100)
				}
			}
			for _, name := range []string{"email", "ifa", "ip", "partner", "any", "strong"} {
				put(h, hours.KindIdentifiers, name, "", 50)
			}
			for _, name := range []string{"MISSING_FIELD", "INVALID_EVENT_TYPE", "PLAINTEXT_PII"} {
				put(h, hours.KindRejections, name, "/event_type", 5)
			}
		}
	}
	if err := l.Commit(b.Context(), lake.Batch{Spans: []lake.Span{{To: 1}}, Hours: rows}, 0); err != nil {
		b.Fatal(err)
	}
	x := hours.NewIndex(l)
	if err := x.Read(b.Context(), now); err != nil {
		b.Fatal(err)
	}
	return x
}
