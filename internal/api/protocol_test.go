package api

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// raw sends bytes that no HTTP library sends, and returns the answer.
func raw(t *testing.T, address, text string) (*http.Response, string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(conn)
	head, body, _ := bytes.Cut(b, []byte("\r\n\r\n"))
	lines := strings.Split(string(head), "\r\n")
	r := &http.Response{Status: strings.TrimPrefix(lines[0], "HTTP/1.1 "), Header: http.Header{}}
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	return r, string(body)
}

// What net/http answers by itself has our error object.
func TestAnswersOfTheProtocol(t *testing.T) {
	s := openServiceIn(t, t.TempDir(), nil)
	address := strings.TrimPrefix(s.url, "http://")
	for name, c := range map[string]struct{ request, status string }{
		"no HTTP":           {"nonsense, longer than the first bytes of HTTP/2\r\n\r\n", "400 Bad Request"},
		"no host":           {"GET /v1/stats HTTP/1.1\r\n\r\n", "400 Bad Request"},
		"bad header":        {"GET /v1/stats HTTP/1.1\r\nHost: x\r\nA b: c\r\n\r\n", "400 Bad Request"},
		"large head":        {"GET /v1/stats HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("a", 20<<10) + "\r\n\r\n", "431 Request Header Fields Too Large"},
		"unknown version":   {"GET /v1/stats HTTP/3.0\r\nHost: x\r\n\r\n", "505 HTTP Version Not Supported"},
		"unknown transfers": {"POST /v1/events HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", "501 Not Implemented"},
	} {
		t.Run(name, func(t *testing.T) {
			r, body := raw(t, address, c.request)
			var got struct {
				Status    string           `json:"status"`
				Code      string           `json:"error_code"`
				Message   string           `json:"message"`
				RequestID string           `json:"request_id"`
				Errors    []map[string]any `json:"errors"`
			}
			if err := json.Unmarshal([]byte(body), &got); err != nil {
				t.Fatalf("got %s %q: %v", r.Status, body, err)
			}
			if r.Status != c.status || got.Code != "MALFORMED_REQUEST" || got.Status != "error" || got.Message == "" || len(got.Errors) != 1 {
				t.Errorf("got %s %s, want %s", r.Status, body, c.status)
			}
			if r.Header.Get("Content-Type") != "application/json" || r.Header.Get("X-Request-Id") != got.RequestID || r.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("got headers %v", r.Header)
			}
			if strings.Contains(c.request, "aaaa") && strings.Contains(s.log.String(), "aaaa") {
				t.Error("the header is in the log")
			}
		})
	}
	var counted uint64
	for _, c := range s.Stats().RejectedByCode {
		if c.Code == "MALFORMED_REQUEST" {
			counted = c.Count
		}
	}
	if counted != 6 {
		t.Errorf("got %d counted, want 6", counted)
	}
}

// A request without TLS to an address with TLS gets the error object, too.
func TestPlainRequestToTLS(t *testing.T) {
	s := openServiceIn(t, t.TempDir(), nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile := writeCertificate(t, t.TempDir(), 1)
	cert, err := OpenCertificate(certFile, keyFile, time.Now, s.Log)
	if err != nil {
		t.Fatal(err)
	}
	h := NewHTTPServer(s.Handler(), cert, s.Log)
	go func() {
		_ = h.ServeTLS(&limitedListener{Listener: l, c: &connections{most: 100}, server: s.Server}, "", "")
	}()
	defer h.Close()
	if r, body := raw(t, l.Addr().String(), "GET /v1/stats HTTP/1.1\r\nHost: x\r\n\r\n"); r.Status != "400 Bad Request" || !strings.Contains(body, "this address takes HTTPS") {
		t.Errorf("got %s %q, want the error object", r.Status, body)
	}
}

// A rejected request over HTTP/2 without TLS gets its answer, though its body is still on the way.
func TestRejectedOverPlainHTTP2(t *testing.T) {
	s := openServiceIn(t, t.TempDir(), nil)
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	c := &http.Client{Transport: &http.Transport{Protocols: &protocols}}
	body := &slowBody{left: 40, part: bytes.Repeat([]byte(" "), 16<<10)}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/events", body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer x")
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 403 || resp.ProtoMajor != 2 {
		t.Fatalf("got %s %d, %v", resp.Proto, resp.StatusCode, err)
	}
	if body.left != 0 {
		t.Errorf("the server ended the stream with %d parts of the body unread", body.left)
	}
}

// slowBody is a body that comes in parts.
type slowBody struct {
	left int
	part []byte
}

// Read returns the next part.
func (b *slowBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	b.left--
	return copy(p, b.part), nil
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
