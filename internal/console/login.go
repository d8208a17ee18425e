package console

import (
	"bytes"
	"net/http"
)

type loginPage struct {
	Build, Problem, Next, DataDir string
	Unset                         bool
}

func (c *Console) loginPage(w http.ResponseWriter, r *http.Request) {
	if c.guard.loopback {
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	c.showLogin(w, r, http.StatusOK, loginPage{Next: safeNext(r.URL.Query().Get("next"))})
}

func (c *Console) showLogin(w http.ResponseWriter, r *http.Request, status int, p loginPage) {
	a, err := c.guard.access.read(r.Context())
	p.Build, p.DataDir, p.Unset = c.build, c.s.DataDir, err == nil && a.Password == ""
	var b bytes.Buffer
	if err := pages["login"].ExecuteTemplate(&b, "login", p); err != nil {
		c.log.Error("console page", "page", "login", "error", err)
		http.Error(w, "This page cannot be shown; the log says why.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}

func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	if !c.guard.loopback && r.TLS == nil && !c.guard.proxy {
		http.Error(w, "This console is served over TLS only: see docs/operate.md, Console access.", http.StatusForbidden)
		return
	}
	next := safeNext(r.PostFormValue("next"))
	ok, wait := c.guard.logIn(w, r)
	switch {
	case ok:
		http.Redirect(w, r, next, http.StatusSeeOther)
	case wait:
		w.Header().Set("Retry-After", "60")
		c.showLogin(w, r, http.StatusTooManyRequests, loginPage{Problem: "Too many attempts. Wait a minute.", Next: next})
	default:
		c.showLogin(w, r, http.StatusForbidden, loginPage{Problem: "This is not the password.", Next: next})
	}
}

func (c *Console) logout(w http.ResponseWriter, r *http.Request) {
	c.guard.logOut(w, r)
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}
