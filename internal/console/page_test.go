package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sluice/internal/alarm"
	"sluice/internal/dataset"
	"sluice/internal/hours"
	"sluice/internal/humanize"
	"sluice/internal/lake"
	"sluice/internal/traffictest"
)

// everyPage is what an operator can open.
func everyPage(dataset, submission string) []string {
	return []string{
		"/", "/?window=hour", "/?window=week", "/?window=month", "/?window=year", "/datasets", "/datasets?by=rejected&q=s", alarm.DatasetPath(dataset), alarm.DatasetPath(dataset) + "&window=month",
		alarm.DatasetPath("no such dataset"), "/campaigns", campaignsPath(dataset) + "&window=month", campaignsPath("no such dataset"), "/diagnosis", "/diagnosis?window=week", alarm.DiagnosisPath(dataset), "/lookup", "/lookup?id=" + submission, "/lookup?id=nonsense", "/lookup?id=single.01977777-7777-8000-8000-000000000000",
		"/live", "/live?dataset=" + url.QueryEscape(dataset), "/requests", "/requests?status=400", "/try", "/system", "/nowhere",
	}
}

// Every page renders in a real browser, wide and narrow, light and dark, without a word on the browser's console
// (which is where violations of the policy are reported) and without a finding of axe-core.
func TestEveryPage(t *testing.T) {
	axe, err := os.ReadFile("testdata/axe.min.js")
	if err != nil {
		t.Fatal(err)
	}
	s := openService(t)
	ids := settle(t, s)
	_, answer := s.post("spring-sale", "/v1/events", `{"data_set_id":"spring-sale"}`)
	rejected := "/lookup?id=" + between(answer, `"request_id":"`, `"`)
	b := openBrowser(t)
	empty := openService(t)
	check := func(at, path string, width int64, scheme string) {
		p := b.open(t, at+path, width, scheme)
		defer p.close()
		if status, _ := s.read(path); status == 404 || at != s.url {
			p.allowed = "404"
		}
		_ = eval[bool](p, string(axe)+"; true")
		found := eval[string](p, `axe.run(document, {resultTypes: ["violations"]}).then(r => JSON.stringify([r.passes.length, r.violations.map(v => v.id + ": " + v.help + " " + v.nodes.map(n => n.target.join(" ") + " " + (n.any[0] ? n.any[0].message : "")).join(" | "))]))`)
		var passes int
		var list []string
		if err := json.Unmarshal([]byte(found), &[]any{&passes, &list}); err != nil || passes < 10 {
			t.Fatalf("%s: axe looked at %d rules, %v", path, passes, err)
		}
		for _, v := range list {
			t.Errorf("%s at %d pixels, %s: axe: %s", path, width, scheme, v)
		}
		if over := eval[int](p, `document.documentElement.scrollWidth - document.documentElement.clientWidth`); over > 0 {
			t.Errorf("%s at %d pixels: the page is %d pixels too wide", path, width, over)
		}
		// No table has columns that only a scroll shows, but for the numbers behind charts.
		if cut := eval[string](p, `[...document.querySelectorAll(".scroll")].filter((r) => !r.closest("details") && r.scrollWidth > r.clientWidth + 1).map((r) => r.getAttribute("aria-label") + " by " + (r.scrollWidth - r.clientWidth)).join(", ")`); cut != "" {
			t.Errorf("%s at %d pixels: tables are cut off: %s", path, width, cut)
		}
		// Of an id of 36 characters every place has its line.
		if broken := eval[string](p, `[...document.querySelectorAll("td code, th code")].filter((c) => c.textContent.length === 36 && c.getClientRects().length > 1).map((c) => c.textContent).join(" ")`); broken != "" {
			t.Errorf("%s at %d pixels: ids are broken over lines: %s", path, width, broken)
		}
		if n := eval[int](p, `document.querySelectorAll("[data-chart]").length - document.querySelectorAll("[data-chart] canvas").length`); n != 0 {
			t.Errorf("%s: %d charts were not drawn", path, n)
		}
	}
	for i, path := range append(everyPage("spring-sale", ids.submission), rejected, rejected, "/datasets?window=month") {
		check(s.url, path, []int64{1280, 390}[i%2], "light")
	}
	for _, path := range []string{"/", "/datasets", alarm.DatasetPath("spring-sale"), "/diagnosis", "/lookup?id=" + ids.submission, "/live", "/requests", "/try", "/system"} {
		check(s.url, path, 390, "dark")
		check(empty.url, path, 1280, "light")
	}
}

