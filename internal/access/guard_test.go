package access

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/internal/audit"
	"sluice/internal/engine"
)

const password = "correct horse battery staple"

// site is a guard before a page, and a clock.
type site struct {
	*Guard
	t      *testing.T
	at     time.Time
	proven int // requests that carried a session or a token
	web    http.Handler
}

func openSite(t *testing.T, loopback, proxy bool) *site {
	t.Helper()
	e := openEngine(t)
	s := &site{t: t, at: time.Date(2026, 11, 14, 12, 0, 0, 0, time.UTC)}
	credentials, err := Open(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	log, err := audit.Open(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	s.Guard = NewGuard(Options{
		Credentials: credentials, Loopback: loopback, Proxy: proxy, Audit: log,
		Proven: func(context.Context) { s.proven++ }, ShowLogin: showLogin,
		Now: func() time.Time { return s.at }, Log: slog.New(slog.DiscardHandler),
	})
	mux := http.NewServeMux()
	page := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "the page") }
	mux.Handle("/", s.Protect(http.HandlerFunc(page)))
	s.HandleLogin(mux)
	s.web = mux
	return s
}

func showLogin(w http.ResponseWriter, status int, page LoginPage) {
	w.WriteHeader(status)
	fmt.Fprintf(w, "%+v", page)
}

