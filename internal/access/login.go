package access

import (
	"net/http"
	"net/url"
	"strings"
)

// LoginPage is what the page with the log-in form shows.
type LoginPage struct {
	Problem string // why the form is shown again; "" the first time
	Next    string // where to go after the log-in
	Unset   bool   // no password is set, so that nobody can log in
}

// HandleLogin adds the log-in. On loopback there is none: nobody has to log in, so nobody can.
func (g *Guard) HandleLogin(mux *http.ServeMux) {
	if g.o.Loopback {
		mux.Handle("/login", http.NotFoundHandler())
		mux.Handle("/logout", http.NotFoundHandler())
		return
	}
	mux.Handle("GET /login", g.reached(g.loginPage))
	mux.Handle("POST /login", g.reached(g.login))
	mux.Handle("POST /logout", g.reached(g.logout))
}

// reached lets a request through to a page that needs no log-in.
func (g *Guard) reached(page http.HandlerFunc) http.Handler {
	reject := func(w http.ResponseWriter, _ *http.Request, status int, message string) {
		http.Error(w, message, status)
	}
	return g.Mounted(Mount{Handler: page, Reject: reject})
}

func (g *Guard) loginPage(w http.ResponseWriter, r *http.Request) {
	g.showLogin(w, r, http.StatusOK, "", r.URL.Query().Get("next"))
}

func (g *Guard) showLogin(w http.ResponseWriter, r *http.Request, status int, problem, next string) {
	h, err := g.o.Credentials.read(r.Context())
	g.o.ShowLogin(w, status, LoginPage{Problem: problem, Next: safeNext(next), Unset: err == nil && h.Password == ""})
}

// login counts the attempt before it reads the form: what is over the limit costs nothing.
func (g *Guard) login(w http.ResponseWriter, r *http.Request) {
	who := g.who(r)
	if !g.mayTry(who) {
		g.reject(r.Context(), who.addr, true)
		w.Header().Set("Retry-After", "60")
		w.Header().Set("Connection", "close")        // the form is not read
		g.o.ShowLogin(w, http.StatusTooManyRequests, // no question to the engine for one who is over the limit
			LoginPage{Problem: "Too many attempts. Wait a minute.", Next: safeNext(r.URL.Query().Get("next"))})
		return
	}
	if err := r.ParseForm(); err != nil {
		w.Header().Set("Connection", "close")
		http.Error(w, "The log-in form is not complete.", http.StatusBadRequest)
		return
	}
	next := safeNext(r.PostFormValue("next"))
	if !g.logIn(r.Context(), w, who, r.PostFormValue("password")) {
		g.showLogin(w, r, http.StatusForbidden, "This is not the password.", next)
		return
	}
	http.Redirect(w, r, next, http.StatusSeeOther)
}

func (g *Guard) logout(w http.ResponseWriter, r *http.Request) {
	g.logOut(w, r)
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

// safeNext keeps a redirect on this site.
func safeNext(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(u.Path, "/") ||
		strings.HasPrefix(next, "//") || strings.Contains(next, `\`) {
		return "/"
	}
	return u.RequestURI()
}
