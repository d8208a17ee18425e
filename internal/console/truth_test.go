package console

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"sluice/internal/alarm"
	"sluice/internal/dataset"
	"sluice/internal/hours"
	"sluice/internal/humanize"
	"sluice/internal/lake"
)

// earlier adds numbers of a dataset so long ago to the table, as another partition would, and waits until they are shown.
func (s *service) earlier(t *testing.T, ago time.Duration, id string, accepted, rejected int64) {
	t.Helper()
	at := time.Now().Add(-ago).Unix()
	row := lake.Hour{Hour: at - at%3600, DatasetID: id}
	good, bad := row, row
	good.Kind, good.Name, good.Field, good.Count = hours.KindEvents, "purchase", hours.FieldAccepted, accepted
	bad.Kind, bad.Name, bad.Field, bad.Count, bad.Value = hours.KindRejections, "INVALID_CURRENCY", "/currency_code", rejected, float64(rejected)
	s.count(t, accepted, good, bad)
}

// count puts hours into the tables, and waits until the console has their accepted events.
func (s *service) count(t *testing.T, accepted int64, rows ...lake.Hour) {
	const partition = 200
	from, err := s.lake.Watermarks(t.Context(), partition)
	if err != nil {
		t.Fatal(err)
	}
	shown := func() int64 {
		view := s.console.s.Hours.View()
		defer view.Close()
		return view.All().Totals(hours.NewWindow(24*time.Hour, 396, time.Now())).Accepted
	}
	before := shown()
	spans := []lake.Span{{Partition: partition, From: from, To: from.Events + 1}}
	if err := s.lake.Commit(t.Context(), lake.Batch{Spans: spans, Hours: rows}, 0); err != nil {
		t.Fatal(err)
	}
	until(t, "the numbers", func() bool { return shown() == before+accepted })
}

// One window rules everything on a page that counts events.
func TestOneWindow(t *testing.T) {
	s := openService(t)
	s.dataset(dataset.Spec{ID: "shop"})
	until(t, "the tables", s.console.s.Hours.Complete)
	s.earlier(t, 2*time.Hour, "shop", 10, 1)
	s.earlier(t, 72*time.Hour, "shop", 200, 20)
	s.earlier(t, 15*24*time.Hour, "shop", 3000, 300)
	b := openBrowser(t)
	for window, want := range map[string]hours.Totals{
		"day": {Accepted: 10, Rejected: 1}, "week": {Accepted: 210, Rejected: 21}, "month": {Accepted: 3210, Rejected: 321},
	} {
		for _, path := range []string{"/?", alarm.DatasetPath("shop") + "&"} {
			p := b.open(t, s.url+path+"window="+window, 1280, "light")
			sum := func(name string) int64 {
				return eval[int64](p, fmt.Sprintf(`(() => {
					const heads = [...document.querySelectorAll("[data-chart] thead th")].map(h => h.textContent);
					const column = heads.indexOf(%q);
					return [...document.querySelectorAll("[data-chart] tbody tr")].reduce((n, r) => n + (+r.children[column].dataset.v), 0);
				})()`, name))
			}
			accepted := "Accepted"
			if path != "/?" {
				accepted = "purchase"
			}
			_, page := s.read(path + "window=" + window)
			if got := figures(page); got != want || sum(accepted) != want.Accepted || sum("Rejected") != want.Rejected {
				t.Errorf("%s of a %s: got %+v, and in the chart %d and %d, want %+v", path, window, got, sum(accepted), sum("Rejected"), want)
			}
			charts := eval[int](p, `document.querySelectorAll("[data-chart]").length`)
			if got := eval[int](p, `document.querySelectorAll("[data-chart] tr[data-running]").length`); got != charts {
				t.Errorf("%s: %d steps are marked as running, want 1 of each of %d charts", path, got, charts)
			}
			if eval[int](p, `+document.querySelector("[data-chart] .uplot").dataset.pale`) < 1 {
				t.Errorf("%s: the running step is not drawn pale", path)
			}
			p.close()
		}
		listed := want // lists of datasets go back a week
		if window == "month" {
			listed = hours.Totals{Accepted: 210, Rejected: 21}
		}
		for path, part := range map[string]string{
			"/?": `<td class="num" data-name="Rejected events">` + humanize.Count(listed.Rejected) + `</td>`, "/datasets?": `<td class="num">` + humanize.Count(listed.Accepted) + `</td><td class="num">` + humanize.Count(listed.Rejected) + `<br>`,
			alarm.DiagnosisPath("shop") + "&": `class="count"><b>` + humanize.Count(want.Rejected) + `</b>`,
		} {
			if path == "/datasets?" && window == "month" {
				continue
			}
			if _, page := s.read(path + "window=" + window); !contains(page, part) {
				t.Errorf("%s of a %s: got no %s", path, window, part)
			}
		}
	}
	if _, page := s.read("/?window=hour"); figures(page) != (hours.Totals{}) || !contains(between(page, `id="attention"`, "</section>"), "in the last 24 hours") {
		t.Error("the last hour shows numbers of another window")
	}
}

