package console

import (
	"net/http"

	"sluice/internal/access"
)

// showLogin shows the log-in form. It has no layout around it: nobody is logged in.
func (c *Console) showLogin(w http.ResponseWriter, status int, p access.LoginPage) {
	c.render(w, status, "login", "login", struct {
		access.LoginPage
		Build, DataDir string
	}{p, c.build, c.s.DataDir})
}
