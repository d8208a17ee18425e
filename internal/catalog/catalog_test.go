package catalog

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/event"
	"sluice/internal/dataset"
	"sluice/internal/lake"
	"sluice/internal/measure"
	"sluice/internal/submission"
)

var now = time.Date(2026, 11, 14, 12, 0, 0, 0, time.UTC)

// tokens are readers by their tokens.
type tokens map[string]*dataset.Reader

func (t tokens) Authenticate(token string) (*dataset.Reader, error) {
	if r := t[token]; r != nil {
		return r, nil
	}
	return nil, dataset.ErrToken
}

var readers = tokens{
	"both":  {Name: "both", Allow: []string{"catalog", "feed"}},
	"feed":  {Name: "feed", Allow: []string{"feed"}},
	"bound": {Name: "bound", Allow: []string{"catalog", "feed"}, DatasetID: "shop"},
}

// site is a catalog over a real lake.
type site struct {
	t    *testing.T
	lake *lake.Lake
	*Catalog
	seq uint64
}

func openSite(t *testing.T, open bool) *site {
	t.Helper()
	at := now
	l, err := lake.OpenDir(t.Context(), t.TempDir(), lake.Options{Now: func() time.Time { at = at.Add(time.Second); return at }})
	if err != nil {
		t.Fatal(err)
	}
	return &site{t: t, lake: l, Catalog: &Catalog{Tables: l, Views: defaults{}, Readers: readers, Open: open, Log: slog.New(slog.DiscardHandler)}}
}

