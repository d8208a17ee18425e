// Package access says who may see what on the operators' listener: the guard in front of it, the log-in, the password.
package access

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
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

// Options say how the listener is reached, and by whom. All are required but Reader and Audit.
type Options struct {
	Credentials *Credentials
	Loopback    bool                    // the listener's address is one of this machine's own: nobody has to log in
	Proxy       bool                    // a proxy in front of the listener ends TLS and sets X-Forwarded-For
	Reader      func(token string) bool // says whether a token is that of a reader of a Mount
	Proven      func(context.Context)   // is told of each request that carried a session or a valid token
	ShowLogin   func(w http.ResponseWriter, status int, page LoginPage)
	Audit       *audit.Log
	Now         func() time.Time
	Log         *slog.Logger
}

// Guard decides who may look. On a loopback address everybody on the machine may, and nobody else reaches it;
// on any other address a password or a token is asked for, over TLS only.
type Guard struct {
	o Options

	slow     sync.Mutex // one argon2 at a time: 19 MiB each
	mu       sync.Mutex
	sessions map[string]*session
	attempts attempts
	rejected rejected
}

type session struct {
	began, seen time.Time
	password    string // the PHC string it was opened under: another password ends it
}

// NewGuard makes a guard without sessions.
func NewGuard(o Options) *Guard { return &Guard{o: o, sessions: map[string]*session{}} }

// Mount is a part of the operators' listener that decides itself who may read.
type Mount struct {
	Prefix  string // of its paths; ends with a slash
	Handler http.Handler
	// Reject answers what the listener does not let through.
	Reject func(w http.ResponseWriter, r *http.Request, status int, message string)
}

// Protect lets a request through to next, or sends it to the log-in.
func (g *Guard) Protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, message := g.reach(r)
		switch {
		case status != 0:
			http.Error(w, message, status)
		case g.o.Loopback, g.open(r):
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
func (g *Guard) reach(r *http.Request) (status int, message string) {
	scheme := r.Header.Get("X-Forwarded-Proto")
	switch {
	case !g.o.Proxy && forwarded(r.Header):
		return http.StatusForbidden, "This request came through a proxy, and the server was not started with --ops-proxy. " +
			"Start it with --ops-proxy, let the proxy set X-Forwarded-For, and set a password with: sluice console password. " +
			"See docs/operate.md, Console access."
	case g.o.Proxy && scheme != "" && !strings.EqualFold(scheme, "https"):
		return http.StatusForbidden, "This console is served over TLS only: the proxy was reached without it."
	case g.o.Loopback && !localHost(r.Host):
		// A page of the internet whose name was pointed at this machine would send its own name.
		return http.StatusMisdirectedRequest, "This console answers to localhost, 127.0.0.1 and [::1] only."
	case !g.o.Loopback && r.TLS == nil && !g.o.Proxy:
		return http.StatusForbidden, "This console is served over TLS only: see docs/operate.md, Console access."
	}
	return 0, ""
}

// forwarded says whether a proxy has passed the request on, as far as a proxy says so.
func forwarded(h http.Header) bool {
	for name := range h {
		switch name {
		case "Forwarded", "Via", "X-Real-Ip", "Cf-Connecting-Ip", "True-Client-Ip":
			return true
		}
		if strings.HasPrefix(name, "X-Forwarded-") {
			return true
		}
	}
	return false
}

// Mounted lets a request through to a part of the listener that knows its readers itself.
func (g *Guard) Mounted(m Mount) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status, message := g.reach(r); status != 0 {
			m.Reject(w, r, status, message)
			return
		}
		_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if token != "" && g.o.Reader != nil && g.o.Reader(strings.TrimSpace(token)) {
			g.o.Proven(r.Context())
		}
		m.Handler.ServeHTTP(w, r)
	})
}

// open says whether the request carries the token or a living session.
func (g *Guard) open(r *http.Request) bool {
	a, err := g.o.Credentials.read(r.Context())
	if err != nil {
		g.o.Log.Error("console access cannot be read", "error", err)
		return false
	}
	token, given := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if given && !tokenFits(a, token) || !given && g.session(r, a) == nil {
		return false
	}
	g.o.Proven(r.Context())
	return true
}

func (g *Guard) session(r *http.Request, a hashes) *session {
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
	now := g.o.Now()
	if now.Sub(s.began) > sessionAge || now.Sub(s.seen) > sessionIdle || s.password != a.Password {
		delete(g.sessions, cookie.Value)
		return nil
	}
	s.seen = now
	return s
}

// logIn holds a password against the stored one and opens a session. Call it for attempts that mayTry has allowed.
func (g *Guard) logIn(ctx context.Context, w http.ResponseWriter, who attempt, password string) bool {
	a, err := g.o.Credentials.read(ctx)
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
	if len(g.sessions) >= sessionsMax {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(g.sessions)), func(a, b string) int {
			return g.sessions[a].seen.Compare(g.sessions[b].seen)
		})
		delete(g.sessions, oldest)
	}
	g.sessions[id] = &session{began: g.o.Now(), seen: g.o.Now(), password: a.Password}
	g.mu.Unlock()
	http.SetCookie(w, &http.Cookie{
		Name: cookieName, Value: id, Path: "/", Secure: true, HttpOnly: true,
		SameSite: http.SameSiteStrictMode, MaxAge: int(sessionAge / time.Second),
	})
	setDevice(w, a)
	return true
}

// secretText is 256 random bits that fit into a cookie and a header.
func secretText() string {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails: crypto/rand ends the program instead
	return base64.RawURLEncoding.EncodeToString(secret)
}

func (g *Guard) logOut(w http.ResponseWriter, r *http.Request) {
	if cookie, err := r.Cookie(cookieName); err == nil {
		g.mu.Lock()
		_, had := g.sessions[cookie.Value]
		delete(g.sessions, cookie.Value)
		g.mu.Unlock()
		if had {
			g.note(r.Context(), "console.logout", g.Addr(r), nil)
		}
	}
	http.SetCookie(w, &http.Cookie{Name: cookieName, Path: "/", Secure: true, HttpOnly: true, MaxAge: -1})
}

// note writes the audit line.
func (g *Guard) note(ctx context.Context, action, addr string, detail map[string]string) bool {
	if g.o.Audit == nil {
		return true
	}
	entry := audit.Entry{Time: g.o.Now(), Actor: "console:" + cmp.Or(addr, "unknown"), Action: action, Detail: detail}
	err := g.o.Audit.Append(ctx, entry)
	if err != nil {
		g.o.Log.Error("audit", "action", action, "error", err)
	}
	return err == nil
}

// Addr is who asks: the last address a trusted proxy saw, or the peer. An IPv6 address counts as its /64.
func (g *Guard) Addr(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	if g.o.Proxy {
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
