package client

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"sluice/event"
)

func TestValidate(t *testing.T) {
	c := open(t, "http://127.0.0.1", Options{DatasetID: "d", Now: func() time.Time { return noon }})
	late, old, plain, other := purchase(), purchase(), purchase(), purchase()
	late.Time = noon.Add(-event.LateAge)
	old.Time = noon.Add(-event.MaxAge - time.Second)
	plain.Identifiers.EmailSHA256 = "ana@example.com"
	other.DatasetID = "another"
	warnings, err := c.Validate(purchase(), late, old, plain, other)
	if len(warnings) != 1 || warnings[0].Index != 1 || warnings[0].Code != event.LateEvent {
		t.Errorf("got warnings %+v", warnings)
	}
	failed, ok := errors.AsType[*BatchError](err)
	if !ok || failed.Rejected != 3 {
		t.Fatalf("got %v", err)
	}
	want := map[int]event.Code{2: event.TimestampTooOld, 3: event.PlaintextPII, 4: event.DatasetForbidden}
	for _, p := range failed.Problems {
		if want[p.Index] != p.Code || p.Message == "" || p.Hint == "" {
			t.Errorf("got %+v", p)
		}
		delete(want, p.Index)
	}
	if len(want) > 0 {
		t.Errorf("not found: %v", want)
	}
	if warnings, err := c.Validate(purchase()); err != nil || warnings != nil {
		t.Errorf("a clean event: got %v, %v", warnings, err)
	}
}

func TestValidateRemote(t *testing.T) {
	s := &service{answer: func(_ int, w http.ResponseWriter, r *http.Request) bool {
		fmt.Fprint(w, `{"valid":false,"accepted":1,"rejected":1,"errors":[{"index":1,"error_code":"MISSING_FIELD","field":"/timestamp","message":"m","hint":"h"}],
			"warnings":[{"index":0,"code":"LATE_EVENT","field":"/timestamp","message":"m"}],"events":[{"index":0,"privacy":"unrestricted"}]}`)
		return true
	}}
	v, err := start(t, s, Options{}).ValidateRemote(t.Context(), []byte(`[{},{}]`))
	if err != nil || v.Valid || v.Accepted != 1 || v.Rejected != 1 || v.Problems[0].Code != event.MissingField || v.Warnings[0].Code != event.LateEvent || len(v.Events) != 1 {
		t.Errorf("got %+v, %v", v, err)
	}
	if got := s.requests[0]; got.path != "/v1/events/validate" || got.header.Get("Idempotency-Key") != "" {
		t.Errorf("got request %+v", got)
	}
}

func TestProbe(t *testing.T) {
	server := httptest.NewUnstartedServer(&service{answer: func(_ int, w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Date", "Sat, 14 Nov 2026 12:00:00 GMT")
		w.Write([]byte("{}"))
		return true
	}})
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // it would tell of the handshake that is meant to fail
	server.StartTLS()
	defer server.Close()
	contact, err := open(t, server.URL, Options{Transport: server.Client().Transport}).Probe(t.Context())
	if err != nil || !contact.Time.Equal(noon) || contact.TLS == "" || contact.Expires.IsZero() {
		t.Errorf("got %+v, %v", contact, err)
	}
	// The default transport does not trust a test's certificate, and that is final.
	if _, err := open(t, server.URL, Options{}).Probe(t.Context()); err == nil || retryable(err) {
		t.Errorf("an unknown authority: got %v", err)
	}
}