func (s *site) commit() {
	s.t.Helper()
	s.seq++
	row := event.Row{
		EventID: submission.EventID(submission.NewBase(now), 0), SubmissionID: "single.x", ReceivedAt: now.Unix(), DatasetID: "shop",
		EventTime: now.Unix(), EventType: "purchase", SchemaVersion: "1.0",
	}
	marks := lake.Watermarks{Events: s.seq - 1, Rejections: s.seq - 1, Hours: s.seq - 1}
	if err := s.lake.Commit(context.Background(), lake.Batch{Spans: []lake.Span{{From: marks, To: s.seq}}, Events: []event.Row{row}}, 0); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) ask(method, path, token string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	s.t.Helper()
	r := httptest.NewRequest(method, "http://127.0.0.1"+path, nil)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

func decode[T any](t *testing.T, w *httptest.ResponseRecorder) (v T) {
	t.Helper()
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("content type: got %q", got)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	return v
}

// Every path of the protocol is answered with the status that its description has for it, and every error has its form.
func TestPaths(t *testing.T) {
	s := openSite(t, true)
	s.commit()
	for request, want := range map[string]int{
		"GET v1/config":                                          200,
		"GET v1/config?warehouse=anything":                       200,
		"GET v1/namespaces":                                      200,
		"GET v1/namespaces?parent=":                              200,
		"GET v1/namespaces?parent=sluice":                        200,
		"GET v1/namespaces?parent=other":                         404,
		"GET v1/namespaces?pageSize=1&pageToken=":                200,
		"GET v1/namespaces/sluice":                               200,
		"HEAD v1/namespaces/sluice":                              204,
		"GET v1/namespaces/other":                                404,
		"HEAD v1/namespaces/other":                               404,
		"GET v1/namespaces/sluice%1Fevents":                      404,
		"GET v1/namespaces/sluice/tables":                        200,
		"GET v1/namespaces/other/tables":                         404,
		"GET v1/namespaces/sluice/tables/events":                 200,
		"GET v1/namespaces/sluice/tables/rejections":             200,
		"GET v1/namespaces/sluice/tables/hours":                  200,
		"GET v1/namespaces/sluice/tables/days":                   200,
		"HEAD v1/namespaces/sluice/tables/events":                204,
		"HEAD v1/namespaces/sluice/tables/nothing":               404,
		"GET v1/namespaces/sluice/tables/nothing":                404,
		"GET v1/namespaces/other/tables/events":                  404,
		"GET v1/namespaces/sluice/tables/..%2Fevents":            404,
		"GET v1/namespaces/sluice/tables/events?snapshots=":      200,
		"GET v1/namespaces/sluice/tables/events?snapshots=all":   200,
		"GET v1/namespaces/sluice/tables/events?snapshots=refs":  200,
		"GET v1/namespaces/sluice/tables/events?snapshots=some":  400,
		"POST v1/namespaces/sluice/tables/events/metrics":        204,
		"POST v1/namespaces/sluice/tables/nothing/metrics":       404,
		"GET v1/namespaces/sluice/tables/events/metrics":         405,
		"POST v1/namespaces":                                     406,
		"DELETE v1/namespaces/sluice":                            406,
		"POST v1/namespaces/sluice/properties":                   406,
		"POST v1/namespaces/sluice/tables":                       406,
		"POST v1/namespaces/sluice/tables/events":                406,
		"DELETE v1/namespaces/sluice/tables/events":              406,
		"GET v1/namespaces/sluice/tables/events/credentials":     406,
		"POST v1/namespaces/sluice/tables/events/plan":           406,
		"POST v1/namespaces/sluice/register":                     406,
		"GET v1/namespaces/sluice/views":                         200,
		"GET v1/namespaces/other/views":                          404,
		"POST v1/namespaces/sluice/views":                        406,
		"GET v1/namespaces/sluice/views/events":                  404,
		"HEAD v1/namespaces/sluice/views/events":                 404,
		"GET v1/namespaces/sluice/views/campaign_days":           200,
		"HEAD v1/namespaces/sluice/views/campaign_days":          204,
		"HEAD v1/namespaces/other/views/campaign_days":           404,
		"DELETE v1/namespaces/sluice/views/campaign_days":        406,
		"GET v1/config?warehouse=not%20a%20name":                 400,
		"GET v1/config?warehouse=%zz":                            400,
		"GET v1/config?warehouse=one&warehouse=two":              400,
		"GET v1/namespaces?parent=other;":                        400,
		"GET v1/namespaces/sluice/tables/events?snapshots=refs%": 400,
		"GET v1/my_lake-1/namespaces/sluice/tables/events":       200,
		"HEAD v1/my_lake-1/namespaces/sluice/views/conversions":  204,
		"GET v1/my_lake-1/namespaces/sluice/views":               200,
		"GET v1/not%20a%20name/namespaces":                       404,
		"POST v1/tables/rename":                                  406,
		"POST v1/transactions/commit":                            406,
		"PUT v1/namespaces":                                      405,
		"PATCH v1/namespaces/sluice/tables/events":               405,
		"GET v1/oauth/tokens":                                    405,
		"POST v1/config":                                         405,
		"GET v1":                                                 404,
		"GET v2/config":                                          404,
		"GET v1/sluice/namespaces":                               200,
		"GET v1/sluice/nothing":                                  404,
		"GET ":                                                   404,
	} {
		method, path, _ := strings.Cut(request, " ")
		w := s.ask(method, Prefix+path, "")
		if w.Code != want {
			t.Errorf("%s: got %d, want %d: %s", request, w.Code, want, w.Body)
		}
		if w.Code == 405 && w.Header().Get("Allow") == "" {
			t.Errorf("%s: 405 without Allow", request)
		}
		if w.Code < 400 || method == "HEAD" {
			continue
		}
		got := decode[struct {
			Error struct {
				Message, Type string
				Code          int
			}
		}](t, w).Error
		if got.Code != want || got.Message == "" || !strings.HasSuffix(got.Type, "Exception") {
			t.Errorf("%s: got error %+v", request, got)
		}
	}
}

// What the catalog announces it answers, and it answers nothing else. A client that gets no list assumes that it can write.
func TestConfig(t *testing.T) {
	s := openSite(t, true)
	got := decode[map[string]json.RawMessage](t, s.ask("GET", "/iceberg/v1/config?warehouse=sluice", ""))
	for name, want := range map[string]string{"defaults": "{}", "overrides": `{"prefix":"sluice"}`} {
		if string(got[name]) != want {
			t.Errorf("%s: got %s, want %s", name, got[name], want)
		}
	}
	if got := decode[map[string]json.RawMessage](t, s.ask("GET", "/iceberg/v1/config", ""))["overrides"]; string(got) != "{}" {
		t.Errorf("without a warehouse: got %s", got)
	}
	var listed []string
	if err := json.Unmarshal(got["endpoints"], &listed); err != nil {
		t.Fatal(err)
	}
	names := strings.NewReplacer("{prefix}/", "", "{namespace}", namespace, "{table}", "events", "{view}", "touches")
	var answered []string
	for _, r := range routes {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"} {
			w := s.ask(method, Prefix+names.Replace(r.path), "")
			if w.Code < 300 && r.path != "v1/config" {
				answered = append(answered, method+" "+strings.Replace("/"+r.path, "/v1/", "/v1/{prefix}/", 1))
			}
		}
	}
	slices.Sort(listed)
	slices.Sort(answered)
	if len(listed) == 0 || !slices.Equal(listed, answered) {
		t.Errorf("listed   %v\nanswered %v", listed, answered)
	}
}

