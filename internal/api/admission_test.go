package api

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"sluice/internal/dataset"
)

func TestAdmission(t *testing.T) {
	s := openShop(t)
	other := s.dataset(dataset.Spec{ID: "other"})
	const noKey = "Authorization:"
	for _, c := range []struct {
		name, method, path, body string
		headers                  []string
		status                   int
		code                     string
	}{
		{"unknown path", "GET", "/v1/nothing", "", nil, 404, "NOT_FOUND"},
		{"unknown path without a key", "POST", "/v1/nothing", "{}", []string{noKey}, 404, "NOT_FOUND"},
		{"root", "GET", "/", "", []string{noKey}, 404, "NOT_FOUND"},
		{"slash at the end", "POST", "/v1/events/", goodEvent(""), nil, 404, "NOT_FOUND"},
		{"double slash", "POST", "//v1/events", goodEvent(""), nil, 404, "NOT_FOUND"},
		{"dots", "POST", "/v1/x/../events", goodEvent(""), nil, 404, "NOT_FOUND"},
		{"capital letters", "POST", "/V1/events", goodEvent(""), nil, 404, "NOT_FOUND"},
		{"no submission id", "GET", "/v1/submissions/", "", nil, 404, "NOT_FOUND"},
		{"submission below", "GET", "/v1/submissions/a/b", "", nil, 404, "NOT_FOUND"},
		{"docs with a slash", "GET", "/docs/", "", nil, 404, "NOT_FOUND"},

		{"get events", "GET", "/v1/events", "", nil, 405, "METHOD_NOT_ALLOWED"},
		{"get events without a key", "GET", "/v1/events", "", []string{noKey}, 405, "METHOD_NOT_ALLOWED"},
		{"put batch", "PUT", "/v1/events/batch", "[]", nil, 405, "METHOD_NOT_ALLOWED"},
		{"options", "OPTIONS", "/v1/events", "", []string{noKey}, 405, "METHOD_NOT_ALLOWED"},
		{"post schema", "POST", "/v1/schema/events", "{}", nil, 405, "METHOD_NOT_ALLOWED"},
		{"post docs", "POST", "/docs", "{}", nil, 405, "METHOD_NOT_ALLOWED"},
		{"delete submission", "DELETE", "/v1/submissions/x", "", nil, 405, "METHOD_NOT_ALLOWED"},
		{"strange method", "BREW", "/v1/events", "", nil, 405, "METHOD_NOT_ALLOWED"},

		{"browser", "POST", "/v1/events", goodEvent(""), []string{"Origin: https://shop.example.com"}, 403, "SERVER_SIDE_ONLY"},
		{"opaque browser", "POST", "/v1/events", goodEvent(""), []string{"Origin: null"}, 403, "SERVER_SIDE_ONLY"},
		{"browser without a key", "POST", "/v1/events", goodEvent(""), []string{noKey, "Origin: https://a.example"}, 403, "SERVER_SIDE_ONLY"},
		{"preflight", "OPTIONS", "/v1/events", "", []string{noKey, "Origin: https://a.example", "Access-Control-Request-Method: POST"}, 403, "SERVER_SIDE_ONLY"},
		{"browser reads the description", "GET", "/openapi.json", "", []string{"Origin: https://a.example"}, 403, "SERVER_SIDE_ONLY"},
		{"server runtime", "POST", "/v1/events", goodEvent(""), []string{"Sec-Fetch-Mode: cors", "Sec-Fetch-Site: cross-site"}, 200, ""},

		{"no key", "POST", "/v1/events", goodEvent(""), []string{noKey}, 403, "MISSING_API_KEY"},
		{"no key for the schema", "GET", "/v1/schema/events", "", []string{noKey}, 403, "MISSING_API_KEY"},
		{"no key for a submission", "GET", "/v1/submissions/x", "", []string{noKey}, 403, "MISSING_API_KEY"},
		{"unknown key", "POST", "/v1/events", goodEvent(""), []string{noKey, "Authorization: Bearer nonsense"}, 403, "INVALID_API_KEY"},
		{"scheme without a key", "POST", "/v1/events", goodEvent(""), []string{noKey, "Authorization: Bearer"}, 403, "MISSING_API_KEY"},
		{"other scheme", "POST", "/v1/events", goodEvent(""), []string{noKey, "Authorization: Basic " + s.key}, 403, "INVALID_API_KEY"},
		{"two headers", "POST", "/v1/events", goodEvent(""), []string{"Authorization: Bearer " + s.key}, 403, "INVALID_API_KEY"},
		{"scheme in capitals", "POST", "/v1/events", goodEvent(""), []string{noKey, "Authorization: BEARER  " + s.key}, 200, ""},
		{"bare key", "POST", "/v1/events", goodEvent(""), []string{noKey, "Authorization: " + s.key}, 200, ""},
		{"another dataset's key", "POST", "/v1/events", goodEvent(""), []string{noKey, "Authorization: Bearer " + other}, 403, "DATASET_FORBIDDEN"},
		{"unknown dataset", "POST", "/v1/events", strings.Replace(goodEvent(""), "shop", "nowhere", 1), nil, 403, "DATASET_FORBIDDEN"},
		{"one foreign event in a batch", "POST", "/v1/events/batch", "[" + goodEvent("") + "," + strings.Replace(badEvent(), "shop", "other", 1) + "]", nil, 403, "DATASET_FORBIDDEN"},
		{"validate a foreign event", "POST", "/v1/events/validate", strings.Replace(goodEvent(""), "shop", "other", 1), nil, 403, "DATASET_FORBIDDEN"},
		{"bad key before bad type", "POST", "/v1/events", "x", []string{noKey, "Authorization: Bearer x", "Content-Type: text/plain"}, 403, "INVALID_API_KEY"},

		{"no media type", "POST", "/v1/events", goodEvent(""), []string{"Content-Type:"}, 200, ""},
		{"charset", "POST", "/v1/events", goodEvent(""), []string{"Content-Type:", "Content-Type: Application/JSON ; charset=utf-16; x"}, 200, ""},
		{"text", "POST", "/v1/events", goodEvent(""), []string{"Content-Type:", "Content-Type: text/plain"}, 415, "UNSUPPORTED_MEDIA_TYPE"},
		{"nearly json", "POST", "/v1/events", goodEvent(""), []string{"Content-Type:", "Content-Type: application/json-seq"}, 415, "UNSUPPORTED_MEDIA_TYPE"},
		{"form", "POST", "/v1/events/batch", "a=b", []string{"Content-Type:", "Content-Type: application/x-www-form-urlencoded"}, 415, "UNSUPPORTED_MEDIA_TYPE"},
		{"identity", "POST", "/v1/events", goodEvent(""), []string{"Content-Encoding: Identity"}, 200, ""},
		{"brotli", "POST", "/v1/events", goodEvent(""), []string{"Content-Encoding: br"}, 415, "UNSUPPORTED_MEDIA_TYPE"},
		{"stacked", "POST", "/v1/events", goodEvent(""), []string{"Content-Encoding: gzip, gzip"}, 415, "UNSUPPORTED_MEDIA_TYPE"},
		{"stacked in two headers", "POST", "/v1/events", goodEvent(""), []string{"Content-Encoding: gzip", "Content-Encoding: zstd"}, 415, "UNSUPPORTED_MEDIA_TYPE"},

		{"empty body", "POST", "/v1/events", "", nil, 400, "MALFORMED_JSON"},
		{"empty batch body", "POST", "/v1/events/batch", "", nil, 400, "MALFORMED_JSON"},
		{"two values", "POST", "/v1/events", goodEvent("") + goodEvent(""), nil, 400, "MALFORMED_JSON"},
		{"byte order mark", "POST", "/v1/events", "\ufeff" + goodEvent(""), nil, 400, "MALFORMED_JSON"},
		{"array to single", "POST", "/v1/events", "[" + goodEvent("") + "]", nil, 400, "INVALID_TYPE"},
		{"object to batch", "POST", "/v1/events/batch", goodEvent(""), nil, 400, "INVALID_TYPE"},
		{"number to validate", "POST", "/v1/events/validate", "1", nil, 400, "INVALID_TYPE"},
		{"no events", "POST", "/v1/events/batch", " [ ] ", nil, 400, "EMPTY_BATCH"},
		{"not gzip", "POST", "/v1/events", goodEvent(""), []string{"Content-Encoding: gzip"}, 400, "MALFORMED_JSON"},
		{"not zstd", "POST", "/v1/events", goodEvent(""), []string{"Content-Encoding: zstd"}, 400, "MALFORMED_JSON"},

		{"schema", "GET", "/v1/schema/events", "", nil, 200, ""},
		{"schema head", "HEAD", "/v1/schema/events", "", nil, 200, ""},
		{"description", "GET", "/openapi.json", "", []string{noKey}, 200, ""},
		{"docs", "GET", "/docs", "", []string{noKey}, 200, ""},
		{"docs with a bad key", "GET", "/docs", "", []string{noKey, "Authorization: nonsense"}, 200, ""},
		{"query", "POST", "/v1/events?x=1", goodEvent(""), nil, 200, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := s.send(c.method, c.path, c.body, c.headers...)
			if r.StatusCode != c.status {
				t.Fatalf("got %d %s, want %d", r.StatusCode, r.text, c.status)
			}
			checkAnswer(t, r, c.code)
			if allow := r.Header.Get("Allow"); (allow != "") != (c.status == 405) {
				t.Errorf("Allow: %q", allow)
			}
			if c.path == "/v1/events/batch" && (r.Header.Get("X-Events-Accepted") != "0" || r.Header.Get("X-Events-Rejected") == "") {
				t.Errorf("the headers do not count the events: %v", r.Header)
			}
		})
	}
}

