package console

import (
	"bytes"
	"net/http"
	"time"

	"sluice/internal/access"
)

// frame is what the layout needs around any page.
type frame struct {
	Title   string
	Build   string // changes with the static files, so that a browser keeps them for as long as it likes
	Refresh int    // seconds until the page asks again; 0 means never
	Now     time.Time
	Version string
	User    bool // somebody is logged in
	Nav     []link
	Body    any
}

type link struct {
	Name, Path, Icon string
	Current          bool
}

// option is a choice of a form.
type option struct {
	ID      string
	Current bool
}

var navigation = []link{
	{"Overview", "/", "home", false},
	{"Datasets", "/datasets", "stack", false},
	{"Campaigns", "/campaigns", "flag", false},
	{"Diagnosis", "/diagnosis", "pulse", false},
	{"Requests", "/requests", "list", false},
	{"Look-up", "/lookup", "search", false},
	{"Live", "/live", "live", false},
	{"Try", "/try", "beaker", false},
	{"System", "/system", "gauge", false},
}

// refreshEvery is how often a page asks again, in seconds: the numbers themselves move when the loader commits.
const refreshEvery = 3

// show renders a page in the layout.
func (c *Console) show(w http.ResponseWriter, status int, name, title, active string, refresh int, body any) {
	f := frame{
		Title: title, Build: c.build, Refresh: refresh, Now: c.now(), Version: c.s.Version, User: !c.o.Loopback, Body: body,
	}
	for _, l := range navigation {
		l.Current = l.Path == active
		f.Nav = append(f.Nav, l)
	}
	c.render(w, status, name, "layout", f)
}

// render makes a page whole before the first byte goes out, so that a fault is a 500 and not half a page.
func (c *Console) render(w http.ResponseWriter, status int, page, template string, data any) {
	var b bytes.Buffer
	if err := pages[page].ExecuteTemplate(&b, template, data); err != nil {
		c.s.Log.Error("console page", "page", page, "error", err)
		http.Error(w, "This page cannot be shown; the log says why.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}

// showLogin shows the log-in form. It has no layout around it: nobody is logged in.
func (c *Console) showLogin(w http.ResponseWriter, status int, p access.LoginPage) {
	c.render(w, status, "login", "login", struct {
		access.LoginPage
		Build, DataDir string
	}{p, c.build, c.s.DataDir})
}

// message is a page that says one thing.
type message struct{ Title, Say, Path string }

var noDataset = message{
	"No such dataset",
	"There is no dataset by this id. Datasets are made with: sluice dataset create ID", "/datasets",
}

// missing says that there is nothing at an address.
func (c *Console) missing(w http.ResponseWriter, m message) {
	c.show(w, http.StatusNotFound, "message", m.Title, "", 0, m)
}

// headers are those of every answer. No script, style, font or picture but our own; nothing inline; nobody frames us.
func headers(next http.Handler) http.Handler {
	const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; " +
		"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}
