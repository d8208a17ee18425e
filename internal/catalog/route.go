package catalog

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"sluice/internal/lake"
)

type handler func(c *Catalog, w http.ResponseWriter, r *http.Request, names []string) error

// route is a path of the protocol. Behind "{…}" stands any name.
type route struct {
	path    string
	methods map[string]handler
	writes  []string // methods of the protocol that this catalog does not support
}

// routes are the paths of the protocol, as its OpenAPI description names them, without the prefix, which is the name of
// the warehouse.
var routes = []route{
	{path: "v1/config", methods: map[string]handler{"GET": config}},
	{path: "v1/namespaces", methods: map[string]handler{"GET": namespaces}, writes: []string{"POST"}},
	{
		path: "v1/namespaces/{namespace}", methods: map[string]handler{"GET": loadNamespace, "HEAD": namespaceExists},
		writes: []string{"DELETE"},
	},
	{path: "v1/namespaces/{namespace}/properties", writes: []string{"POST"}},
	{path: "v1/namespaces/{namespace}/tables", methods: map[string]handler{"GET": tables}, writes: []string{"POST"}},
	{
		path: "v1/namespaces/{namespace}/tables/{table}", methods: map[string]handler{"GET": loadTable, "HEAD": tableExists},
		writes: []string{"POST", "DELETE"},
	},
	{path: "v1/namespaces/{namespace}/tables/{table}/metrics", methods: map[string]handler{"POST": metrics}},
	{path: "v1/namespaces/{namespace}/tables/{table}/credentials", writes: []string{"GET"}},
	{path: "v1/namespaces/{namespace}/tables/{table}/sign", writes: []string{"POST"}},
	{path: "v1/namespaces/{namespace}/tables/{table}/plan", writes: []string{"POST"}},
	{path: "v1/namespaces/{namespace}/tables/{table}/plan/{plan}", writes: []string{"GET", "DELETE"}},
	{path: "v1/namespaces/{namespace}/tables/{table}/tasks", writes: []string{"POST"}},
	{path: "v1/namespaces/{namespace}/tables/{table}/unregister", writes: []string{"POST"}},
	{path: "v1/namespaces/{namespace}/register", writes: []string{"POST"}},
	{path: "v1/namespaces/{namespace}/register-view", writes: []string{"POST"}},
	{path: "v1/namespaces/{namespace}/functions", writes: []string{"GET"}},
	{path: "v1/namespaces/{namespace}/functions/{function}", writes: []string{"GET"}},
	{path: "v1/namespaces/{namespace}/views", methods: map[string]handler{"GET": views}, writes: []string{"POST"}},
	{
		path: "v1/namespaces/{namespace}/views/{view}", methods: map[string]handler{"GET": loadView, "HEAD": viewExists},
		writes: []string{"POST", "DELETE"},
	},
	{path: "v1/tables/rename", writes: []string{"POST"}},
	{path: "v1/views/rename", writes: []string{"POST"}},
	{path: "v1/transactions/commit", writes: []string{"POST"}},
}

// endpoints is what the catalog tells clients that it answers. A client without this list assumes that it can write.
// Who reads the list has found the path of the configuration already.
func endpoints(routes []route) (out []string) {
	for _, r := range routes {
		below, ok := strings.CutPrefix(r.path, "v1/namespaces")
		if !ok {
			continue
		}
		for _, method := range slices.Sorted(maps.Keys(r.methods)) {
			out = append(out, method+" /v1/{prefix}/namespaces"+below)
		}
	}
	return out
}

// find returns the route of a path, and the names in it.
func find(parts []string) (*route, []string) {
	for i := range routes {
		if names, ok := routes[i].match(parts); ok {
			return &routes[i], names
		}
	}
	return nil, nil
}

func (r *route) match(parts []string) (names []string, ok bool) {
	pattern := strings.Split(r.path, "/")
	if len(pattern) != len(parts) {
		return nil, false
	}
	for i, p := range pattern {
		switch {
		case strings.HasPrefix(p, "{"):
			names = append(names, parts[i])
		case p != parts[i]:
			return nil, false
		}
	}
	return names, true
}

// reject says why a method has no handler.
func (r *route) reject(method string) *rejection {
	if slices.Contains(r.writes, method) {
		return reject(http.StatusNotAcceptable, "UnsupportedOperationException",
			"This catalog does not support the operation: it lists and loads tables, and changes nothing.")
	}
	e := reject(http.StatusMethodNotAllowed, "MethodNotAllowedException", "The path does not take this method.")
	e.allow = strings.Join(slices.Sorted(maps.Keys(r.methods)), ", ")
	return e
}

// parameter returns the value of a query parameter, "" where there is none. A query that cannot be read is an error:
// URL.Query leaves such parts out, and the answer would be another one than was asked for.
func parameter(r *http.Request, name string) (string, error) {
	v, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || len(v[name]) > 1 {
		return "", badRequest("The query of the address cannot be read, or has " + name + " more than once.")
	}
	return v.Get(name), nil
}

