package console

import (
	"bytes"
	"net/http"
)

type loginPage struct {
	Build, Problem, Next, DataDir string
	Unset                         bool
}

// mountLogin adds the log-in. On loopback there is none: nobody has to log in, so nobody can.
func (c *Console) mountLogin(mux *http.ServeMux) {
	if c.guard.loopback {
		mux.Handle("/login", http.NotFoundHandler())
		mux.Handle("/logout", http.NotFoundHandler())
		return
	}
	mux.Handle("GET /login", c.guard.reached(c.loginPage))
	mux.Handle("POST /login", c.guard.reached(c.login))
	mux.Handle("POST /logout", c.guard.reached(c.logout))
}

func (c *Console) loginPage(w http.ResponseWriter, r *http.Request) {
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

// login counts the attempt before it reads the form: what is over the limit costs nothing.
func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	who := c.guard.who(r)
	if !c.guard.mayTry(who) {
		c.guard.reject(r.Context(), who.addr, true)
		w.Header().Set("Retry-After", "60")
		w.Header().Set("Connection", "close") // the form is not read
		c.showLogin(w, r, http.StatusTooManyRequests, loginPage{Problem: "Too many attempts. Wait a minute.", Next: safeNext(r.URL.Query().Get("next"))})
		return
	}
	if err := r.ParseForm(); err != nil {
		w.Header().Set("Connection", "close")
		http.Error(w, "The log-in form is not complete.", http.StatusBadRequest)
		return
	}
	next := safeNext(r.PostFormValue("next"))
	if !c.guard.logIn(r.Context(), w, who, r.PostFormValue("password")) {
		c.showLogin(w, r, http.StatusForbidden, loginPage{Problem: "This is not the password.", Next: next})
		return
	}
	http.Redirect(w, r, next, http.StatusSeeOther)
}

func (c *Console) logout(w http.ResponseWriter, r *http.Request) {
	c.guard.logOut(w, r)
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}