// What stands on the pages after a known load is what stands in the tables, to the event, and does so again after a
// restart and after compaction.
func TestNumbersAgree(t *testing.T) {
	dir := t.TempDir()
	s := openServiceIn(t, dir, nil)
	for _, id := range []string{"one", "two"} {
		s.dataset(dataset.Spec{ID: id, SuppressOptOut: id == "two"})
	}
	sent, accepted := 0, 0
	src := traffictest.New(traffictest.Mix{GPP: 0.5, Custom: 0.5, URLs: 0.5, Value: 0.5, Late: 0.1, Invalid: 0.1}, 3)
	for i := range 30 {
		id := []string{"one", "two"}[i%2]
		status, answer := s.post(id, "/v1/events/batch", string(src.AppendBatch(nil, id, time.Now().Unix(), 20)))
		if status != 200 {
			t.Fatalf("got %d %s", status, answer)
		}
		sent += 20
		n := 20
		if r := between(answer, `"accepted":`, ","); r != "" {
			n, _ = strconv.Atoi(r)
		}
		accepted += n
	}
	s.post("one", "/v1/events", `{"data_set_id":"one"}`) // rejected whole
	sent++
	s.post("one", "/v1/events", `{`) // no event at all
	compare := func(s *service) {
		t.Helper()
		for _, id := range []string{"", "one", "two"} {
			want := tables(t, s, id)
			if id == "" && (want.Accepted != int64(accepted) || want.Received() != int64(sent)) {
				t.Fatalf("tables: got %+v, want %d accepted of %d", want, accepted, sent)
			}
			path := "/"
			if id != "" {
				path = alarm.DatasetPath(id)
			}
			_, page := s.read(path)
			if got := figures(page); got != want {
				t.Errorf("%s: got %+v, want %+v", path, got, want)
			}
			sum := int64(0)
			_, diagnosis := s.read(alarm.DiagnosisPath(id))
			for _, part := range strings.Split(diagnosis, `class="count"><b>`)[1:] {
				sum += count(t, part[:strings.Index(part, "<")])
			}
			if sum != want.Rejected {
				t.Errorf("diagnosis of %q: got %d rejected, want %d", id, sum, want.Rejected)
			}
		}
	}
	until(t, "the load", func() bool {
		return tables(t, s, "").Received() == int64(sent) && figuresOf(s, "/") == tables(t, s, "")
	})
	compare(s)
	if _, err := s.lake.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.post("two", "/v1/events", `{"data_set_id":"two"}`)
	sent++
	until(t, "one more", func() bool { return figuresOf(s, "/").Received() == int64(sent) })
	compare(s)
	b := openBrowser(t)
	p := b.open(t, s.url+alarm.DatasetPath("one"), 1280, "light")
	if got, want := eval[string](p, `document.querySelector("[data-figure=accepted]").textContent`), humanize.Count(tables(t, s, "one").Accepted); got != want {
		t.Errorf("in the browser: got %s, want %s", got, want)
	}
	p.close()
	s.stop()

	again := openServiceIn(t, dir, nil)
	until(t, "the numbers after a restart", func() bool { return figuresOf(again, "/").Received() == int64(sent) })
	compare(again)
}