// config tells a client how to use the catalog. There is one warehouse, and a client may call it what it likes: Trino
// and Spark find the tables of a view only if the view says what they call the catalog.
func config(c *Catalog, w http.ResponseWriter, r *http.Request, _ []string) error {
	overrides := map[string]string{}
	name, err := parameter(r, "warehouse")
	if err != nil {
		return err
	}
	if name != "" {
		if !warehouseName.MatchString(name) {
			return badRequest("warehouse is a name of your own for the catalog: 1 to 64 letters, digits, _ and -. Or leave " +
				"it out.")
		}
		overrides["prefix"] = name
	}
	return writeJSON(w, r, http.StatusOK, struct {
		Defaults  map[string]string `json:"defaults"`
		Overrides map[string]string `json:"overrides"`
		Endpoints []string          `json:"endpoints"`
	}{map[string]string{}, overrides, c.endpoints})
}

// known says whether a name in a path is that of the namespace. The parts of a longer one are separated by the unit
// separator, and there is none.
func known(name string) error {
	if name != namespace {
		return reject(http.StatusNotFound, "NoSuchNamespaceException",
			"The namespace does not exist. There is one: "+namespace+".")
	}
	return nil
}

func namespaces(_ *Catalog, w http.ResponseWriter, r *http.Request, _ []string) error {
	list := [][]string{{namespace}}
	parent, err := parameter(r, "parent")
	if err != nil {
		return err
	}
	if parent != "" {
		if err := known(parent); err != nil {
			return err
		}
		list = [][]string{}
	}
	return writeJSON(w, r, http.StatusOK, map[string]any{"namespaces": list})
}

func loadNamespace(_ *Catalog, w http.ResponseWriter, r *http.Request, names []string) error {
	if err := known(names[0]); err != nil {
		return err
	}
	return writeJSON(w, r, http.StatusOK, struct {
		Namespace  []string          `json:"namespace"`
		Properties map[string]string `json:"properties"`
	}{[]string{namespace}, map[string]string{}})
}

func namespaceExists(_ *Catalog, w http.ResponseWriter, _ *http.Request, names []string) error {
	return noContent(w, known(names[0]))
}

// noContent says that all is well, or returns what is not.
func noContent(w http.ResponseWriter, err error) error {
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

func tables(_ *Catalog, w http.ResponseWriter, r *http.Request, names []string) error {
	if err := known(names[0]); err != nil {
		return err
	}
	return writeJSON(w, r, http.StatusOK, map[string]any{"identifiers": identifiers(lake.TableNames())})
}

type identifier struct {
	Namespace []string `json:"namespace"`
	Name      string   `json:"name"`
}

func identifiers(names []string) (out []identifier) {
	for _, name := range names {
		out = append(out, identifier{[]string{namespace}, name})
	}
	return out
}

// table returns the newest document of the table that a path names.
func (c *Catalog) table(r *http.Request, names []string) (*entry, error) {
	missing := reject(http.StatusNotFound, "NoSuchTableException", "The table does not exist. There are "+
		strings.Join(lake.TableNames(), ", ")+" in the namespace "+namespace+".")
	if known(names[0]) != nil {
		return nil, missing
	}
	e, err := c.documents.get(r.Context(), c.Tables, names[1])
	if errors.Is(err, lake.ErrNotFound) {
		return nil, missing
	}
	return e, err
}

// loadTable hands a table out. Which access to the files a client would like to be given is not looked at: it gets
// none.
func loadTable(c *Catalog, w http.ResponseWriter, r *http.Request, names []string) error {
	mode, err := parameter(r, "snapshots")
	if err != nil {
		return err
	}
	if mode != "" && mode != "all" && mode != "refs" {
		return badRequest("snapshots is all or refs.")
	}
	e, err := c.table(r, names)
	if err != nil {
		return err
	}
	a := e.all
	if mode == "refs" {
		a = e.refs
	}
	w.Header().Set("ETag", a.tag)
	w.Header().Set("Cache-Control", "private, no-cache") // it may be kept, and must be asked for anew
	if matches(r.Header.Values("If-None-Match"), a.tag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	return writeBytes(w, r, http.StatusOK, a.body)
}

// matches says whether one of the entity tags of an If-None-Match header is the given one.
func matches(headers []string, tag string) bool {
	for _, header := range headers {
		for one := range strings.SplitSeq(header, ",") {
			one = strings.TrimSpace(one)
			if one == "*" || strings.TrimPrefix(one, "W/") == tag {
				return true
			}
		}
	}
	return false
}

func tableExists(c *Catalog, w http.ResponseWriter, r *http.Request, names []string) error {
	_, err := c.table(r, names)
	return noContent(w, err)
}

// metrics takes a client's report of a scan, and keeps nothing of it.
func metrics(c *Catalog, w http.ResponseWriter, r *http.Request, names []string) error {
	if _, err := c.table(r, names); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, r.Body) // the listener bounds it
	w.WriteHeader(http.StatusNoContent)
	return nil
}