func openEngine(t *testing.T) *engine.Engine {
	t.Helper()
	e, err := engine.Open(t.Context(), engine.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func (s *site) ask(method, target string, form url.Values, change func(*http.Request)) *http.Response {
	s.t.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(form.Encode()))
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	s.web.ServeHTTP(w, r)
	return w.Result()
}

func (s *site) logIn(password, from string) *http.Response {
	s.t.Helper()
	form := url.Values{"password": {password}, "next": {"/system"}}
	return s.ask("POST", "https://ops.example/login", form, func(r *http.Request) { r.RemoteAddr = from + ":1234" })
}

// private says whether a cookie stays between the browser and this site.
func private(c *http.Cookie) bool {
	return c.Secure && c.HttpOnly && c.SameSite == http.SameSiteStrictMode
}

func (s *site) actions() string {
	s.t.Helper()
	entries, err := s.o.Audit.Tail(s.t.Context(), 100)
	if err != nil {
		s.t.Fatal(err)
	}
	var out []string
	for i := len(entries) - 1; i >= 0; i-- {
		out = append(out, entries[i].Action+" "+entries[i].Actor)
	}
	return strings.Join(out, "\n")
}

func TestLogIn(t *testing.T) {
	s := openSite(t, false, false)
	if err := s.o.Credentials.SetPassword(t.Context(), "short"); err == nil {
		t.Error("a short password was taken")
	}
	if r := s.logIn(password, "192.0.2.1"); r.StatusCode != 403 {
		t.Errorf("no password set: got %d, want 403", r.StatusCode)
	}
	if err := s.o.Credentials.SetPassword(t.Context(), password); err != nil {
		t.Fatal(err)
	}
	html := func(r *http.Request) { r.Header.Set("Accept", "text/html") }
	r := s.ask("GET", "https://ops.example/system", nil, html)
	if to := r.Header.Get("Location"); r.StatusCode != 303 || to != "/login?next=%2Fsystem" {
		t.Errorf("got %d to %s, want a redirect to the log-in", r.StatusCode, to)
	}
	if r := s.ask("GET", "https://ops.example/metrics", nil, nil); r.StatusCode != 401 {
		t.Errorf("a program: got %d, want 401", r.StatusCode)
	}
	if r := s.logIn("correct horse battery stable", "192.0.2.1"); r.StatusCode != 403 || len(r.Cookies()) != 0 {
		t.Errorf("a wrong password: got %d", r.StatusCode)
	}
	r = s.logIn(password, "192.0.2.1")
	if r.StatusCode != 303 || r.Header.Get("Location") != "/system" || len(r.Cookies()) != 2 {
		t.Fatalf("got %d, %v", r.StatusCode, r.Cookies())
	}
	c := r.Cookies()[0]
	if c.Name != "__Host-sluice" || c.Path != "/" || c.Domain != "" || !private(c) {
		t.Errorf("got cookie %+v", c)
	}
	with := func(r *http.Request) { r.AddCookie(c) }
	if r := s.ask("GET", "https://ops.example/", nil, with); r.StatusCode != 200 {
		t.Errorf("with a session: got %d", r.StatusCode)
	}
	s.at = s.at.Add(59 * time.Minute)
	s.NoteRejected(t.Context())
	if r := s.ask("GET", "https://ops.example/", nil, with); r.StatusCode != 200 {
		t.Errorf("after 59 minutes: got %d", r.StatusCode)
	}
	s.at = s.at.Add(61 * time.Minute)
	if r := s.ask("GET", "https://ops.example/", nil, with); r.StatusCode != 401 {
		t.Errorf("after an idle hour: got %d, want 401", r.StatusCode)
	}
	c = s.logIn(password, "192.0.2.1").Cookies()[0]
	if r := s.ask("POST", "https://ops.example/logout", url.Values{}, with); r.StatusCode != 303 {
		t.Errorf("log out: got %d", r.StatusCode)
	}
	if r := s.ask("GET", "https://ops.example/", nil, with); r.StatusCode != 401 {
		t.Errorf("after log-out: got %d, want 401", r.StatusCode)
	}
	c = s.logIn(password, "192.0.2.1").Cookies()[0]
	if err := s.o.Credentials.SetPassword(t.Context(), password+" two"); err != nil {
		t.Fatal(err)
	}
	if r := s.ask("GET", "https://ops.example/", nil, with); r.StatusCode != 401 {
		t.Errorf("after a new password: got %d, want 401", r.StatusCode)
	}
	actions := []string{"console.login", "console.login.rejected", "console.login", "console.logout", "console.login"}
	want := strings.Join(actions, " console:192.0.2.1\n") + " console:192.0.2.1"
	if got := s.actions(); got != want {
		t.Errorf("audit: got\n%s\nwant\n%s", got, want)
	}
}

// Guessing is slow: five attempts a minute from an address. The audit log gets one line about those that failed.
func TestLogInRate(t *testing.T) {
	s := openSite(t, false, false)
	if err := s.o.Credentials.SetPassword(t.Context(), password); err != nil {
		t.Fatal(err)
	}
	for i := range attemptsPerAddr {
		if r := s.logIn("wrong", "192.0.2.1"); r.StatusCode != 403 {
			t.Fatalf("attempt %d: got %d", i, r.StatusCode)
		}
	}
	for range 500 {
		if r := s.logIn(password, "192.0.2.1"); r.StatusCode != 429 || r.Header.Get("Retry-After") == "" {
			t.Fatalf("over the rate: got %d, want 429", r.StatusCode)
		}
	}
	if r := s.logIn(password, "192.0.2.2"); r.StatusCode != 303 {
		t.Errorf("another address: got %d, want 303", r.StatusCode)
	}
	if s.Addr(&http.Request{RemoteAddr: "[2001:db8::1]:9"}) != s.Addr(&http.Request{RemoteAddr: "[2001:db8::ffff:2]:9"}) {
		t.Error("two addresses of one IPv6 network are counted apart")
	}
	if got := s.actions(); got != "console.login console:192.0.2.2" {
		t.Errorf("audit before the minute is over: got\n%s", got)
	}
	s.at = s.at.Add(time.Minute)
	if r := s.logIn(password, "192.0.2.1"); r.StatusCode != 303 {
		t.Errorf("a minute later: got %d, want 303", r.StatusCode)
	}
	s.NoteRejected(t.Context())
	entries, err := s.o.Audit.Tail(t.Context(), 100)
	if err != nil {
		t.Fatal(err)
	}
	got := entries[0]
	if len(entries) != 3 || got.Action != "console.login.rejected" || got.Actor != "console:192.0.2.1" ||
		got.Detail["attempts"] != "505" || got.Detail["over_the_limit"] != "500" {
		t.Errorf("audit: got %d entries, the last %+v; want one of 505 attempts, 500 over the limit", len(entries), got)
	}
}

// Strangers lock nobody out: not by a few addresses, and not, with many, a browser that has logged in before or a
// session.
func TestStrangersLockNobodyOut(t *testing.T) {
	s := openSite(t, false, false)
	if err := s.o.Credentials.SetPassword(t.Context(), password); err != nil {
		t.Fatal(err)
	}
	first := s.logIn(password, "192.0.2.200")
	var session, device *http.Cookie
	for _, c := range first.Cookies() {
		switch c.Name {
		case cookieName:
			session = c
		case deviceName:
			device = c
		}
	}
	if session == nil || device == nil || !private(device) {
		t.Fatalf("got cookies %v", first.Cookies())
	}
	s.at = s.at.Add(time.Minute)
	flood := func(addresses int) { // as many attempts as they may have
		for n := range addresses {
			addr := fmt.Sprintf("198.51.%d.%d", n/200, n%200)
			for s.mayTry(attempt{addr: addr}) {
				s.reject(t.Context(), addr, false)
			}
			for range 10 {
				s.reject(t.Context(), addr, true)
			}
		}
	}
	flood(6)
	if r := s.logIn(password, "192.0.2.1"); r.StatusCode != 303 {
		t.Errorf("an operator beside six strangers: got %d, want 303", r.StatusCode)
	}
	flood(300)
	if r := s.logIn(password, "192.0.2.2"); r.StatusCode != 429 {
		t.Errorf("an unknown browser beside 300 addresses: got %d, want 429: the cost is not bounded", r.StatusCode)
	}
	with := func(r *http.Request) { r.AddCookie(session) }
	if r := s.ask("GET", "https://ops.example/", nil, with); r.StatusCode != 200 {
		t.Errorf("a session: got %d, want 200", r.StatusCode)
	}
	again := func(cookie *http.Cookie, password string) int {
		return s.ask("POST", "https://ops.example/login", url.Values{"password": {password}}, func(r *http.Request) {
			r.RemoteAddr = "198.51.0.1:9"
			r.AddCookie(cookie)
		}).StatusCode
	}
	if got := again(device, password); got != 303 {
		t.Errorf("a known browser, from the address of a stranger: got %d, want 303", got)
	}
	forged := *device
	forged.Value = "x" + forged.Value
	if got := again(&forged, password); got != 429 {
		t.Errorf("a forged cookie: got %d, want 429", got)
	}
	for range attemptsPerAddr - 1 {
		if got := again(device, "wrong"); got != 403 {
			t.Errorf("a wrong password of a known browser: got %d, want 403", got)
		}
	}
	if got := again(device, password); got != 429 {
		t.Errorf("a known browser over its rate: got %d, want 429", got)
	}
	s.at = s.at.Add(time.Minute)
	s.NoteRejected(t.Context())
	entries, err := s.o.Audit.Tail(t.Context(), 1000)
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for _, e := range entries {
		if e.Action == "console.login.rejected" {
			lines++
		}
	}
	if lines != 1 {
		t.Errorf("got %d audit lines for one minute, want 1", lines)
	}
	if err := s.o.Credentials.SetPassword(t.Context(), password+" two"); err != nil {
		t.Fatal(err)
	}
	later := &http.Request{RemoteAddr: "192.0.2.3:9", Header: http.Header{"Cookie": {device.String()}}}
	if who := s.who(later); who.device != "" {
		t.Error("a cookie outlives the password")
	}
}

// Strangers who try for a week do not fill the audit log, and the log has all of their attempts.
func TestStrangersDoNotFillTheAuditLog(t *testing.T) {
	s := openSite(t, false, false)
	want, begun := 0, s.at
	for ; s.at.Sub(begun) < 7*24*time.Hour; s.at = s.at.Add(20 * time.Second) {
		s.reject(t.Context(), fmt.Sprintf("198.51.100.%d", want%150), want%2 == 0)
		want++
	}
	s.Close(t.Context())
	entries, err := s.o.Audit.Tail(t.Context(), 1000)
	if err != nil {
		t.Fatal(err)
	}
	got := 0
	for _, e := range entries {
		n, _ := strconv.Atoi(e.Detail["attempts"])
		got += n
	}
	if got != want || len(entries) > 7*24+7 {
		t.Errorf("got %d attempts in %d lines, want %d in at most %d", got, len(entries), want, 7*24+7)
	}
	newest := entries[1].Detail["addresses"]
	if !strings.HasPrefix(newest, "others: ") || !strings.HasSuffix(newest, "and 91 more") ||
		strings.Count(newest, ", ") != rejectedNamed {
		t.Errorf("got addresses %q, want the most frequent, and how many more there are", newest)
	}
}

// A flood of log-ins from many addresses uses a little of the processor all the time, and not all of it for a while:
// each attempt costs an argon2.
func TestLogInFloodIsSpread(t *testing.T) {
	s := openSite(t, false, false)
	address := 0
	tried := func(within time.Duration) (n int) {
		for range int(within / (100 * time.Millisecond)) {
			s.at = s.at.Add(100 * time.Millisecond)
			for range 10 {
				address++
				if s.mayTry(attempt{addr: fmt.Sprint("stranger ", address)}) {
					n++
				}
			}
		}
		return n
	}
	if got := tried(time.Second); got < attemptsAtOnce || got > attemptsAtOnce+2 {
		t.Errorf("in the first second: got %d attempts, want %d", got, attemptsAtOnce)
	}
	for i := range 120 {
		if got := tried(time.Second); got > 2 {
			t.Fatalf("in second %d: got %d attempts, want 2 at most", i+1, got)
		}
	}
	s.at = s.at.Add(-time.Hour) // the clock was set
	if got := tried(time.Second); got < attemptsAtOnce {
		t.Errorf("after the clock was set back: got %d attempts, want %d", got, attemptsAtOnce)
	}
}

// Who may come, and by which way.
func TestAccess(t *testing.T) {
	remote, local, proxied := openSite(t, false, false), openSite(t, true, false), openSite(t, false, true)
	token, err := remote.o.Credentials.NewToken(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const direct, host = "http://127.0.0.1:8081/", "https://ops.example/"
	for name, c := range map[string]struct {
		site    *site
		method  string
		url     string
		headers string // name: value, one a line
		want    int
	}{
		"token":                      {remote, "GET", host + "metrics", "Authorization: Bearer " + token, 200},
		"wrong token":                {remote, "GET", host + "metrics", "Authorization: Bearer " + token + "x", 401},
		"empty token":                {remote, "GET", host + "metrics", "Authorization: Bearer ", 401},
		"no TLS":                     {remote, "GET", "http://ops.example/", "Authorization: Bearer " + token, 403},
		"log-in without TLS":         {remote, "POST", "http://ops.example/login", "", 403},
		"behind a proxy, nobody":     {proxied, "GET", "http://ops.example/", "", 401},
		"loopback by address":        {local, "GET", direct, "", 200},
		"loopback by name":           {local, "GET", "http://localhost:8081/", "", 200},
		"loopback, IPv6":             {local, "GET", "http://[::1]:8081/", "", 200},
		"a name pointed at loopback": {local, "GET", "http://evil.example:8081/", "", 421},
		"log-in on loopback":         {local, "GET", direct + "login", "", 404},
		"a form to it":               {local, "POST", direct + "login", "", 404},
		"log-out on loopback":        {local, "POST", direct + "logout", "", 404},
		"a proxy nobody told us of":  {local, "GET", direct, "X-Forwarded-For: 192.0.2.1", 403},
		"the same, RFC 7239":         {local, "GET", direct, "Forwarded: for=192.0.2.1", 403},
		"the same, host only":        {local, "GET", direct, "X-Forwarded-Host: ops.example", 403},
		"the same, by Via":           {local, "GET", direct, "Via: 1.1 proxy", 403},
		"the same, by Cloudflare":    {local, "GET", direct, "CF-Connecting-IP: 192.0.2.1", 403},
		"the same, by Akamai":        {local, "GET", direct, "True-Client-IP: 192.0.2.1", 403},
		"the same, with TLS":         {remote, "GET", host, "X-Real-IP: 192.0.2.1\nAuthorization: Bearer " + token, 403},
		"the same, its log-in":       {remote, "GET", host + "login", "X-Forwarded-For: 192.0.2.1", 403},
		"behind a proxy without TLS": {proxied, "GET", "http://ops.example/login", "X-Forwarded-Proto: http", 403},
		"behind a proxy with TLS":    {proxied, "GET", "http://ops.example/login", "X-Forwarded-Proto: https", 200},
	} {
		t.Run(name, func(t *testing.T) {
			before := c.site.proven
			r := c.site.ask(c.method, c.url, nil, func(r *http.Request) {
				for line := range strings.Lines(c.headers) {
					name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
					r.Header.Set(name, value)
				}
			})
			if r.StatusCode != c.want {
				t.Errorf("got %d, want %d", r.StatusCode, c.want)
			}
			if proven := c.site.proven > before; proven != (name == "token") {
				t.Errorf("taken for somebody who is known: %t", proven)
			}
		})
	}
}

// A part of the listener that knows its readers itself is reached without a log-in, and by no other way than the
// console.
func TestMount(t *testing.T) {
	for name, c := range map[string]struct {
		loopback, proxy bool
		url             string
		want            int
	}{
		"over TLS":                   {false, false, "https://ops.example/part/x", 200},
		"without TLS":                {false, false, "http://ops.example/part/x", 403},
		"behind a proxy":             {false, true, "http://ops.example/part/x", 200},
		"loopback":                   {true, false, "http://127.0.0.1:8081/part/x", 200},
		"a name pointed at loopback": {true, false, "http://evil.example/part/x", 421},
	} {
		t.Run(name, func(t *testing.T) {
			s := openSite(t, c.loopback, c.proxy)
			handler := s.Mounted(Mount{
				Prefix:  "/part/",
				Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
				Reject: func(w http.ResponseWriter, _ *http.Request, status int, _ string) {
					w.WriteHeader(status)
				},
			})
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest("GET", c.url, nil))
			if w.Code != c.want {
				t.Errorf("got %d, want %d", w.Code, c.want)
			}
		})
	}
}

// A redirect after the log-in stays here.
func TestSafeNext(t *testing.T) {
	for next, want := range map[string]string{
		"/system": "/system", "/dataset?id=a%2Fb": "/dataset?id=a%2Fb", "": "/", "system": "/", "//evil.example/": "/",
		"https://evil.example/": "/", `/\evil.example`: "/", "javascript:alert(1)": "/",
	} {
		if got := safeNext(next); got != want {
			t.Errorf("%q: got %q, want %q", next, got, want)
		}
	}
}

// The password's hash is argon2id with a salt of its own; damaged files open nothing.
func TestPassword(t *testing.T) {
	a, b := hashPassword(password, []byte("0123456789abcdef")), hashPassword(password, []byte("fedcba9876543210"))
	if a == b || !strings.HasPrefix(a, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Errorf("got %s and %s", a, b)
	}
	if !passwordFits(a, password) || passwordFits(a, password+" ") || passwordFits(a, "") {
		t.Error("the wrong passwords fit")
	}
	for _, damaged := range []string{
		"", "$", a[:len(a)-3], "plain:" + password, strings.Replace(a, "argon2id", "argon2i", 1),
		strings.Replace(a, "m=19456", "m=99999999", 1), strings.Replace(a, "p=1", "p=0", 1),
	} {
		if passwordFits(damaged, password) {
			t.Errorf("%q opens", damaged)
		}
	}
}
