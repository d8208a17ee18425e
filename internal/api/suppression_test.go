package api

import (
	"crypto/sha256"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/event"
	"sluice/internal/dataset"
	"sluice/internal/engine"
	"sluice/internal/identifier"
	"sluice/internal/suppression"
)

func openSuppression(t testing.TB) *suppression.List {
	t.Helper()
	e, err := engine.Open(t.Context(), engine.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	l, err := suppression.Open(t.Context(), e, time.Now, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// The event of somebody on the list is accepted as suppressed. Validate says why, and nobody says which identifier it is.
func TestSuppressionList(t *testing.T) {
	dir := t.TempDir()
	list := openSuppression(t)
	s := openServiceIn(t, dir, func(s *Server) { s.Suppression = list.Of })
	s.key = s.dataset(specShop)
	const other = "bfeb4c6192985efa05e7fa0740ac45708a515e569e7edaec7fc060ff72b44a0c"
	const ifa = "aebe52e7-03ee-455a-b3c4-e57283966239"
	body := func(email string) string {
		return strings.Replace(goodEvent(`,"source":"marked-source"`), `"`+someHash+`"`, `"`+email+`","ifa":"`+strings.ToUpper(ifa)+`","ip":"`+other+`"`, 1)
	}
	if r := s.post("/v1/events", body(someHash)); strings.Contains(r.text, "warnings") {
		t.Fatalf("before the list: got %s", r.text)
	}
	a, err := list.Add(t.Context(), "test", "")
	if err == nil {
		err = a.Put(identifier.IFA, ifa)
	}
	if err == nil {
		_, err = list.Commit(t.Context(), a)
	}
	if err != nil {
		t.Fatal(err)
	}
	const marked = "00000000000000000000000000000000000000000000000000000000cafecafe"
	r := s.post("/v1/events", body(marked))
	if !strings.Contains(r.text, `"code":"PRIVACY_SUPPRESSED","field":"/identifiers"`) {
		t.Errorf("got %s", r.text)
	}
	r = s.post("/v1/events/validate", body(marked))
	if !strings.Contains(r.text, `"privacy":"suppressed"`) || !strings.Contains(r.text, `"privacy_reasons":["operator.suppression_list"]`) {
		t.Errorf("validate: got %s", r.text)
	}
	if r = s.post("/v1/events/validate", strings.Replace(goodEvent(""), someHash, marked, 1)); !strings.Contains(r.text, `"privacy":"unrestricted"`) {
		t.Errorf("another person: got %s", r.text)
	}
	all := s.records(t)
	row := all[len(all)-1].Rows[0]
	if row.Privacy != event.Suppressed || row.IFA+row.EmailSHA256+row.IPSHA256+row.Source != "" || row.OptimizationEligible {
		t.Errorf("stored: got %+v", row)
	}
	s.stop()
	if file := findOnDisk(t, dir, marked); file != "" {
		t.Errorf("an identifier of the suppressed event is in %s", file)
	}
}

// BenchmarkSuppression is the accept path with a list of ten million and without one, in turns. Trust the processor time: a
// busy machine changes it less than the rates.
func BenchmarkSuppression(b *testing.B) {
	b.Run("emails", func(b *testing.B) { benchmarkSuppression(b, identifier.Email) })
	b.Run("three-kinds", func(b *testing.B) { benchmarkSuppression(b, identifier.Email, identifier.IFA, identifier.IP) })
}

func benchmarkSuppression(b *testing.B, kinds ...identifier.Kind) {
	list := openSuppression(b)
	a, err := list.Add(b.Context(), "bench", "")
	if err != nil {
		b.Fatal(err)
	}
	for i := range 10_000_000 {
		if err := a.Put(kinds[i%len(kinds)], fmt.Sprint(i)); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := list.Commit(b.Context(), a); err != nil {
		b.Fatal(err)
	}
	var on atomic.Bool
	s := openServiceIn(b, b.TempDir(), func(s *Server) {
		s.Log, s.Now = slog.New(slog.DiscardHandler), time.Now
		s.Suppression = func(id string) event.SuppressionList {
			if on.Load() {
				return list.Of(id)
			}
			return nil
		}
	})
	s.clock.Set(time.Now())
	key := s.dataset(dataset.Spec{ID: "shop"})
	now := time.Now().Unix() - 60
	for _, c := range []struct {
		name, path      string
		events, senders int
	}{{"batch", "/v1/events/batch", 500, 4}, {"single", "/v1/events", 1, 16}} {
		b.Run(c.name, func(b *testing.B) {
			person := 0
			var bodies []string
			for range 8000 / c.events {
				var events []string
				for range c.events {
					person++
					id := func(kind string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(kind+strconv.Itoa(person)))) }
					ifa := id("ifa")
					ifa = ifa[:8] + "-" + ifa[8:12] + "-4" + ifa[13:16] + "-a" + ifa[17:20] + "-" + ifa[20:32]
					events = append(events, strings.NewReplacer(someHash, id("email"), "bfeb4c6192985efa05e7fa0740ac45708a515e569e7edaec7fc060ff72b44a0c", id("ip")+`","ifa":"`+ifa).
						Replace(benchEvent(now)))
				}
				body := strings.Join(events, ",")
				if c.events > 1 {
					body = "[" + body + "]"
				}
				bodies = append(bodies, body)
			}
			var cpu [2]time.Duration
			var sent [2]int64
			for b.Loop() {
				for i := range 2 {
					on.Store(i == 1)
					before := cpuTime(b)
					n, _ := flood(b, strings.TrimPrefix(s.url, "http://"), c.path, key, bodies, c.senders, 250*time.Millisecond)
					sent[i] += n
					cpu[i] += cpuTime(b) - before
				}
			}
			per := func(i int) float64 { return float64(cpu[i].Nanoseconds()) / float64(sent[i]*int64(c.events)) }
			b.ReportMetric(per(0), "cpu-ns/event-without")
			b.ReportMetric(per(1), "cpu-ns/event-with")
			b.ReportMetric(100*(per(1)/per(0)-1), "%")
		})
	}
}
