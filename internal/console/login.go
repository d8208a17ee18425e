package console

import (
	"bytes"
	"net/http"

	"sluice/internal/access"
)

// showLogin shows the log-in form. It has no layout around it: nobody is logged in.
func (c *Console) showLogin(w http.ResponseWriter, status int, p access.LoginPage) {
	var b bytes.Buffer
	body := struct {
		access.LoginPage
		Build, DataDir string
	}{p, c.build, c.s.DataDir}
	if err := pages["login"].ExecuteTemplate(&b, "login", body); err != nil {
		c.log.Error("console page", "page", "login", "error", err)
		http.Error(w, "This page cannot be shown; the log says why.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}