// TestForeignIndex holds that a batch with events of another dataset names the first of them in its answer.
func TestForeignIndex(t *testing.T) {
	s := openShop(t)
	foreign := strings.Replace(goodEvent(""), "shop", "other", 1)
	r := s.post("/v1/events/batch", "["+goodEvent("")+","+foreign+","+foreign+"]")
	if want := `"errors":[{"index":1,"error_code":"DATASET_FORBIDDEN","field":"/data_set_id",`; !strings.Contains(r.text, want) {
		t.Errorf("got %s, want %s", r.text, want)
	}
	if r := s.post("/v1/events", foreign); strings.Contains(r.text, `"index"`) {
		t.Errorf("a single event has an index: %s", r.text)
	}
}

// checkAnswer holds every answer to what every answer has.
func checkAnswer(t *testing.T, r reply, code string) {
	t.Helper()
	if r.Header.Get("X-Request-Id") == "" || r.Header.Get("Cache-Control") != "no-store" || r.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("headers: %v", r.Header)
	}
	for name := range r.Header {
		if strings.HasPrefix(name, "Access-Control-") {
			t.Errorf("CORS header %s", name)
		}
	}
	if code == "" {
		return
	}
	if r.Header.Get("Content-Type") != "application/json" {
		t.Errorf("Content-Type: got %q", r.Header.Get("Content-Type"))
	}
	m := r.object(t)
	if m["status"] != "error" || m["error_code"] != code || m["message"] == "" || m["request_id"] != r.Header.Get("X-Request-Id") {
		t.Errorf("got %s, want code %s", r.text, code)
	}
	problems, _ := m["errors"].([]any)
	if len(problems) == 0 {
		t.Fatalf("no errors in %s", r.text)
	}
	for _, p := range problems {
		for _, name := range []string{"error_code", "field", "message", "hint"} {
			if v, ok := p.(map[string]any)[name].(string); !ok || v == "" && name != "field" {
				t.Errorf("%s in %s", name, r.text)
			}
		}
	}
}

