package api

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"html/template"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sluice/event"
)

var (
	//go:embed docs.html
	docsHTML string
	//go:embed docs.css
	docsCSS string
)

// docs serves the documentation: one page, with nothing to load. Its quick start names the address that the reader
// used.
func (q *request) docs() error {
	parts, err := docsPage()
	at := []byte(address(q.r))
	for i, part := range parts {
		if i > 0 {
			q.shared = append(q.shared, at)
		}
		q.shared = append(q.shared, part)
	}
	h := q.w.Header()
	h["Content-Security-Policy"] = docsPolicy()
	h["Referrer-Policy"] = []string{"no-referrer"}
	q.kind = "text/html; charset=utf-8"
	return err
}

// docsAddress stands for the address of the server in the page that is made once.
const docsAddress = "http://address.invalid"

var plainHost = regexp.MustCompile(`^([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$`)

// address is where the reader of a page reached this server. A Host that cannot be part of an address, or of a command
// in a shell, is not repeated.
func address(r *http.Request) string {
	if !plainHost.MatchString(r.Host) {
		return "http://127.0.0.1:8080"
	}
	if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" { // the second: a proxy ended TLS
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// docsPolicy lets the page use its own style sheet and nothing else.
var docsPolicy = sync.OnceValue(func() []string {
	sum := sha256.Sum256([]byte(docsCSS))
	return []string{"default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"}
})

// docsPage is the page, cut where the address of the server belongs.
var docsPage = sync.OnceValues(func() ([][]byte, error) {
	t, err := template.New("docs").Parse(docsHTML)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, newGuide())
	return bytes.Split(b.Bytes(), []byte(docsAddress)), err
})

// guide is everything the documentation is made of.
type guide struct {
	Style    template.CSS
	Address  string
	Paths    []route
	Fields   []event.FieldInfo
	Types    []event.TypeInfo
	Rules    []guideCode
	Requests []guideCode
	Warnings []guideCode
	Examples []guideExample
	MaxBody  string

	Parameters, Headers []guideHeader // of requests, of answers
	Event               string        // an event to copy, its timestamp left to the shell
}

// guideHeader is a header or a parameter, and the paths that have it.
type guideHeader struct{ Name, In, Paths, Meaning string }

type guideCode struct {
	event.CodeInfo
	Status  int
	Example codeExample
}

// Shown is the status, where the code has one of its own.
func (c guideCode) Shown() string {
	if c.Kind != event.RequestKind {
		return ""
	}
	return strconv.Itoa(c.Status)
}

type guideExample struct {
	Method, Path, Summary, Prefer string
	Request, Response             string
	Status                        int
}

// guideTime is when the examples of the documentation happen.
var guideTime = time.Date(2026, 11, 14, 23, 40, 5, 0, time.UTC)

func newGuide() *guide {
	g := &guide{
		Style: template.CSS(docsCSS), Address: docsAddress, Paths: routes[:routeNone], Fields: event.Fields(),
		Types: event.Types(), MaxBody: "5,242,880", Parameters: guideParameters(), Headers: guideHeaders(),
	}
	for _, c := range codeTable {
		x := codeExamples[c.Code]
		x.Wrong, x.Right = exampleAt(x.Wrong, guideTime), exampleAt(x.Right, guideTime)
		code := guideCode{c, statusOf(c.Code), x}
		switch c.Kind {
		case event.RuleKind:
			g.Rules = append(g.Rules, code)
		case event.RequestKind:
			g.Requests = append(g.Requests, code)
		default:
			g.Warnings = append(g.Warnings, code)
		}
	}
	for i := range examples {
		g.Examples = append(g.Examples, newGuideExample(&examples[i]))
	}
	stamp := strconv.FormatInt(guideTime.Unix()-60, 10) // as in text
	g.Event = strings.Replace(pretty([]byte(exampleAt(examples[0].body, guideTime))), stamp, "'$now'", 1)
	return g
}

// guideParameters are all that a request may have, as the OpenAPI document has them, and what HTTP itself brings.
func guideParameters() []guideHeader {
	out := []guideHeader{
		{"Authorization", "header", "every path with a key", "Bearer and the dataset's key, or the key alone."},
		{"Content-Type", "header", "every POST", "application/json, with any parameters, or left out."},
		{"Content-Encoding", "header", "every POST", "gzip or zstd, or left out."},
	}
	for i := range routes[:routeNone] {
		for _, p := range parameters(i) {
			out = gather(out, p.text("name"), p.text("in"), routes[i].Path, p.text("description"))
		}
	}
	return out
}

// guideHeaders are those of answers.
func guideHeaders() []guideHeader {
	out := []guideHeader{
		{"Content-Type", "header", "every path", "application/json; text/html for /docs."},
		{"Cache-Control", "header", "every path", "no-store."},
		{"X-Content-Type-Options", "header", "every path", "nosniff."},
	}
	for i := range routes[:routeNone] {
		for _, status := range statuses {
			for _, h := range answerHeaders(i, status) {
				out = gather(out, h.name, "header", routes[i].Path, h.value.(object).text("description"))
			}
		}
	}
	return out
}

// gather adds a path to what has this name and meaning.
func gather(to []guideHeader, name, in, path, meaning string) []guideHeader {
	for i := range to {
		if h := &to[i]; h.Name == name && h.In == in && h.Meaning == meaning {
			if !slices.Contains(strings.Split(h.Paths, ", "), path) {
				h.Paths += ", " + path
			}
			return to
		}
	}
	return append(to, guideHeader{name, in, path, meaning})
}

func newGuideExample(e *example) guideExample {
	status, body := e.answer(guideTime)
	out := guideExample{
		Method: routes[e.route].Method, Path: routes[e.route].Path, Summary: e.summary,
		Request: pretty([]byte(exampleAt(e.body, guideTime))), Response: pretty(body), Status: status,
	}
	if e.strict {
		out.Prefer = strictly[0]
	}
	return out
}

func pretty(raw []byte) string {
	var b bytes.Buffer
	_ = json.Indent(&b, raw, "", "  ") // it is JSON
	return b.String()
}

// Limit is a field's length limit in words.
func (g *guide) Limit(f event.FieldInfo) string {
	if f.MaxBytes == 0 {
		return ""
	}
	return strconv.Itoa(f.MaxBytes) + " bytes"
}

// Need says when a field must be sent.
func (g *guide) Need(f event.FieldInfo) string {
	switch {
	case f.Required:
		return "yes"
	case f.When != "":
		return "when " + f.When
	}
	return ""
}
