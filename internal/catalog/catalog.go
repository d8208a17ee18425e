// Package catalog is a read-only Iceberg REST catalog: the namespace sluice with the tables of the lake and
// the measurement views over them.
//
// It answers the requests of the protocol that read, tells clients that it answers no others, and hands out table
// metadata. It gives nobody credentials for the files: a client reads those with its own.
package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"sluice/internal/dataset"
	"sluice/internal/lake"
)

// Prefix is where the catalog lies on its listener. Clients are given the address up to and with it.
const Prefix = "/iceberg/"

// namespace is the only one.
const namespace = "sluice"

// Tables is the lake, as far as the catalog knows it.
type Tables interface {
	Document(ctx context.Context, table string, known *lake.Document) (*lake.Document, error)
}

// Readers knows the tokens of readers.
type Readers interface {
	Authenticate(token string) (*dataset.Reader, error)
}

// Catalog answers the protocol. All members are required.
type Catalog struct {
	Tables  Tables
	Views   Views
	Readers Readers
	Open    bool // a request without a token is answered, too: the listener is reached from this machine alone
	Log     *slog.Logger

	documents documents
	endpoints []string
}

// Handler answers requests whose path begins with Prefix.
func (c *Catalog) Handler() http.Handler {
	c.endpoints = endpoints(routes)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := c.answer(w, r); err != nil {
			rejected, ok := errors.AsType[*rejection](err)
			if !ok {
				c.Log.Error("catalog", "path", r.URL.Path, "error", err)
				rejected = reject(http.StatusServiceUnavailable, "ServiceUnavailableException",
					"The table cannot be read now. Try again.")
			}
			rejected.write(w, r)
		}
	})
}

// answer writes an answer, or returns why there is none.
func (c *Catalog) answer(w http.ResponseWriter, r *http.Request) error {
	parts, err := split(r.URL.EscapedPath())
	if err != nil {
		return err
	}
	if len(parts) == 3 && parts[1] == "oauth" && parts[2] == "tokens" {
		return c.token(w, r)
	}
	if err := c.admit(r); err != nil {
		return err
	}
	parts, prefix := warehouse(parts)
	r.SetPathValue("warehouse", prefix)
	route, names := find(parts)
	if route == nil {
		return reject(http.StatusNotFound, "NotFoundException", "The catalog has no such path.")
	}
	handle := route.methods[r.Method]
	if handle == nil {
		return route.reject(r.Method)
	}
	return handle(c, w, r, names)
}

// split takes a path apart at its slashes, before anything in it is decoded: a name may hold an encoded slash.
func split(path string) ([]string, error) {
	path = strings.TrimSuffix(strings.TrimPrefix(path, Prefix), "/")
	parts := strings.Split(path, "/")
	for i := range parts {
		part, err := url.PathUnescape(parts[i])
		if err != nil {
			return nil, badRequest("The path is not encoded correctly.")
		}
		parts[i] = part
	}
	return parts, nil
}

// noToken is what PyIceberg, and whatever is built on it, sends as a token when it was given none.
const noToken = "None"

// howToAdmit ends the message of a 401.
const howToAdmit = "Send the token of a reader: Authorization: Bearer TOKEN. An operator makes one with: sluice " +
	"reader create NAME --allow catalog"

// admit says whether the request may be answered. A token that is sent is looked at, also where none is needed.
func (c *Catalog) admit(r *http.Request) error {
	header := r.Header.Get("Authorization")
	scheme, token, _ := strings.Cut(header, " ")
	token = strings.TrimSpace(token)
	bearer := strings.EqualFold(scheme, "Bearer")
	none := header == "" || bearer && token == noToken
	switch {
	case none && c.Open:
		return nil
	case none || !bearer:
		return reject(http.StatusUnauthorized, "NotAuthorizedException", howToAdmit)
	}
	reader, err := c.Readers.Authenticate(token)
	if err != nil {
		say := "The token is not valid, or it was revoked. "
		if c.Open {
			say += "From this machine the catalog needs none: send none. Or: "
		}
		return reject(http.StatusUnauthorized, "NotAuthorizedException", say+howToAdmit)
	}
	return permit(reader)
}

func badRequest(message string) *rejection {
	return reject(http.StatusBadRequest, "BadRequestException", message)
}

// permit says whether a reader may use the catalog.
func permit(reader *dataset.Reader) error {
	switch {
	case !reader.Allowed(dataset.AllowCatalog):
		return reject(http.StatusForbidden, "ForbiddenException", "This reader is not allowed the catalog.")
	case reader.DatasetID != "":
		return reject(http.StatusForbidden, "ForbiddenException",
			"This reader is bound to one dataset. The tables hold the events of every dataset, so it may not use the "+
				"catalog; it may use the feed.")
	}
	return nil
}

// rejection is an error as clients get it.
type rejection struct {
	status  int
	kind    string // as the reference implementation names its exceptions: clients branch on it
	message string
	allow   string // for 405
}

func reject(status int, kind, message string) *rejection {
	return &rejection{status: status, kind: kind, message: message}
}

func (e *rejection) Error() string { return e.kind + ": " + e.message }

func (e *rejection) write(w http.ResponseWriter, r *http.Request) {
	switch e.status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="sluice"`)
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", e.allow)
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	}
	type body struct {
		Message string `json:"message"`
		Type    string `json:"type"`
		Code    int    `json:"code"`
	}
	_ = writeJSON(w, r, e.status, map[string]body{"error": {e.message, e.kind, e.status}})
}

// Reject answers a request that the listener does not let through to the catalog.
func Reject(w http.ResponseWriter, r *http.Request, status int, message string) {
	reject(status, "ForbiddenException", message).write(w, r)
}

func writeJSON(w http.ResponseWriter, r *http.Request, status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return writeBytes(w, r, status, b)
}

// writeBytes writes JSON. A client that went away gets nothing.
func writeBytes(w http.ResponseWriter, r *http.Request, status int, b []byte) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(b)
	}
	return nil
}
