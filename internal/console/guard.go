package console

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"sluice/internal/audit"
)

// The life of a session. Arbitrary: a working day, an idle hour.
const (
	sessionAge  = 12 * time.Hour
	sessionIdle = time.Hour
	sessionsMax = 1000
	cookieName  = "__Host-sluice"
)

// guard decides who may look. On a loopback address everybody on the machine may, and nobody else reaches it;
// on any other address a password or a token is asked for, over TLS only.
type guard struct {
	access   *Access
	loopback bool // the listener's address is one of this machine's own
	proxy    bool // a proxy in front ends TLS
	now      func() time.Time
	log      *slog.Logger
	audit    *audit.Log

	slow     sync.Mutex // one argon2 at a time: 19 MiB each, 64 MiB for passwords of earlier versions
	mu       sync.Mutex
	sessions map[string]*session
	attempts attempts
	rejected rejected
}

type session struct {
	began, seen time.Time
	password    string // the PHC string it was opened under: another password ends it
}

// wrap lets a request through to next, or sends it to the log-in.
func (g *guard) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, message := g.reach(r)
		switch {
		case status != 0:
			http.Error(w, message, status)
		case g.loopback, g.open(r):
			next.ServeHTTP(w, r)
		case r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html"):
			http.Redirect(w, r, "/login?next="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
		default:
			w.Header().Set("WWW-Authenticate", `Bearer realm="sluice"`)
			http.Error(w, "Log in, or send the console token.", http.StatusUnauthorized)
		}
	})
}

// reach says why nobody may be answered the way the request came; a status of 0 means that it may be answered.
func (g *guard) reach(r *http.Request) (status int, message string) {
	switch {
	case !g.proxy && forwarded(r.Header):
		return http.StatusForbidden, "This request came through a proxy, and the server was not started with --ops-proxy. Start it with --ops-proxy, let the proxy set X-Forwarded-For, and set a password with: sluice console password. See docs/operate.md, Console access."
	case g.proxy && r.Header.Get("X-Forwarded-Proto") != "" && !strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https"):
		return http.StatusForbidden, "This console is served over TLS only: the proxy was reached without it."
	case g.loopback && !localHost(r.Host):
		// A page of the internet whose name was pointed at this machine would send its own name.
		return http.StatusMisdirectedRequest, "This console answers to localhost, 127.0.0.1 and [::1] only."
	case !g.loopback && r.TLS == nil && !g.proxy:
		return http.StatusForbidden, "This console is served over TLS only: see docs/operate.md, Console access."
	}
	return 0, ""
}

// forwarded says whether a proxy has passed the request on, as far as a proxy says so.
func forwarded(h http.Header) bool {
	for name := range h {
		if name == "Forwarded" || name == "X-Real-Ip" || strings.HasPrefix(name, "X-Forwarded-") {
			return true
		}
	}
	return false
}

// reached lets a request through to a page that needs no log-in.
func (g *guard) reached(page http.HandlerFunc) http.Handler {
	return g.mount(Mount{Handler: page, Reject: func(w http.ResponseWriter, _ *http.Request, status int, message string) {
		http.Error(w, message, status)
	}})
}

// mount lets a request through to a part of the listener that knows its readers itself.
func (g *guard) mount(m Mount) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status, message := g.reach(r); status != 0 {
			m.Reject(w, r, status, message)
			return
		}
		m.Handler.ServeHTTP(w, r)
	})
}

// open says whether the request carries the token or a living session.
func (g *guard) open(r *http.Request) bool {
	a, err := g.access.read(r.Context())
	if err != nil {
		g.log.Error("console access cannot be read", "error", err)
		return false
	}
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return tokenFits(a, token)
	}
	return g.session(r, a) != nil
}

func (g *guard) session(r *http.Request, a access) *session {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.sessions[cookie.Value]
	if s == nil {
		return nil
	}
	now := g.now()
	if now.Sub(s.began) > sessionAge || now.Sub(s.seen) > sessionIdle || s.password != a.Password {
		delete(g.sessions, cookie.Value)
		return nil
	}
	s.seen = now
	return s
}

// logIn holds a password against the stored one and opens a session. Call it for attempts that mayTry has allowed.
func (g *guard) logIn(ctx context.Context, w http.ResponseWriter, who attempt, password string) bool {
	a, err := g.access.read(ctx)
	if err != nil || a.Password == "" {
		return false
	}
	g.slow.Lock()
	fits := passwordFits(a.Password, password)
	g.slow.Unlock()
	if !fits {
		g.reject(ctx, who.addr, false)
		return false
	}
	if !g.note(ctx, "console.login", who.addr, nil) {
		return false // what cannot be recorded does not happen
	}
	id := secretText()
	g.mu.Lock()
	g.dropOldest()
	g.sessions[id] = &session{began: g.now(), seen: g.now(), password: a.Password}
	g.mu.Unlock()
	http.SetCookie(w, &http.Cookie{
		Name: cookieName, Value: id, Path: "/", Secure: true, HttpOnly: true,
		SameSite: http.SameSiteStrictMode, MaxAge: int(sessionAge / time.Second),
	})
	setDevice(w, a)
	return true
}

// secretText is 256 random bits that fit into a cookie.
func secretText() string {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails: crypto/rand ends the program instead
	return base64.RawURLEncoding.EncodeToString(secret)
}

func (g *guard) logOut(w http.ResponseWriter, r *http.Request) {
	if cookie, err := r.Cookie(cookieName); err == nil {
		g.mu.Lock()
		_, had := g.sessions[cookie.Value]
		delete(g.sessions, cookie.Value)
		g.mu.Unlock()
		if had {
			g.note(r.Context(), "console.logout", g.addr(r), nil)
		}
	}
	http.SetCookie(w, &http.Cookie{Name: cookieName, Path: "/", Secure: true, HttpOnly: true, MaxAge: -1})
}

// dropOldest keeps the table of sessions bounded.
func (g *guard) dropOldest() {
	for len(g.sessions) >= sessionsMax {
		oldest := ""
		for id, s := range g.sessions {
			if oldest == "" || s.seen.Before(g.sessions[oldest].seen) {
				oldest = id
			}
		}
		delete(g.sessions, oldest)
	}
}

// note writes the audit line.
func (g *guard) note(ctx context.Context, action, addr string, detail map[string]string) bool {
	if g.audit == nil {
		return true
	}
	err := g.audit.Append(ctx, audit.Entry{Time: g.now(), Actor: "console:" + cmp.Or(addr, "unknown"), Action: action, Detail: detail})
	if err != nil {
		g.log.Error("audit", "action", action, "error", err)
	}
	return err == nil
}

// addr is who asks: the last address a trusted proxy saw, or the peer. An IPv6 address counts as its /64.
func (g *guard) addr(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	if g.proxy {
		if v := r.Header.Values("X-Forwarded-For"); len(v) > 0 {
			list := strings.Split(v[len(v)-1], ",")
			host = strings.TrimSpace(list[len(list)-1])
		}
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return ""
	}
	if ip = ip.Unmap(); ip.Is6() {
		p, _ := ip.Prefix(64)
		return p.String()
	}
	return ip.String()
}

// localHost says whether a Host header names this machine to itself.
func localHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// safeNext keeps a redirect on this site.
func safeNext(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(u.Path, "/") || strings.HasPrefix(next, "//") || strings.Contains(next, `\`) {
		return "/"
	}
	return u.RequestURI()
}
