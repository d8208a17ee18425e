package console

import (
	"html"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// The page Try takes so much text and so many texts at one time, and answers briefly whatever it gets.
func TestTryIsBounded(t *testing.T) {
	t.Parallel()
	s := openServiceIn(t, t.TempDir(), func(o *Options) { o.Loopback = true })
	post := func(form string) (int, int) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/try", strings.NewReader(form))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			return 0, 0 // closed while the form was being sent
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, len(b)
	}
	event := "dataset=shop&event=" + url.QueryEscape(tryExample("shop", time.Now()))
	if status, _ := post(event); status != http.StatusOK {
		t.Fatalf("one event: got %d, want 200", status)
	}
	for name, one := range map[string]string{"valid": tryExample("shop", time.Now()), "not valid": "{}"} {
		text := "[" + strings.TrimSuffix(strings.Repeat(one+",", 1000), ",") + "]"
		most := len(html.EscapeString(text)) + 1<<20 // the page repeats the text
		if status, size := post("dataset=shop&event=" + url.QueryEscape(text)); status != http.StatusOK || size > most {
			t.Errorf("a thousand events that are %s: got %d and a page of %d bytes, want 200 and at most %d", name, status, size, most)
		}
	}
	if status, size := post("event=" + strings.Repeat("x", tryBody)); status == http.StatusOK && size > 512<<10 {
		t.Errorf("more than the page takes: got %d and a page of %d bytes", status, size)
	}
	for range tryAtOnce {
		s.console.trying <- struct{}{}
	}
	if status, _ := post(event); status != http.StatusServiceUnavailable {
		t.Errorf("while %d others try: got %d, want 503", tryAtOnce, status)
	}
	<-s.console.trying
	if status, _ := post(event); status != http.StatusOK {
		t.Errorf("when one of them is done: got %d, want 200", status)
	}
}