func TestLists(t *testing.T) {
	s := openSite(t, true)
	if got, want := s.ask("GET", "/iceberg/v1/namespaces", "").Body.String(), `{"namespaces":[["sluice"]]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := s.ask("GET", "/iceberg/v1/namespaces?parent=sluice", "").Body.String(), `{"namespaces":[]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := s.ask("GET", "/iceberg/v1/namespaces/sluice", "").Body.String(), `{"namespace":["sluice"],"properties":{}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	want := `{"identifiers":[{"namespace":["sluice"],"name":"events"},{"namespace":["sluice"],"name":"rejections"},{"namespace":["sluice"],"name":"hours"},{"namespace":["sluice"],"name":"days"}]}`
	if got := s.ask("GET", "/iceberg/v1/namespaces/sluice/tables", "").Body.String(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

type loaded struct {
	Location string            `json:"metadata-location"`
	Config   map[string]string `json:"config"`
	Metadata struct {
		UUID      string `json:"table-uuid"`
		Current   int64  `json:"current-snapshot-id"`
		Snapshots []struct {
			ID int64 `json:"snapshot-id"`
		} `json:"snapshots"`
		Log []json.RawMessage `json:"snapshot-log"`
	} `json:"metadata"`
}

func TestLoadTable(t *testing.T) {
	s := openSite(t, true)
	const path = "/iceberg/v1/namespaces/sluice/tables/events"
	before := s.ask("GET", path, "")
	if got := decode[loaded](t, before); got.Metadata.Current != 0 || len(got.Metadata.Snapshots) != 0 {
		t.Errorf("an empty table: got %+v", got)
	}
	for range 3 {
		s.commit()
	}
	// A client may ask for credentials; it gets none, and the table.
	w := s.ask("GET", path, "", func(r *http.Request) {
		r.Header.Set("X-Iceberg-Access-Delegation", "vended-credentials,remote-signing")
	})
	all := decode[loaded](t, w)
	if len(all.Metadata.Snapshots) != 3 || all.Metadata.UUID == "" || !strings.HasSuffix(all.Location, ".metadata.json") {
		t.Errorf("got %+v", all)
	}
	if all.Config == nil || len(all.Config) != 0 {
		t.Errorf("config: got %v, want an empty object", all.Config)
	}
	refs := decode[loaded](t, s.ask("GET", path+"?snapshots=refs", ""))
	if len(refs.Metadata.Snapshots) != 1 || refs.Metadata.Snapshots[0].ID != all.Metadata.Current || len(refs.Metadata.Log) != 1 || refs.Metadata.Current != all.Metadata.Current {
		t.Errorf("refs: got %+v, want the current snapshot alone", refs)
	}
	tag := w.Header().Get("ETag")
	if tag == "" || tag == before.Header().Get("ETag") || tag == s.ask("GET", path+"?snapshots=refs", "").Header().Get("ETag") {
		t.Errorf("entity tag %q: want one of its own for each version and form", tag)
	}
	for header, want := range map[string]int{tag: 304, "W/" + tag: 304, `"other", ` + tag: 304, "*": 304, `"other"`: 200, before.Header().Get("ETag"): 200} {
		got := s.ask("GET", path, "", func(r *http.Request) { r.Header.Set("If-None-Match", header) })
		if got.Code != want || want == 304 && (got.Body.Len() > 0 || got.Header().Get("ETag") != tag) {
			t.Errorf("If-None-Match %s: got %d, want %d", header, got.Code, want)
		}
	}
	s.commit()
	if got := s.ask("GET", path, "", func(r *http.Request) { r.Header.Set("If-None-Match", tag) }); got.Code != 200 {
		t.Errorf("after a commit: got %d, want the new version", got.Code)
	}
}

func TestAccess(t *testing.T) {
	open, closed := openSite(t, true), openSite(t, false)
	const path = "/iceberg/v1/namespaces/sluice/tables/events"
	for name, c := range map[string]struct {
		site  *site
		token string
		want  int
	}{
		"loopback, nobody":                {open, "", 200},
		"loopback, a reader":              {open, "both", 200},
		"loopback, PyIceberg's None":      {open, "None", 200},
		"loopback, a wrong token":         {open, "sluice_key", 401},
		"loopback, a word":                {open, "none", 401},
		"loopback, a reader of the feed":  {open, "feed", 403},
		"loopback, bound to a dataset":    {open, "bound", 403},
		"elsewhere, nobody":               {closed, "", 401},
		"elsewhere, PyIceberg's None":     {closed, "None", 401},
		"elsewhere, a reader":             {closed, "both", 200},
		"elsewhere, a wrong token":        {closed, "sluice_key", 401},
		"elsewhere, a reader of the feed": {closed, "feed", 403},
		"elsewhere, bound to one dataset": {closed, "bound", 403},
	} {
		t.Run(name, func(t *testing.T) {
			for _, p := range []string{path, "/iceberg/v1/config", "/iceberg/v1/namespaces"} {
				w := c.site.ask("GET", p, c.token)
				if w.Code != c.want {
					t.Errorf("%s: got %d, want %d: %s", p, w.Code, c.want, w.Body)
				}
				if c.want == 401 && w.Header().Get("WWW-Authenticate") == "" {
					t.Error("401 without WWW-Authenticate")
				}
				if c.want == 401 && !strings.Contains(w.Body.String(), "sluice reader create") {
					t.Errorf("401 does not say what to do: %s", w.Body)
				}
				if c.token == "bound" && !strings.Contains(w.Body.String(), "every dataset") {
					t.Errorf("the reason is not said: %s", w.Body)
				}
			}
		})
	}
	if w := closed.ask("GET", path, "", func(r *http.Request) { r.SetBasicAuth("both", "both") }); w.Code != 401 {
		t.Errorf("basic: got %d, want 401", w.Code)
	}
}

// The flows that clients use end with the reader's own token; every other is rejected as OAuth2 spells it.
func TestTokens(t *testing.T) {
	s := openSite(t, false)
	form := func(pairs ...string) url.Values {
		v := url.Values{}
		for i := 0; i < len(pairs); i += 2 {
			v.Set(pairs[i], pairs[i+1])
		}
		return v
	}
	const exchange = "urn:ietf:params:oauth:grant-type:token-exchange"
	for name, c := range map[string]struct {
		form  url.Values
		basic [2]string
		want  int
		code  string
	}{
		"name and token":  {form("grant_type", "client_credentials", "client_id", "both", "client_secret", "both", "scope", "catalog"), [2]string{}, 200, ""},
		"token alone":     {form("grant_type", "client_credentials", "client_secret", "both"), [2]string{}, 200, ""},
		"in the header":   {form("grant_type", "client_credentials"), [2]string{"both", "both"}, 200, ""},
		"renewed":         {form("grant_type", exchange, "subject_token", "both", "subject_token_type", "x"), [2]string{}, 200, ""},
		"another name":    {form("grant_type", "client_credentials", "client_id", "feed", "client_secret", "both"), [2]string{}, 401, "invalid_client"},
		"a wrong token":   {form("grant_type", "client_credentials", "client_id", "both", "client_secret", "x"), [2]string{}, 401, "invalid_client"},
		"nothing":         {form("grant_type", "client_credentials"), [2]string{}, 401, "invalid_client"},
		"another flow":    {form("grant_type", "password", "username", "both", "password", "both"), [2]string{}, 400, "unsupported_grant_type"},
		"not the catalog": {form("grant_type", "client_credentials", "client_id", "feed", "client_secret", "feed"), [2]string{}, 400, "unauthorized_client"},
		"bound to one":    {form("grant_type", "client_credentials", "client_id", "bound", "client_secret", "bound"), [2]string{}, 400, "unauthorized_client"},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest("POST", "http://127.0.0.1/iceberg/v1/oauth/tokens", strings.NewReader(c.form.Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			if c.basic[0] != "" {
				r.SetBasicAuth(c.basic[0], c.basic[1])
			}
			w := httptest.NewRecorder()
			s.Handler().ServeHTTP(w, r)
			got := decode[struct {
				AccessToken string `json:"access_token"`
				TokenType   string `json:"token_type"`
				Error       string `json:"error"`
			}](t, w)
			if w.Code != c.want || got.Error != c.code {
				t.Fatalf("got %d %s, want %d %s", w.Code, w.Body, c.want, c.code)
			}
			if c.want == 200 && (got.TokenType != "bearer" || s.ask("GET", "/iceberg/v1/config", got.AccessToken).Code != 200) {
				t.Errorf("the token opens nothing: %s", w.Body)
			}
		})
	}
}

// defaults are the settings of an operator who saved none.
type defaults struct{}

func (defaults) Settings(context.Context) (measure.Settings, error) { return measure.Defaults(), nil }

// A view has its statement in two dialects, a type for each column, and the name that the client has for the catalog.
func TestViews(t *testing.T) {
	s := openSite(t, true)
	s.commit()
	type field struct {
		ID   int    `json:"id"`
		Name string `json:"name"`
		Type any    `json:"type"`
		Doc  string `json:"doc"`
	}
	type view struct {
		Metadata struct {
			ID       string `json:"view-uuid"`
			Format   int    `json:"format-version"`
			Location string `json:"location"`
			Current  int    `json:"current-version-id"`
			Versions []struct {
				ID        int      `json:"version-id"`
				Catalog   string   `json:"default-catalog"`
				Namespace []string `json:"default-namespace"`
				Texts     []struct {
					Type, SQL, Dialect string
				} `json:"representations"`
			} `json:"versions"`
			Schemas []struct {
				Fields []field `json:"fields"`
			} `json:"schemas"`
			Properties map[string]string `json:"properties"`
		} `json:"metadata"`
	}
	list := decode[struct {
		Identifiers []struct{ Name string } `json:"identifiers"`
	}](t, s.ask("GET", Prefix+"v1/namespaces/sluice/views", ""))
	if len(list.Identifiers) != len(measure.Names()) {
		t.Errorf("got %v", list)
	}
	ids := map[string]bool{}
	for _, name := range measure.Names() {
		for prefix, catalog := range map[string]string{"": "", "lake_1/": "lake_1"} {
			m := decode[view](t, s.ask("GET", Prefix+"v1/"+prefix+"namespaces/sluice/views/"+name, "")).Metadata
			ids[m.ID] = true
			v := m.Versions[0]
			if m.Format != 1 || v.ID != m.Current || v.Catalog != catalog || v.Namespace[0] != "sluice" || !strings.HasSuffix(m.Location, "/views/"+name) ||
				m.Properties["comment"] == "" {
				t.Errorf("%s: got %+v", name, m)
			}
			for i, dialect := range []string{"trino", "spark"} {
				d, _ := measure.LookupDialect(dialect)
				all, _ := measure.Views(d, measure.Defaults())
				at := slices.Index(measure.Names(), name)
				if got := v.Texts[i]; got.Type != "sql" || got.Dialect != dialect || got.SQL != all[at].Query {
					t.Errorf("%s: got %+v", name, got)
				}
			}
			for i, f := range m.Schemas[0].Fields {
				if f.ID != i+1 || f.Type == nil || f.Type == "" || f.Doc == "" {
					t.Errorf("%s: got %+v", name, f)
				}
			}
		}
	}
	if len(ids) != len(measure.Names()) {
		t.Errorf("%d views have %d ids", len(measure.Names()), len(ids))
	}
	days := decode[view](t, s.ask("GET", Prefix+"v1/namespaces/sluice/views/campaign_days", "")).Metadata.Schemas[0].Fields
	if days[2].Name != "day" || days[2].Type != "date" || days[0].Type != "string" || days[6].Type != "double" {
		t.Errorf("got %+v", days)
	}
}
