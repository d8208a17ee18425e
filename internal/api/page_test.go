package api

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"sluice/event"
	"sluice/event/rules"
	"sluice/internal/dataset"
)

var update = flag.Bool("update", false, "write docs/api.md anew")

// compiled is a part of a JSON document as a schema.
func compiled(t *testing.T, document, pointer string) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(document))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("urn:document", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("urn:document#" + pointer)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func matches(t *testing.T, s *jsonschema.Schema, text string) {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(v); err != nil {
		t.Errorf("%v\n%.500s", err, text)
	}
}

// The description has every path, and every error of it. Linters and generators of others read it in interop/openapi.
func TestOpenAPI(t *testing.T) {
	s := openShop(t)
	r := s.send("GET", "/openapi.json", "", "Authorization:")
	var doc struct{ Paths map[string]struct{} }
	if err := json.Unmarshal([]byte(r.text), &doc); err != nil {
		t.Fatal(err)
	}
	if got := len(doc.Paths); got != int(routeNone) {
		t.Errorf("got %d paths, want %d", got, routeNone)
	}
	for i := range routes[:routeNone] {
		for _, code := range codesOf(i) {
			if !strings.Contains(r.text, "`"+string(code)+"`") {
				t.Errorf("%s: %s is missing", routes[i].Path, code)
			}
		}
	}
}

// otherID finds an id that is no text.
var otherID = regexp.MustCompile(`"id":[^" ]`)

// The description of an event rejects nothing that the service accepts. It cannot say all that the JSON Schema says.
func TestDescribedEvent(t *testing.T) {
	document, err := openAPIDocument(guideTime)
	if err != nil {
		t.Fatal(err)
	}
	described := compiled(t, string(document), "/components/schemas/Event")
	cases, err := rules.Cases()
	if err != nil {
		t.Fatal(err)
	}
	accepted := 0
	for i := range cases {
		c := &cases[i]
		if c.Name == "gpp-sid-ignored-blank" {
			continue // without a gpp_string, gpp_sid is ignored whatever it holds; the description asks for integers
		}
		if otherID.MatchString(c.Body(c.Now, "shop")) {
			continue // an integer is understood, and anything else is dropped; the description asks for a text
		}
		if c.Shape == event.Single && c.Request == "" && len(c.Want) == 0 {
			accepted++
			matches(t, described, c.Body(c.Now, "shop"))
		}
	}
	if accepted == 0 {
		t.Error("no case is accepted: the test shows nothing")
	}
}

// Every example of the description is sent, and is answered as the description says.
func TestExamples(t *testing.T) {
	s := openServiceIn(t, t.TempDir(), nil)
	s.key = s.dataset(dataset.Spec{ID: exampleDataset})
	openAPI := s.send("GET", "/openapi.json", "").text
	var doc struct {
		Paths map[string]map[string]struct {
			RequestBody struct {
				Content map[string]struct {
					Examples map[string]struct{ Value json.RawMessage }
				}
			}
			Responses map[string]struct {
				Content map[string]struct {
					Examples map[string]struct{ Value json.RawMessage }
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(openAPI), &doc); err != nil {
		t.Fatal(err)
	}
	described := map[string]string{
		"/v1/events": "/components/schemas/Event", "/v1/events/batch": "/components/schemas/Batch",
		"/v1/events/validate": "/paths/~1v1~1events~1validate/post/requestBody/content/application~1json/schema",
	}
	sent := 0
	for path, methods := range doc.Paths {
		post := methods["post"]
		for name, ex := range post.RequestBody.Content["application/json"].Examples {
			sent++
			matches(t, compiled(t, openAPI, described[path]), string(ex.Value))
			r := s.post(path, string(ex.Value))
			want, ok := post.Responses["200"].Content["application/json"].Examples[name]
			if r.StatusCode != 200 || !ok || masked(r.text) != masked(compact(t, want.Value)) {
				t.Errorf("%s %s: got %d %s\nwant %s", path, name, r.StatusCode, r.text, want.Value)
			}
		}
	}
	rejected, mixed := 0, 0
	for i := range examples {
		e := &examples[i]
		path := routes[e.route].Path
		status, want := e.answer(s.clock.Now())
		var headers []string
		if e.strict {
			headers = append(headers, "Prefer: handling=strict")
		}
		r := s.post(path, exampleAt(e.body, s.clock.Now()), headers...)
		if r.StatusCode != status || masked(r.text) != masked(string(want)) {
			t.Errorf("%s: got %d %s, want %d %s", e.name, r.StatusCode, r.text, status, want)
		}
		if status == 200 {
			if !e.valid(s.clock.Now()) {
				mixed++
			}
			matches(t, compiled(t, openAPI, "/components/schemas/"+routes[e.route].Schema), r.text)
			continue
		}
		rejected++
		matches(t, compiled(t, openAPI, "/components/schemas/Error"), r.text)
		if _, ok := doc.Paths[path]["post"].Responses[strconv.Itoa(status)].Content["application/json"].Examples[e.name]; !ok {
			t.Errorf("%s is not described", e.name)
		}
	}
	if sent+mixed+rejected != len(examples) || rejected == 0 || mixed == 0 {
		t.Errorf("%d accepted, %d in part, and %d rejected of %d examples", sent, mixed, rejected, len(examples))
	}
}

func compact(t *testing.T, raw []byte) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Other answers are as described, too.
func TestAnswersMatchTheirSchemas(t *testing.T) {
	s := openShop(t)
	openAPI := s.send("GET", "/openapi.json", "").text
	r := s.post("/v1/events/batch", "["+goodEvent("")+",1,"+eventAt(8*86400, "")+"]")
	matches(t, compiled(t, openAPI, "/components/schemas/Receipt"), r.text)
	id, _ := r.object(t)["submission_id"].(string)
	found := s.send("GET", "/v1/submissions/"+id+"?include=events", "")
	matches(t, compiled(t, openAPI, "/components/schemas/Submission"), found.text)
	checked := s.post("/v1/events/validate", "["+goodEvent("")+",1,"+goodEvent(`,"privacy":{"gpp_string":"DBABLA~BVQqAAAAAgA","gpp_sid":[7]}`)+"]")
	matches(t, compiled(t, openAPI, "/components/schemas/Validation"), checked.text)
	matches(t, compiled(t, openAPI, "/components/schemas/Error"), s.send("GET", "/nothing", "").text)
	misspelled := s.post("/v1/events", strings.Replace(goodEvent(""), "event_type", "event_typ", 1))
	if !strings.Contains(misspelled.text, `"warnings":`) {
		t.Errorf("a misspelled member: got %s, want it named", misspelled.text)
	}
	matches(t, compiled(t, openAPI, "/components/schemas/Error"), misspelled.text)
	matches(t, compiled(t, openAPI, "/components/schemas/Event"), goodEvent(""))
	foreign := s.post("/v1/events/batch", `[{"data_set_id":"other"}]`, "Prefer: handling=strict")
	if foreign.StatusCode != 403 {
		t.Fatalf("another dataset: got %d %s", foreign.StatusCode, foreign.text)
	}
	for name := range foreign.Header {
		described := slices.ContainsFunc(guideHeaders(), func(h guideHeader) bool { return h.Paths == "every path" && h.Name == name }) ||
			slices.ContainsFunc(answerHeaders(routeBatch, 403), func(m member) bool { return m.name == name })
		if !described && name != "Content-Length" && name != "Date" {
			t.Errorf("the answer has the header %s, which is not described", name)
		}
	}
}

func TestSchema(t *testing.T) {
	s := openShop(t)
	r := s.send("GET", "/v1/schema/events", "")
	tag := r.Header.Get("ETag")
	if r.text+"\n" != string(event.Schema()) || !regexp.MustCompile(`^"[0-9a-f]+"$`).MatchString(tag) {
		t.Fatalf("ETag %s, %d bytes", tag, len(r.text))
	}
	matches(t, compiled(t, r.text, ""), goodEvent(""))
	for _, c := range []struct {
		match  string
		status int
	}{
		{tag, 304}, {"W/" + tag, 304}, {`"other", ` + tag, 304}, {"*", 304}, {`"other"`, 200}, {strings.Trim(tag, `"`), 200}, {"", 200},
	} {
		r := s.send("GET", "/v1/schema/events", "", "If-None-Match: "+c.match)
		if r.StatusCode != c.status || (r.text == "") != (c.status == 304) || r.Header.Get("ETag") != tag {
			t.Errorf("%s: got %d, %d bytes, want %d", c.match, r.StatusCode, len(r.text), c.status)
		}
		checkAnswer(t, r, "")
	}
}

// The page loads nothing, runs nothing, and holds everything in the tables.
func TestDocs(t *testing.T) {
	s := openShop(t)
	r := s.send("GET", "/docs", "")
	policy := r.Header.Get("Content-Security-Policy")
	if !strings.HasPrefix(policy, "default-src 'none'; ") || strings.Contains(policy, "unsafe") || r.Header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("headers: %v", r.Header)
	}
	_, style, _ := strings.Cut(r.text, "<style>")
	style, _, _ = strings.Cut(style, "</style>")
	sum := sha256.Sum256([]byte(style))
	if want := "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; !strings.Contains(policy, want) {
		t.Errorf("the policy does not allow the style sheet: %s", policy)
	}
	for _, bad := range []string{"<script", "src=", "url(", "@import", "<link", "style=", "onclick"} {
		if strings.Contains(r.text, bad) {
			t.Errorf("the page has %s", bad)
		}
	}
	holdsTables(t, r.text)
	if want := "export SLUICE_URL=" + s.url + "\n"; !strings.Contains(r.text, want) || strings.Contains(r.text, docsAddress) {
		t.Errorf("the page lacks %q", want)
	}
}

// The quick start names the address that the reader used, unless that is none.
func TestDocsAddress(t *testing.T) {
	for _, c := range []struct {
		host, forwarded string
		tls             bool
		want            string
	}{
		{"127.0.0.1:9001", "", false, "http://127.0.0.1:9001"},
		{"[::1]:9001", "", false, "http://[::1]:9001"},
		{"events.example.com", "", true, "https://events.example.com"},
		{"events.example.com", "https", false, "https://events.example.com"},
		{"events.example.com", "gopher", false, "http://events.example.com"},
		{"a;rm -rf", "", false, "http://127.0.0.1:8080"},
		{"<script>", "", false, "http://127.0.0.1:8080"},
		{"$(id)", "", false, "http://127.0.0.1:8080"},
		{"", "", false, "http://127.0.0.1:8080"},
	} {
		r := &http.Request{Host: c.host, Header: http.Header{"X-Forwarded-Proto": {c.forwarded}}}
		if c.tls {
			r.TLS = new(tls.ConnectionState)
		}
		if got := address(r); got != c.want {
			t.Errorf("%q: got %s, want %s", c.host, got, c.want)
		}
	}
}

func holdsTables(t *testing.T, text string) {
	t.Helper()
	for _, c := range event.Codes() {
		if !strings.Contains(text, string(c.Code)) {
			t.Errorf("%s is missing", c.Code)
		}
	}
	for _, e := range event.Types() {
		if !strings.Contains(text, e.Name) {
			t.Errorf("%s is missing", e.Name)
		}
	}
	for _, f := range event.Fields() {
		if !strings.Contains(text, f.Pointer) {
			t.Errorf("%s is missing", f.Pointer)
		}
	}
	for i := range routes[:routeNone] {
		if !strings.Contains(text, routes[i].Path) {
			t.Errorf("%s is missing", routes[i].Path)
		}
	}
}

// docs/api.md is what the tables say today.
func TestMarkdown(t *testing.T) {
	const name = "../../docs/api.md"
	source, err := template.ParseFiles("docs.md")
	if err != nil {
		t.Fatal(err)
	}
	var page bytes.Buffer
	if err := source.Execute(&page, newGuide()); err != nil {
		t.Fatal(err)
	}
	want := page.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(name, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("docs/api.md is stale: run go test ./internal/api -run TestMarkdown -update")
	}
	holdsTables(t, string(got))
}

// Code that is wider than a phone can be scrolled by keyboard: each block can be focused.
func TestCodeOfDocsCanBeFocused(t *testing.T) {
	s := openShop(t)
	page := s.send("GET", "/docs", "").text
	all, focused := strings.Count(page, "<pre"), strings.Count(page, `<pre tabindex="0"`)
	if all < 10 || focused != all {
		t.Errorf("got %d blocks, %d of which can be focused", all, focused)
	}
}
