package console

import (
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"sluice/internal/audit"
	"sluice/internal/engine"
)

const password = "correct horse battery staple"

// site is a guard before a page, and a clock.
type site struct {
	*guard
	t   *testing.T
	at  time.Time
	web http.Handler
}

func openSite(t *testing.T, loopback, proxy bool) *site {
	t.Helper()
	e := openEngine(t)
	s := &site{t: t, at: time.Date(2026, 11, 14, 12, 0, 0, 0, time.UTC)}
	c := &Console{log: slog.New(slog.DiscardHandler)}
	access, err := OpenAccess(t.Context(), e, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	log, err := audit.Open(t.Context(), e, "", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	c.guard = &guard{
		access: access, loopback: loopback, proxy: proxy, now: func() time.Time { return s.at }, log: c.log, audit: log, sessions: map[string]*session{},
	}
	s.guard = c.guard
	mux := http.NewServeMux()
	mux.Handle("/", c.guard.wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "the page") })))
	c.mountLogin(mux)
	s.web = headers(http.NewCrossOriginProtection().Handler(c.limitBody(mux)))
	return s
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
	r.TLS = &tls.ConnectionState{}
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	s.web.ServeHTTP(w, r)
	return w.Result()
}

func (s *site) logIn(password, from string) *http.Response {
	s.t.Helper()
	return s.ask("POST", "https://ops.example/login", url.Values{"password": {password}, "next": {"/system"}}, func(r *http.Request) { r.RemoteAddr = from + ":1234" })
}

func (s *site) actions() string {
	s.t.Helper()
	entries, err := s.audit.Tail(s.t.Context(), 100)
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
	if err := s.access.SetPassword(t.Context(), "short"); err == nil {
		t.Error("a short password was taken")
	}
	if r := s.logIn(password, "192.0.2.1"); r.StatusCode != 403 {
		t.Errorf("no password set: got %d, want 403", r.StatusCode)
	}
	if err := s.access.SetPassword(t.Context(), password); err != nil {
		t.Fatal(err)
	}
	html := func(r *http.Request) { r.Header.Set("Accept", "text/html") }
	if r := s.ask("GET", "https://ops.example/system", nil, html); r.StatusCode != 303 || r.Header.Get("Location") != "/login?next=%2Fsystem" {
		t.Errorf("got %d to %s, want a redirect to the log-in", r.StatusCode, r.Header.Get("Location"))
	}
	if r := s.ask("GET", "https://ops.example/metrics", nil, nil); r.StatusCode != 401 {
		t.Errorf("a program: got %d, want 401", r.StatusCode)
	}
	if r := s.logIn("correct horse battery stable", "192.0.2.1"); r.StatusCode != 403 || len(r.Cookies()) != 0 {
		t.Errorf("a wrong password: got %d", r.StatusCode)
	}
	r := s.logIn(password, "192.0.2.1")
	if r.StatusCode != 303 || r.Header.Get("Location") != "/system" || len(r.Cookies()) != 2 {
		t.Fatalf("got %d, %v", r.StatusCode, r.Cookies())
	}
	c := r.Cookies()[0]
	if c.Name != "__Host-sluice" || !c.Secure || !c.HttpOnly || c.Path != "/" || c.Domain != "" || c.SameSite != http.SameSiteStrictMode {
		t.Errorf("got cookie %+v", c)
	}
	with := func(r *http.Request) { r.AddCookie(c) }
	if r := s.ask("GET", "https://ops.example/", nil, with); r.StatusCode != 200 {
		t.Errorf("with a session: got %d", r.StatusCode)
	}
	s.at = s.at.Add(59 * time.Minute)
	s.guard.noteRejected(t.Context(), false)
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
	if err := s.access.SetPassword(t.Context(), password+" two"); err != nil {
		t.Fatal(err)
	}
	if r := s.ask("GET", "https://ops.example/", nil, with); r.StatusCode != 401 {
		t.Errorf("after a new password: got %d, want 401", r.StatusCode)
	}
	want := "console.login console:192.0.2.1\nconsole.login.rejected console:192.0.2.1\nconsole.login console:192.0.2.1\nconsole.logout console:192.0.2.1\nconsole.login console:192.0.2.1"
	if got := s.actions(); got != want {
		t.Errorf("audit: got\n%s\nwant\n%s", got, want)
	}
}

