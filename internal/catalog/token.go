package catalog

import (
	"net/http"

	"sluice/internal/dataset"
)

// tokenAge is the life of an access token as clients read it: they come back then, and learn that it was revoked.
const tokenAge = 3600

// tokenBody is how large a request for a token may be. Arbitrary: it has some hundred bytes, and comes from strangers.
const tokenBody = 4 << 10

// token answers the OAuth2 client credentials flow. The client's secret is a reader's token, and so is the access
// token: the server keeps nothing, and a revoked reader is out at once. A client may also exchange the token for
// itself, which is how some renew it.
func (c *Catalog) token(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		return (&route{methods: map[string]handler{"POST": nil}}).reject(r.Method)
	}
	r.Body = http.MaxBytesReader(w, r.Body, tokenBody)
	if err := r.ParseForm(); err != nil {
		return oauthError(w, r, http.StatusBadRequest, "invalid_request", "The body is not a form.")
	}
	name, secret := r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
	switch r.PostForm.Get("grant_type") {
	case "client_credentials":
		if user, password, ok := r.BasicAuth(); ok {
			name, secret = user, password
		}
	case "urn:ietf:params:oauth:grant-type:token-exchange":
		name, secret = "", r.PostForm.Get("subject_token")
	default:
		return oauthError(w, r, http.StatusBadRequest, "unsupported_grant_type", "grant_type is client_credentials.")
	}
	reader, err := c.Readers.Authenticate(secret)
	if err != nil || name != "" && name != reader.Name {
		return oauthError(w, r, http.StatusUnauthorized, "invalid_client",
			"client_id is the name of a reader, client_secret its token. They do not match, or the reader was revoked.")
	}
	if err := permit(reader); err != nil {
		return oauthError(w, r, http.StatusBadRequest, "unauthorized_client", err.(*rejection).message)
	}
	return writeJSON(w, r, http.StatusOK, struct {
		AccessToken string `json:"access_token"`
		TokenType   string `json:"token_type"`
		ExpiresIn   int    `json:"expires_in"`
		IssuedType  string `json:"issued_token_type"`
		Scope       string `json:"scope"`
	}{secret, "bearer", tokenAge, "urn:ietf:params:oauth:token-type:access_token", dataset.AllowCatalog})
}

// oauthError writes an error as OAuth2 spells it.
func oauthError(w http.ResponseWriter, r *http.Request, status int, code, description string) error {
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Basic realm="sluice"`)
	}
	return writeJSON(w, r, status, map[string]string{"error": code, "error_description": description})
}