// otherEnd is the text with another last character.
func otherEnd(text string) string {
	start := text[:len(text)-1]
	if other := start + "0"; other != text {
		return other
	}
	return start + "1"
}

// The answer to a bad key must not tell why it is bad.
func TestKeysAreRejectedAlike(t *testing.T) {
	s := openShop(t)
	revoked := s.dataset(dataset.Spec{ID: "gone"})
	if err := s.reg.Disable(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	want := ""
	for _, auth := range []string{"Bearer x", "x y", "Bearer " + otherEnd(s.key), "Bearer " + revoked} {
		r := s.post("/v1/events", goodEvent(""), "Authorization:", "Authorization: "+auth)
		got := anyRequest.ReplaceAllString(r.text, "")
		if want == "" {
			want = got
		}
		if r.StatusCode != 403 || got != want {
			t.Errorf("got %d %s, want %s", r.StatusCode, got, want)
		}
	}
}

func TestRequestID(t *testing.T) {
	s := openShop(t)
	for id, kept := range map[string]bool{
		"abc-DEF_1.2": true, strings.Repeat("a", 128): true,
		strings.Repeat("a", 129): false, "a b": false, "a/b": false, "ä": false, "<x>": false,
	} {
		r := s.send("GET", "/v1/nothing", "", "X-Request-Id: "+id)
		if got := r.Header.Get("X-Request-Id"); (got == id) != kept || got == "" {
			t.Errorf("%s: got %s", id, got)
		}
	}
	r := s.send("GET", "/v1/nothing", "", "X-Request-Id: a", "X-Request-Id: b")
	if got := r.Header.Get("X-Request-Id"); len(got) != 32 {
		t.Errorf("two ids: got %s", got)
	}
}

// HEAD is GET without the body.
func TestHead(t *testing.T) {
	s := openShop(t)
	for _, path := range []string{"/v1/schema/events", "/docs", "/openapi.json", "/v1/nothing"} {
		get, head := s.send("GET", path, ""), s.send("HEAD", path, "")
		if head.text != "" || head.StatusCode != get.StatusCode || head.ContentLength != get.ContentLength || head.ContentLength <= 0 {
			t.Errorf("%s: HEAD %d %d, GET %d %d", path, head.StatusCode, head.ContentLength, get.StatusCode, get.ContentLength)
		}
	}
}

// dial is a connection to the service, until the test ends.
func (s *service) dial(t testing.TB) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// raw writes bytes to the service and returns everything that comes back until one answer is read.
func (s *service) raw(t testing.TB, text string) *http.Response {
	t.Helper()
	conn := s.dial(t)
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// What an ordinary client would not send.
func TestRawRequests(t *testing.T) {
	s := openShop(t)
	for _, c := range []struct {
		text   string
		status int
	}{
		{"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", 404},
		{"GET /v1/../docs HTTP/1.1\r\nHost: x\r\n\r\n", 404},
		{"GET //docs HTTP/1.1\r\nHost: x\r\n\r\n", 404},
		{"GET /docs HTTP/1.0\r\n\r\n", 200},
		{"POST /v1/events HTTP/1.1\r\nHost: x\r\nOrigin: \r\nContent-Length: 0\r\n\r\n", 403},
		{"POST /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: \r\nContent-Length: 0\r\n\r\n", 403},
		{fmt.Sprintf("POST /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nIdempotency-Key: \r\nContent-Length: 2\r\n\r\n{}", s.key), 400},
		{fmt.Sprintf("POST /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nExpect: 100-continue\r\nContent-Length: 5242881\r\n\r\n", s.key), 413},
		{"POST /v1/events HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n", 403},
	} {
		if resp := s.raw(t, c.text); resp.StatusCode != c.status {
			t.Errorf("%q: got %d, want %d", c.text, resp.StatusCode, c.status)
		}
	}
}

// An error says what the request shows about its cause.
func TestErrorsNameTheirCause(t *testing.T) {
	s := openServiceIn(t, t.TempDir(), nil)
	s.key = s.dataset(specShop)
	other := strings.Replace(goodEvent(""), `"shop"`, `"another"`, 1)
	mixed := "[" + badEvent() + "," + badEvent() + ",1]"
	for name, c := range map[string]struct {
		path, body string
		headers    []string
		want       []string
	}{
		"nothing behind Bearer": {"/v1/events", goodEvent(""), []string{"Authorization:", "Authorization: Bearer "}, []string{`"error_code":"MISSING_API_KEY"`, "Nothing follows Bearer", "variable"}},
		"Basic":                 {"/v1/events", goodEvent(""), []string{"Authorization:", "Authorization: Basic eDp5"}, []string{`"error_code":"INVALID_API_KEY"`, badKeyMessage, "the scheme Basic"}},
		"another dataset":       {"/v1/events", other, nil, []string{`"error_code":"DATASET_FORBIDDEN"`, "This key is for the dataset shop:"}},
		"no event is valid":     {"/v1/events/batch", mixed, nil, []string{`"error_code":"BATCH_REJECTED"`, `"events_by_code":{"INVALID_EVENT_TYPE":2,"INVALID_TYPE":1},"errors":[`}},
		"all for one reason":    {"/v1/events/batch", "[" + badEvent() + "," + badEvent() + "]", nil, []string{`"error_code":"INVALID_EVENT_TYPE"`, `"events_by_code":{"INVALID_EVENT_TYPE":2},"errors":[`}},
		"a list inside data":    {"/v1/events/batch", `{"data":[]}`, nil, []string{`"error_code":"INVALID_TYPE"`, "sluice-send convert"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := s.post(c.path, c.body, c.headers...).text
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("got %s, want %s", got, want)
				}
			}
			if strings.Contains(got, "another") && name == "another dataset" {
				t.Errorf("got %s, want nothing of what was sent", got)
			}
		})
	}
}