// tables counts what the lake holds of a dataset, everybody's for "".
func tables(t *testing.T, s *service, id string) (sum hours.Totals) {
	t.Helper()
	if err := s.loader.Flush(); err != nil { // counts come a minute after their events; the pages have them from memory
		t.Fatal(err)
	}
	for row, err := range s.lake.Scan(t.Context(), lake.Query{Dataset: id}) {
		if err != nil {
			t.Fatal(err)
		}
		sum.Accepted++
		if row.Late {
			sum.Late++
		}
		switch row.Privacy.String() {
		case "measurement_only":
			sum.Restricted++
		case "suppressed":
			sum.Suppressed++
		}
	}
	err := s.lake.ScanRejections(t.Context(), lake.RejectionQuery{Dataset: id}, func(r *lake.Rejection) error { sum.Rejected += r.Events; return nil })
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// figures reads the five numbers off a page.
func figures(page string) (sum hours.Totals) {
	for name, at := range map[string]*int64{"accepted": &sum.Accepted, "rejected": &sum.Rejected, "late": &sum.Late, "restricted": &sum.Restricted, "suppressed": &sum.Suppressed} {
		*at, _ = strconv.ParseInt(strings.ReplaceAll(between(page, `data-figure="`+name+`">`, "<"), ",", ""), 10, 64)
	}
	return sum
}

func figuresOf(s *service, path string) hours.Totals {
	_, page := s.read(path)
	return figures(page)
}

func count(t *testing.T, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(strings.ReplaceAll(s, ",", ""), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A new event is in the live view within two seconds.
func TestLive(t *testing.T) {
	s := openService(t)
	s.dataset(dataset.Spec{ID: "shop"})
	s.dataset(dataset.Spec{ID: "other"})
	b := openBrowser(t)
	p := b.open(t, s.url+"/live?dataset=shop", 1280, "light")
	p.wait(`document.querySelector("[data-tail-state]").textContent === "following"`)
	s.post("other", "/v1/events", plainEvent("other"))
	s.post("shop", "/v1/events", plainEvent("shop"))
	if took := p.wait(`document.querySelectorAll("[data-tail-rows] tr").length > 0`); took > slower*2*time.Second {
		t.Errorf("it took %v", took)
	}
	s.post("shop", "/v1/events", `{"data_set_id":"shop"}`)
	p.wait(`document.querySelector("[data-tail-rows]").textContent.includes("MISSING_FIELD")`)
	rows := eval[string](p, `document.querySelector("[data-tail-rows]").textContent`)
	if strings.Contains(rows, "other") || !strings.Contains(rows, "purchase") || !strings.Contains(rows, "ifa") {
		t.Errorf("got %q", rows)
	}
	p.do(chromedp.Click(chromedp.CSS("[data-tail-pause]")))
	before := eval[int](p, `document.querySelectorAll("[data-tail-rows] tr").length`)
	s.post("shop", "/v1/events", plainEvent("shop"))
	until(t, "the tap", func() bool { return s.console.tap.taken.Load() > 0 })
	if n := eval[int](p, `document.querySelectorAll("[data-tail-rows] tr").length`); n != before {
		t.Errorf("paused: got %d rows, want %d", n, before)
	}
	p.do(chromedp.Click(chromedp.CSS("[data-tail-pause]")))
	p.wait(fmt.Sprintf(`document.querySelectorAll("[data-tail-rows] tr").length > %d`, before))
	p.close()
	until(t, "nobody watches", func() bool { return s.console.tap.watched.Load() == 0 })
}

// hostile are texts that become markup, script or an address where somebody forgot to escape.
var hostile = []string{
	`<script>window.hit=1</script>`, `"><img src=x onerror="window.hit=1">`, `'><svg onload=window.hit=1>`, `javascript:window.hit=1//`, `</td></tr></table><iframe srcdoc="<script>parent.hit=1</script>">`,
	`{{.}}<b>bold</b>`, `</textarea><script>window.hit=1</script>`, `</script><script>window.hit=1</script>`, `&lt;i&gt;`, "\u202e<a href=//evil.example>x</a>", `<style>*{display:none}</style>`, `]]><x:script xmlns:x="http://www.w3.org/1999/xhtml">window.hit=1</x:script>`,
}

// What senders and operators write shows as what it is: text.
func TestHostileText(t *testing.T) {
	s := openService(t)
	id := `"><script>window.hit=1</script>`
	s.dataset(dataset.Spec{ID: id, Name: strings.Join(hostile, " ")})
	b := openBrowser(t)
	live := b.open(t, s.url+"/live", 1280, "light")
	live.wait(`document.querySelector("[data-tail-state]").textContent === "following"`)
	var last string
	for _, h := range hostile {
		body, err := json.Marshal(map[string]any{
			"data_set_id": id, "timestamp": time.Now().Unix(), "event_type": "custom", "custom_event_name": h, "source": h[:min(len(h), 60)], "cp_id": h, "cp_name": h,
			"page_url": "https://shop.example/" + h, "referer": h, "identifiers": map[string]string{"ifa": "97987bca-ae59-4c7d-94ba-ee4f19ab8c21"}, "custom_data": map[string]string{h: h},
		})
		if err != nil {
			t.Fatal(err)
		}
		status, answer := s.post(id, "/v1/events", string(body))
		if status != 200 {
			t.Fatalf("got %d %s", status, answer)
		}
		last = between(answer, `"submission_id":"`, `"`)
	}
	live.wait(fmt.Sprintf(`document.querySelectorAll("[data-tail-rows] tr").length >= %d`, len(hostile)))
	harmless(t, live, "/live")
	text := eval[string](live, `document.querySelector("[data-tail-rows]").textContent`)
	for _, h := range hostile {
		if !strings.Contains(text, h[:min(len(h), 30)]) {
			t.Errorf("live does not show %q as text", h)
		}
	}
	live.close()
	until(t, "the load", func() bool { return figuresOf(s, "/").Accepted == int64(len(hostile)) })
	for _, path := range append(everyPage(id, last), "/lookup?id="+url.QueryEscape(hostile[1]), "/datasets?q="+url.QueryEscape(hostile[0]), alarm.DiagnosisPath(hostile[1]), alarm.DatasetPath(hostile[1])) {
		p := b.open(t, s.url+path, 1280, "light")
		p.allowed = "404"
		harmless(t, p, path)
		p.close()
	}
	p := b.open(t, s.url+"/try", 1280, "light")
	event, _ := json.Marshal(map[string]any{"data_set_id": id, "timestamp": time.Now().Unix(), "event_type": "custom", "custom_event_name": hostile[6], "identifiers": map[string]string{"ifa": hostile[1]}, "custom_data": map[string]string{"a": hostile[0]}})
	quoted, _ := json.Marshal(string(event))
	_ = eval[bool](p, `document.querySelector("textarea").value = `+string(quoted)+`; true`)
	p.do(chromedp.Click(chromedp.CSS("form[data-try] button")), chromedp.WaitVisible(chromedp.CSS("#answer .todo")))
	harmless(t, p, "/try, answered")
	p.close()
}

func harmless(t *testing.T, p *tab, path string) {
	t.Helper()
	if eval[bool](p, `"hit" in window`) {
		t.Errorf("%s: a text was run as a script", path)
	}
	if n := eval[int](p, `document.querySelectorAll("img, iframe, object, embed, style, body script, a[href^='javascript'], [onerror], [onload]").length`); n != 0 {
		t.Errorf("%s: %d elements came out of texts", path, n)
	}
}

// When the server is gone the page says so, and when it was.
func TestStale(t *testing.T) {
	s := openService(t)
	s.dataset(dataset.Spec{ID: "shop"})
	b := openBrowser(t)
	page := b.open(t, s.url+"/", 1280, "light")
	page.allowed = "ERR_CONNECTION_REFUSED"
	live := b.open(t, s.url+"/live", 390, "light")
	live.allowed = "ERR_"
	live.wait(`document.querySelector("[data-tail-state]").textContent === "following"`)
	if eval[bool](page, `!document.querySelector("#stale").hidden`) {
		t.Error("the banner is up while the server answers")
	}
	_ = s.ops.Close()
	for _, p := range []*tab{page, live} {
		p.wait(`!document.querySelector("#stale").hidden && document.querySelector("#stale").textContent.includes("does not answer")`)
	}
}

// When a key was last used survives a restart.
func TestLastUseIsKept(t *testing.T) {
	dir := t.TempDir()
	s := openServiceIn(t, dir, nil)
	s.dataset(dataset.Spec{ID: "shop"})
	s.post("shop", "/v1/events", plainEvent("shop"))
	_, page := s.read(alarm.DatasetPath("shop"))
	if contains(between(page, `id="keys"`, "</section>"), "never</td><td class=\"nowrap\" data-name=\"Ends\">never") {
		t.Error("before the restart the key was never used")
	}
	s.stop()
	again := openServiceIn(t, dir, nil)
	until(t, "the last use", func() bool {
		_, page := again.read(alarm.DatasetPath("shop"))
		keys := between(page, `id="keys"`, "</section>")
		return strings.Contains(keys, " ago</td>") || strings.Contains(keys, "just now</td>")
	})
}

// Every answer says what a browser may do with it, and no form of another site is taken.
func TestHeaders(t *testing.T) {
	t.Parallel()
	s := openService(t)
	for name, c := range map[string]struct{ method, path, header, value, want string }{
		"a page":                 {"GET", "/", "", "", "200 OK"},
		"a link from elsewhere":  {"GET", "/", "Sec-Fetch-Site", "cross-site", "200 OK"},
		"no page":                {"GET", "/nothing", "", "", "404 Not Found"},
		"a proxy":                {"GET", "/", "X-Forwarded-For", "192.0.2.1", "403 Forbidden"},
		"form of another site":   {"POST", "/try", "Sec-Fetch-Site", "cross-site", "403 Forbidden"},
		"form of another origin": {"POST", "/try", "Origin", "https://evil.example", "403 Forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), c.method, s.url+c.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if c.header != "" {
				r.Header.Set(c.header, c.value)
			}
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.Status != c.want {
				t.Errorf("got %s, want %s", resp.Status, c.want)
			}
			for _, h := range []string{"Content-Security-Policy", "X-Content-Type-Options", "Referrer-Policy"} {
				if resp.Header.Get(h) == "" {
					t.Errorf("no %s", h)
				}
			}
			csp := resp.Header.Get("Content-Security-Policy")
			if strings.Contains(csp, "unsafe") || !strings.Contains(csp, "default-src 'none'") {
				t.Errorf("got policy %s", csp)
			}
		})
	}
}

// A person logs in, looks around, and logs out, in a real browser.
func TestLogInByHand(t *testing.T) {
	s := openServiceIn(t, t.TempDir(), func(o *Options) { o.Loopback, o.Proxy = false, true })
	if err := s.console.s.Access.SetPassword(t.Context(), password); err != nil {
		t.Fatal(err)
	}
	b := openBrowser(t)
	p := b.open(t, s.url+"/system", 390, "dark")
	p.allowed = "403"
	if at := eval[string](p, `location.pathname + location.search`); at != "/login?next=%2Fsystem" {
		t.Fatalf("got %s, want the log-in", at)
	}
	enter := func(word string) {
		_ = eval[bool](p, `document.querySelector("[name=password]").value = "`+word+`"; true`)
		p.do(chromedp.Click(chromedp.CSS("form button")))
	}
	enter("not the right password")
	p.wait(`document.body?.textContent.includes("This is not the password")`)
	enter(password)
	p.wait(`location.pathname === "/system" && document.querySelector("h1")?.textContent === "System"`)
	if eval[string](p, `document.cookie`) != "" {
		t.Error("a script can read the session")
	}
	p.wait(`document.querySelector("#audit")?.textContent.includes("console.login")`)
	p.do(chromedp.Click(chromedp.CSS(".foot button")))
	p.wait(`location.pathname === "/login"`)
}

// The documentation for senders shows its examples in the language that the reader picks, by keyboard too and without a
// script; a browser that cannot do it shows all of them.
func TestDocsLanguages(t *testing.T) {
	s := openService(t)
	b := openBrowser(t)
	for _, width := range []int64{1280, 390} {
		p := b.open(t, s.apiURL+"/docs", width, "light")
		shown := `[...new Set([...document.querySelectorAll(".lang")].filter((e) => e.checkVisibility()).map((e) => e.className))].join(", ")`
		if got := eval[string](p, shown); got != "lang curl" {
			t.Errorf("at first %q is shown", got)
		}
		_ = eval[bool](p, `document.getElementById("lang-curl").focus(), true`)
		for _, want := range []string{"lang node", "lang python", "lang go", "lang php", "lang curl"} {
			p.do(chromedp.KeyEvent(kb.ArrowRight))
			if got := eval[string](p, shown); got != want {
				t.Errorf("after the arrow key %q is shown, want %q", got, want)
			}
		}
		if over := eval[int](p, `document.documentElement.scrollWidth - document.documentElement.clientWidth`); over > 0 {
			t.Errorf("at %d pixels the page is %d pixels too wide", width, over)
		}
		p.close()
	}
}