// "Restricted" is an event for measurement only, on every page; a suppressed event is another thing.
func TestRestrictedIsOneThing(t *testing.T) {
	s := openService(t)
	s.dataset(dataset.Spec{ID: "shop"})
	until(t, "the tables", s.console.s.Hours.Complete)
	at := time.Now().Unix()
	row := func(field string, n int64) lake.Hour {
		return lake.Hour{Hour: at - at%3600, DatasetID: "shop", Kind: hours.KindEvents, Name: "purchase", Field: field, Count: n}
	}
	s.count(t, 100, row(hours.FieldAccepted, 100), row(hours.FieldRestricted, 30), row(hours.FieldSuppressed, 20))
	for _, path := range []string{"/", alarm.DatasetPath("shop")} {
		if got := figuresOf(s, path); got.Restricted != 30 || got.Suppressed != 20 {
			t.Errorf("%s: got %+v", path, got)
		}
		if _, page := s.read(path); !contains(page, "50 are unrestricted, 30 restricted to measurement and 20 suppressed") {
			t.Errorf("%s: the sum is not written out", path)
		}
	}
	if _, page := s.read("/datasets"); !contains(page, `<td class="num wide">30.0 %</td><td class="num wide">20.0 %</td>`) {
		t.Error("Datasets does not show 30 % restricted and 20 % suppressed")
	}
}

// Diagnosis has the precise reason that the API gave, since when each dataset has it, and a text for the sender; Look-up finds
// the request by its id. Readiness says that it does not count rejected events.
func TestReasonsReachTheSender(t *testing.T) {
	s := openService(t)
	s.dataset(dataset.Spec{ID: "shop"})
	s.dataset(dataset.Spec{ID: "other"})
	bad := func(id string) string {
		return strings.Replace(plainEvent(id), `"ifa":"97987bca-ae59-4c7d-94ba-ee4f19ab8c21"`, `"email_sha256":"d41d8cd98f00b204e9800998ecf8427a"`, 1)
	}
	_, answer := s.post("shop", "/v1/events", bad("shop"))
	request := between(answer, `"request_id":"`, `"`)
	s.post("shop", "/v1/events", plainEvent("shop"))
	s.post("other", "/v1/events", bad("other"))
	until(t, "the load", func() bool { return figuresOf(s, "/") == hours.Totals{Accepted: 1, Rejected: 2} })

	b := openBrowser(t)
	p := b.open(t, s.url+"/diagnosis", 1280, "light")
	if said := eval[string](p, `document.querySelector(".said").textContent`); !strings.Contains(said, "MD5") {
		t.Errorf("got %q, want what the API answered", said)
	}
	since := time.Now().UTC().Format("2 Jan 2006, 15:00")
	if sets := eval[string](p, `document.querySelector(".sets").textContent`); strings.Count(sets, "since "+since) != 2 {
		t.Errorf("got %q, want the onset of both datasets: %s", sets, since)
	}
	// What the page hands to the clipboard is noted, and handed on.
	_ = eval[bool](p, `(() => { const real = navigator.clipboard.writeText.bind(navigator.clipboard); navigator.clipboard.writeText = (t) => { window.handed = t; return real(t); }; return true; })()`)
	p.do(chromedp.Click(chromedp.CSS(`[data-copy][aria-label="Copy for the sender of shop"]`)))
	p.wait(`document.querySelector("#copied").textContent !== ""`)
	text := eval[string](p, `window.handed`)
	for _, want := range []string{"Dataset shop: 1 event was rejected in the last 24 hours with INVALID_IDENTIFIER at /identifiers/email_sha256.", "50.0 % of the events received", "It began: " + since, "MD5", `Example of a valid value: "email_sha256": "`, s.apiURL + "/docs#INVALID_IDENTIFIER"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text for the sender lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "other") || strings.Contains(text, "d41d8cd98f00b204e9800998ecf8427a") {
		t.Errorf("the text for the sender has what it must not have:\n%s", text)
	}
	p.close()

	p = b.open(t, s.url+"/lookup?id="+request, 390, "light")
	card := eval[string](p, `document.querySelector(".request").textContent`)
	for _, want := range []string{request, "shop", "400 INVALID_IDENTIFIER", "POST /v1/events", "MD5", "1 received = 0 accepted + 1 rejected"} {
		if !strings.Contains(card, want) {
			t.Errorf("look-up of the request lacks %q:\n%s", want, card)
		}
	}
	if over := eval[int](p, `document.documentElement.scrollWidth - document.documentElement.clientWidth`); over > 0 {
		t.Errorf("the page is %d pixels too wide", over)
	}
	p.close()
	if _, page := s.read(alarm.DatasetPath("shop")); !contains(page, "Rejected events are not counted: 1 of 2 received, 50.0 %.") {
		t.Error("readiness does not say that rejected events are not counted")
	}
	if _, page := s.read("/lookup?id=never-seen"); !contains(page, "finds rejected requests of the last 24 hours") {
		t.Error("an unknown id: the page does not say what a request id finds")
	}
}

// When an event was committed is known after its snapshot is gone, and after a restart.
func TestCommitTimesAreKept(t *testing.T) {
	dir := t.TempDir()
	s := openServiceIn(t, dir, nil)
	s.dataset(dataset.Spec{ID: "shop"})
	var id string
	for range 3 { // the commit of the first one is not known: nothing came before it
		_, answer := s.post("shop", "/v1/events", plainEvent("shop"))
		id = between(answer, `"submission_id":"`, `"`)
		until(t, "the commit", func() bool { _, page := s.read("/lookup?id=" + id); return contains(page, "PROCESSED") })
	}
	committed := func(s *service) string {
		_, page := s.read("/lookup?id=" + id)
		return between(page, "Committed to the lake ", " UTC")
	}
	want := committed(s)
	if want == "" {
		t.Fatal("no time of the commit")
	}
	s.stop()
	again := openServiceIn(t, dir, nil)
	until(t, "the log of commits", func() bool {
		again.console.commits.mu.Lock()
		defer again.console.commits.mu.Unlock()
		return again.console.commits.total > 0
	})
	if got := committed(again); got != want {
		t.Errorf("after a restart: got %q, want %q", got, want)
	}
}
