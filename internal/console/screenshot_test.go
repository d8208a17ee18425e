package console

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"sluice/internal/alarm"
	"sluice/internal/audit"
	"sluice/internal/dataset"
	"sluice/internal/hours"
	"sluice/internal/lake"
	"sluice/internal/traffictest"
)

// The pages are photographed where SCREENSHOTS names a directory (make screenshots); else this test only
// sees that they can be.
func TestScreenshots(t *testing.T) {
	dir := os.Getenv("SCREENSHOTS")
	schemes, all := []string{"light", "dark"}, true
	if dir == "" {
		dir, schemes, all = t.TempDir(), schemes[:1], false
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s := openService(t)
	ids := settle(t, s)
	b := openBrowser(t)
	pages := []struct{ name, path string }{
		{"overview", "/"},
		{"overview-month", "/?window=month"},
		{"datasets", "/datasets"},
		{"dataset", alarm.DatasetPath("spring-sale") + "&window=week"},
		{"campaigns", campaignsPath("spring-sale") + "&window=week"},
		{"diagnosis", "/diagnosis?window=week"},
		{"requests", "/requests"},
		{"lookup", "/lookup?id=" + ids.submission},
		{"lookup-empty", "/lookup"},
		{"live", "/live"},
		{"try", "/try"},
		{"system", "/system"},
	}
	if !all {
		pages = pages[:1]
	}
	for _, scheme := range schemes {
		for _, width := range []int64{1440, 1280, 390} {
			for _, p := range pages {
				name := filepath.Join(dir, fmt.Sprintf("%s-%d-%s.png", p.name, width, scheme))
				b.shoot(t, s, p.path, name, width, scheme)
			}
		}
	}
	closed := openServiceIn(t, t.TempDir(), func(o *Options) { o.Loopback, o.Proxy = false, true })
	if err := closed.console.s.Access.SetPassword(t.Context(), password); err != nil {
		t.Fatal(err)
	}
	b.shoot(t, closed, "/login", filepath.Join(dir, "login-1280-light.png"), 1280, "light")
	hurt := openServiceIn(t, damaged(t), nil)
	hurt.dataset(dataset.Spec{ID: "shop"})
	for _, width := range []int64{1280, 390} {
		b.shoot(t, hurt, "/", filepath.Join(dir, fmt.Sprintf("alarm-%d-light.png", width)), width, "light")
	}
	empty := openService(t)
	for _, width := range []int64{1280, 390} {
		b.shoot(t, empty, "/", filepath.Join(dir, fmt.Sprintf("empty-%d-light.png", width)), width, "light")
	}
}

func (b *browser) shoot(t *testing.T, s *service, path, name string, width int64, scheme string) {
	t.Helper()
	p := b.open(t, s.url+path, width, scheme)
	defer p.close()
	switch path {
	case "/live":
		p.wait(`document.querySelector("[data-tail-state]").textContent === "following"`)
		src := traffictest.New(traffictest.Lively, 77)
		for range 14 {
			s.post("spring-sale", "/v1/events", string(src.Append(nil, "spring-sale", time.Now().Unix())))
		}
		p.wait(`document.querySelectorAll("[data-tail-rows] tr").length > 8`)
	case "/try":
		p.do(chromedp.Click(chromedp.CSS("form[data-try] button")), chromedp.WaitVisible(chromedp.CSS("#answer pre")))
	}
	p.wait(`document.fonts.status === "loaded"`)
	ctx, cancel := context.WithTimeout(p.ctx, 20*time.Second)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(name, png, 0o644)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

type sampleIDs struct{ submission string }

// settle gives the service datasets, a past of five weeks and some real events.
func settle(t *testing.T, s *service) sampleIDs {
	t.Helper()
	s.dataset(dataset.Spec{ID: "spring-sale", Name: "Spring sale 2026", EventsPerSecond: 5000})
	s.dataset(dataset.Spec{ID: "app-installs", Name: "Mobile app"})
	s.dataset(dataset.Spec{ID: "crm-offline", Name: "Shops, uploaded every night", SuppressOptOut: true})
	s.dataset(dataset.Spec{ID: "tv-winter", Name: "Television, winter flight"})
	s.dataset(dataset.Spec{ID: "newsletter"})
	if _, _, err := s.reg.RotateKey(t.Context(), "spring-sale", 48*time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := s.reg.Disable(t.Context(), "newsletter"); err != nil {
		t.Fatal(err)
	}
	for _, e := range []audit.Entry{
		{Actor: "user:anna", Action: "dataset.create", Object: "spring-sale"},
		{Actor: "user:anna", Action: "key.rotate", Object: "spring-sale"},
		{Actor: "console:10.0.0.7", Action: "console.login"},
		{Actor: "user:boris", Action: "export", Object: "crm-offline"},
	} {
		e.Time = time.Now()
		if err := s.console.s.Audit.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	past(t, s)
	src := traffictest.New(traffictest.Lively, 7)
	var ids sampleIDs
	for i := range 12 {
		body := []byte("[")
		for j := range 40 {
			if j > 0 {
				body = append(body, ',')
			}
			body = src.Append(body, "spring-sale", time.Now().Unix())
		}
		_, answer := s.post("spring-sale", "/v1/events/batch", string(append(body, ']')))
		if i == 0 {
			ids.submission = between(answer, `"submission_id":"`, `"`)
		}
	}
	until(t, "the first load", func() bool { _, page := s.read("/lookup?id=" + ids.submission); return contains(page, "PROCESSED") })
	return ids
}

// past writes five weeks of hourly numbers, as a loader would have.
func past(t *testing.T, s *service) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	var rows []lake.Hour
	now := time.Now().Unix() / 3600 * 3600
	for _, d := range []struct {
		id              string
		scale, rejected float64
		email, ifa, ip  float64
		code, field     string
		late            float64
	}{
		{"spring-sale", 900, 0.021, 0.82, 0.2, 0.5, "MISSING_FIELD", "/currency_code", 0.01},
		{"app-installs", 420, 0.004, 0.12, 0.93, 0.3, "INVALID_IDENTIFIER", "/identifiers/ifa", 0.002},
		{"crm-offline", 150, 0.34, 0.97, 0, 0, "PLAINTEXT_PII", "/identifiers/email_sha256", 0.18},
		{"tv-winter", 260, 0.01, 0, 0.4, 0.9, "TIMESTAMP_TOO_OLD", "/timestamp", 0.03},
	} {
		for h := now - 35*24*3600; h < now; h += 3600 {
			hour := float64(h % 86400 / 3600)
			n := d.scale * (0.35 + 0.65*math.Pow(math.Sin(math.Pi*(hour-3)/24), 2)) * (0.9 + 0.2*r.Float64())
			put := func(kind, name, field string, count, value float64) {
				if count >= 1 || value != 0 {
					rows = append(rows, lake.Hour{Hour: h, DatasetID: d.id, Kind: kind, Name: name, Field: field, Count: int64(count), Value: value})
				}
			}
			sum := 0.0
			for _, e := range []struct {
				name  string
				share float64
			}{{"page_view", 0.46}, {"viewed_item", 0.2}, {"add_to_cart", 0.12}, {"purchase", 0.09}, {"begin_checkout", 0.06}, {"sign_up", 0.04}, {"search", 0.03}} {
				k := math.Floor(n * e.share)
				sum += k
				put(hours.KindEvents, e.name, hours.FieldAccepted, k, 0)
				put(hours.KindEvents, e.name, hours.FieldLate, math.Floor(k*d.late), 0)
				put(hours.KindEvents, e.name, hours.FieldRestricted, math.Floor(k*0.07), 0)
				put(hours.KindEvents, e.name, hours.FieldSuppressed, math.Floor(k*0.02), 0)
			}
			put(hours.KindIdentifiers, "email", "", math.Floor(sum*d.email), 0)
			put(hours.KindIdentifiers, "ifa", "", math.Floor(sum*d.ifa), 0)
			put(hours.KindIdentifiers, "ip", "", math.Floor(sum*d.ip), 0)
			put(hours.KindIdentifiers, "any", "", math.Floor(sum*0.98), 0)
			put(hours.KindIdentifiers, "strong", "", math.Floor(sum*min(0.98, max(d.email, d.ifa))), 0)
			put(hours.KindPrivacy, "unrestricted", "", math.Floor(sum*0.91), 0)
			put(hours.KindPrivacy, "measurement_only", "", math.Floor(sum*0.07), 0)
			put(hours.KindPrivacy, "suppressed", "", math.Floor(sum*0.02), 0)
			for i, share := range []float64{0, 0.62, 0.2, 0.06, 0.04, 0.03, 0.02, 0.02, d.late} {
				put(hours.KindAge, hours.AgeNames[i], "", math.Floor(sum*share), 0)
			}
			put(hours.KindValue, "USD", "purchase", math.Floor(sum*0.06), sum*0.06*71.3)
			put(hours.KindValue, "EUR", "purchase", math.Floor(sum*0.02), sum*0.02*64.8)
			put(hours.KindRefunds, "USD", "", math.Floor(sum*0.004), math.Floor(sum*0.004)*68.2)
			put(hours.KindValue, "USD", "begin_checkout", math.Floor(sum*0.05), sum*0.05*80.1)
			bad := math.Floor(n * d.rejected)
			put(hours.KindRejections, d.code, d.field, bad*1.2, bad)
			if d.rejected > 0.02 && r.Float64() < 0.3 {
				put(hours.KindRejections, "INVALID_EVENT_TYPE", "/event_type", 3, 3)
			}
		}
	}
	marks, err := s.lake.Watermarks(t.Context(), 40)
	if err == nil {
		err = s.lake.Commit(t.Context(), lake.Batch{Spans: []lake.Span{{Partition: 40, From: marks, To: 1}}, Hours: rows}, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// damaged is a data directory in which a frame was found that cannot be read.
func damaged(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "quarantine"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "quarantine", "0-5.frame"), []byte("?"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}