// Guessing is slow: five attempts a minute from an address. An address gets one line of the audit log for each minute.
func TestLogInRate(t *testing.T) {
	s := openSite(t, false, false)
	if err := s.access.SetPassword(t.Context(), password); err != nil {
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
	if s.addr(&http.Request{RemoteAddr: "[2001:db8::1]:9"}) != s.addr(&http.Request{RemoteAddr: "[2001:db8::ffff:2]:9"}) {
		t.Error("two addresses of one IPv6 network are counted apart")
	}
	if got := s.actions(); got != "console.login console:192.0.2.2" {
		t.Errorf("audit before the minute is over: got\n%s", got)
	}
	s.at = s.at.Add(time.Minute)
	if r := s.logIn(password, "192.0.2.1"); r.StatusCode != 303 {
		t.Errorf("a minute later: got %d, want 303", r.StatusCode)
	}
	s.guard.noteRejected(t.Context(), false)
	entries, err := s.audit.Tail(t.Context(), 100)
	if err != nil {
		t.Fatal(err)
	}
	got := entries[0]
	if len(entries) != 3 || got.Action != "console.login.rejected" || got.Actor != "console:192.0.2.1" || got.Detail["attempts"] != "505" || got.Detail["over_the_limit"] != "500" {
		t.Errorf("audit: got %d entries, the last %+v; want one that counts 505 attempts, 500 over the limit", len(entries), got)
	}
}

// Strangers lock nobody out: not by a few addresses, and not, with many, a browser that has logged in before or a session.
func TestStrangersLockNobodyOut(t *testing.T) {
	s := openSite(t, false, false)
	if err := s.access.SetPassword(t.Context(), password); err != nil {
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
	if session == nil || device == nil || !device.Secure || !device.HttpOnly || device.SameSite != http.SameSiteStrictMode {
		t.Fatalf("got cookies %v", first.Cookies())
	}
	s.at = s.at.Add(time.Minute)
	flood := func(addresses int) { // as many attempts as they may have
		for n := range addresses {
			addr := fmt.Sprintf("198.51.%d.%d", n/200, n%200)
			for s.guard.mayTry(attempt{addr: addr}) {
				s.guard.reject(t.Context(), addr, false)
			}
			for range 10 {
				s.guard.reject(t.Context(), addr, true)
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
	if r := s.ask("GET", "https://ops.example/", nil, func(r *http.Request) { r.AddCookie(session) }); r.StatusCode != 200 {
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
	s.guard.noteRejected(t.Context(), false)
	entries, err := s.audit.Tail(t.Context(), 1000)
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for _, e := range entries {
		if e.Action == "console.login.rejected" {
			lines++
		}
	}
	if lines > rejectedAddrs+1 || lines < 2 {
		t.Errorf("got %d audit lines for one minute, want at most %d", lines, rejectedAddrs+1)
	}
	if err := s.access.SetPassword(t.Context(), password+" two"); err != nil {
		t.Fatal(err)
	}
	if who := s.guard.who(&http.Request{RemoteAddr: "192.0.2.3:9", Header: http.Header{"Cookie": {device.String()}}}); who.device != "" {
		t.Error("a cookie outlives the password")
	}
}

// A flood of log-ins from many addresses uses a little of the processor all the time, and not all of it for a while: each
// attempt costs an argon2.
func TestLogInFloodIsSpread(t *testing.T) {
	s := openSite(t, false, false)
	address := 0
	tried := func(within time.Duration) (n int) {
		for range int(within / (100 * time.Millisecond)) {
			s.at = s.at.Add(100 * time.Millisecond)
			for range 10 {
				address++
				if s.guard.mayTry(attempt{addr: fmt.Sprint("stranger ", address)}) {
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

func TestAccess(t *testing.T) {
	remote, local, proxied := openSite(t, false, false), openSite(t, true, false), openSite(t, false, true)
	token, err := remote.access.NewToken(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	bearer := func(token string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
	}
	plain := func(r *http.Request) { r.TLS = nil }
	for name, c := range map[string]struct {
		site   *site
		method string
		url    string
		change func(*http.Request)
		want   int
	}{
		"token":                         {remote, "GET", "https://ops.example/metrics", bearer(token), 200},
		"wrong token":                   {remote, "GET", "https://ops.example/metrics", bearer(token + "x"), 401},
		"empty token":                   {remote, "GET", "https://ops.example/metrics", bearer(""), 401},
		"no TLS":                        {remote, "GET", "http://ops.example/", func(r *http.Request) { plain(r); bearer(token)(r) }, 403},
		"log-in without TLS":            {remote, "POST", "http://ops.example/login", plain, 403},
		"behind a proxy, nobody":        {proxied, "GET", "http://ops.example/", plain, 401},
		"loopback by address":           {local, "GET", "http://127.0.0.1:8081/", plain, 200},
		"loopback by name":              {local, "GET", "http://localhost:8081/", plain, 200},
		"loopback, IPv6":                {local, "GET", "http://[::1]:8081/", plain, 200},
		"a name pointed at loopback":    {local, "GET", "http://evil.example:8081/", plain, 421},
		"log-in on loopback":            {local, "GET", "http://127.0.0.1:8081/login", plain, 404},
		"a form to it":                  {local, "POST", "http://127.0.0.1:8081/login", plain, 404},
		"log-out on loopback":           {local, "POST", "http://127.0.0.1:8081/logout", plain, 404},
		"a proxy nobody told us of":     {local, "GET", "http://127.0.0.1:8081/", func(r *http.Request) { plain(r); r.Header.Set("X-Forwarded-For", "192.0.2.1") }, 403},
		"the same, RFC 7239":            {local, "GET", "http://127.0.0.1:8081/", func(r *http.Request) { plain(r); r.Header.Set("Forwarded", "for=192.0.2.1") }, 403},
		"the same, host only":           {local, "GET", "http://127.0.0.1:8081/", func(r *http.Request) { plain(r); r.Header.Set("X-Forwarded-Host", "ops.example") }, 403},
		"the same, with TLS":            {remote, "GET", "https://ops.example/", func(r *http.Request) { bearer(token)(r); r.Header.Set("X-Real-IP", "192.0.2.1") }, 403},
		"the same, its log-in":          {remote, "GET", "https://ops.example/login", func(r *http.Request) { r.Header.Set("X-Forwarded-For", "192.0.2.1") }, 403},
		"behind a proxy without TLS":    {proxied, "GET", "http://ops.example/login", func(r *http.Request) { plain(r); r.Header.Set("X-Forwarded-Proto", "http") }, 403},
		"behind a proxy with TLS":       {proxied, "GET", "http://ops.example/login", func(r *http.Request) { plain(r); r.Header.Set("X-Forwarded-Proto", "https") }, 200},
		"form of another site":          {local, "POST", "http://127.0.0.1:8081/try", func(r *http.Request) { plain(r); r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
		"form of another origin":        {local, "POST", "http://127.0.0.1:8081/try", func(r *http.Request) { plain(r); r.Header.Set("Origin", "https://evil.example") }, 403},
		"link from another site, token": {remote, "GET", "https://ops.example/", func(r *http.Request) { bearer(token)(r); r.Header.Set("Sec-Fetch-Site", "cross-site") }, 200},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.site.ask(c.method, c.url, nil, c.change)
			if r.StatusCode != c.want {
				t.Errorf("got %d, want %d", r.StatusCode, c.want)
			}
			for _, h := range []string{"Content-Security-Policy", "X-Content-Type-Options", "Referrer-Policy"} {
				if r.Header.Get(h) == "" {
					t.Errorf("no %s", h)
				}
			}
			if csp := r.Header.Get("Content-Security-Policy"); strings.Contains(csp, "unsafe") || !strings.Contains(csp, "default-src 'none'") {
				t.Errorf("got policy %s", csp)
			}
		})
	}
}

// A part of the listener that knows its readers itself is reached without a log-in, and by no other way than the console.
func TestMount(t *testing.T) {
	plain := func(r *http.Request) { r.TLS = nil }
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
			handler := s.guard.mount(Mount{
				Prefix:  "/part/",
				Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
				Reject: func(w http.ResponseWriter, _ *http.Request, status int, _ string) {
					w.WriteHeader(status)
				},
			})
			r := httptest.NewRequest("GET", c.url, nil)
			if strings.HasPrefix(c.url, "http:") {
				plain(r)
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if w.Code != c.want {
				t.Errorf("got %d, want %d", w.Code, c.want)
			}
		})
	}
}

// A redirect after the log-in stays here.
func TestSafeNext(t *testing.T) {
	for next, want := range map[string]string{
		"/system": "/system", "/dataset?id=a%2Fb": "/dataset?id=a%2Fb", "": "/", "//evil.example/": "/", "https://evil.example/": "/", `/\evil.example`: "/", "javascript:alert(1)": "/", "system": "/",
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
	for _, damaged := range []string{"", "$", a[:len(a)-3], strings.Replace(a, "argon2id", "argon2i", 1), strings.Replace(a, "m=19456", "m=99999999", 1), strings.Replace(a, "p=1", "p=0", 1), "plain:" + password} {
		if passwordFits(damaged, password) {
			t.Errorf("%q opens", damaged)
		}
	}
}
