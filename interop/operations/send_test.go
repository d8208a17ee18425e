package operations

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"sluice/internal/servicetest"
)

// people is how many there are: few, so that one erasure concerns many events.
const people = 6

// event makes one, and notes it in the model as one of which nobody knows whether it is stored.
func (w *world) event(dataset string) (value int, body string) {
	value = w.number()
	e := &eventModel{dataset: dataset, person: w.random.IntN(people), received: w.now(), presence: maybe}
	consent := ""
	if w.chance(4) {
		e.optedOut, e.suppressed = true, w.datasets[dataset].suppress
		consent = `,"us_privacy_string":"1YYN"`
	}
	w.events[value] = e
	return value, fmt.Sprintf(`{"data_set_id":%q,"timestamp":%d,"event_type":"purchase","value":%d,"currency_code":"EUR",`+
		`"identifiers":{"email_sha256":%q,"partner_id":"p-%d"},"custom_data":{"order_id":%q},"privacy":{"mmt_only":false%s}}`,
		dataset, w.now().Add(-time.Minute).Unix(), value, hexHash(e.person), value, orderOf(value), consent)
}

// orderOf is the order that an event reports. Some report the same.
func orderOf(value int) string { return fmt.Sprint("o-", value/3) }

// request makes one of a few events, with an idempotency key or without one.
func (w *world) request(dataset string, keyed bool) *requestModel {
	r := &requestModel{dataset: dataset, path: "/v1/events/batch", sent: w.now()}
	count := 1 + w.random.IntN(8)
	var bodies []string
	for range count {
		value, body := w.event(dataset)
		r.events = append(r.events, value)
		bodies = append(bodies, body)
	}
	if w.chance(3) { // one that is rejected
		bodies = append(bodies, fmt.Sprintf(`{"data_set_id":%q,"timestamp":%d,"event_type":"purchase","value":%d,"currency_code":"EUR","identifiers":{}}`,
			dataset, w.now().Unix(), w.number()))
	}
	r.body = "[" + strings.Join(bodies, ",") + "]"
	if len(bodies) == 1 && w.chance(2) {
		r.path, r.body = "/v1/events", bodies[0]
	}
	if keyed {
		r.key = fmt.Sprintf("key-%d", w.number())
		w.requests = append(w.requests, r)
	}
	return r
}

// send sends a request and returns what came back.
func (w *world) send(s *servicetest.Server, r *requestModel) (servicetest.Answer, error) {
	var headers []string
	if r.key != "" {
		headers = []string{"Idempotency-Key", r.key}
	}
	return s.Call(http.MethodPost, w.datasets[r.dataset].keys[0].secret, r.path, r.body, headers...)
}

// acknowledged notes a 200.
func (w *world) acknowledged(r *requestModel, a servicetest.Answer) {
	w.Helper()
	var receipt struct {
		ID string `json:"submission_id"`
	}
	if err := json.Unmarshal(a.Body, &receipt); err != nil || receipt.ID == "" {
		w.Fatalf("got the receipt %s (%v)", a.Body, err)
	}
	r.receipt = string(a.Body)
	for _, value := range r.events {
		w.events[value].presence = once
	}
	w.receipts = append(w.receipts, receiptModel{r.dataset, receipt.ID, len(r.events)})
}

// open chooses a dataset that takes events.
func (w *world) open() (string, bool) {
	var open []string
	for _, id := range w.ids() {
		if d := w.datasets[id]; !d.disabled && len(d.keys) > 0 {
			open = append(open, id)
		}
	}
	if len(open) == 0 {
		return "", false
	}
	return pick(w, open), true
}

func (w *world) sendSome() {
	w.start()
	id, ok := w.open()
	if !ok {
		return
	}
	n, keyed := 1+w.random.IntN(5), w.chance(2)
	w.note("send %d requests to %s, keyed: %v", n, id, keyed)
	for range n {
		r := w.request(id, keyed)
		a, err := w.send(w.server, r)
		if err != nil || a.Status != http.StatusOK {
			w.Fatalf("got %d %s (%v), want 200", a.Status, a.Body, err)
		}
		w.acknowledged(r, a)
	}
}

// keyLife is for how long a replay is tried: less than a key is known at least.
const keyLife = 40 * time.Hour

// replay sends requests with a key again.
func (w *world) replay() {
	w.start()
	for range 5 {
		if len(w.requests) == 0 {
			return
		}
		r := pick(w, w.requests)
		if d := w.datasets[r.dataset]; d.disabled || len(d.keys) == 0 || w.now().Sub(r.sent) > keyLife {
			continue
		}
		w.note("replay %s of %s, known: %v", r.key, r.dataset, r.receipt != "")
		a, err := w.send(w.server, r)
		switch {
		case err == nil && r.moved && a.Status == http.StatusConflict:
			for _, value := range r.events { // they are stored: it is too late for anything else
				if e := w.events[value]; e.presence == maybe {
					e.presence = once
				}
			}
		case err != nil || a.Status != http.StatusOK:
			w.Fatalf("replay of %s: got %d %s (%v), want 200", r.key, a.Status, a.Body, err)
		case r.receipt != "" && (string(a.Body) != r.receipt || a.Header.Get("Idempotency-Replayed") != "true"):
			w.Fatalf("replay of %s: got %s, want the first receipt %s", r.key, a.Body, r.receipt)
		case r.receipt == "" && a.Header.Get("Idempotency-Replayed") == "true":
			w.learned(r, a)
		case r.receipt == "":
			for _, value := range r.events { // stored now, by the policy of now; an erasure before does not concern it
				e := w.events[value]
				e.received, e.suppressed = w.now(), e.optedOut && w.datasets[r.dataset].suppress
			}
			r.moved = false
			w.acknowledged(r, a)
		}
	}
}

// learned notes that a request whose outcome nobody knew was stored when it was first sent.
func (w *world) learned(r *requestModel, a servicetest.Answer) {
	w.Helper()
	were := map[int]presence{}
	for _, value := range r.events {
		were[value] = w.events[value].presence
	}
	w.acknowledged(r, a)
	for value, p := range were {
		if p == absent {
			w.events[value].presence = absent
		}
	}
}

// killUnderLoad kills the server while requests are on their way.
func (w *world) killUnderLoad() {
	w.start()
	id, ok := w.open()
	if !ok {
		return
	}
	wait := time.Duration(w.random.IntN(300)) * time.Millisecond
	w.note("kill the server after %v of load on %s", wait, id)
	var requests []*requestModel
	for i := range 60 {
		requests = append(requests, w.request(id, i%2 == 0))
	}
	answers := make([]servicetest.Answer, len(requests))
	var senders sync.WaitGroup
	for first := range 4 {
		senders.Go(func() {
			for i := first; i < len(requests); i += 4 {
				a, err := w.send(w.server, requests[i])
				if err != nil {
					return
				}
				answers[i] = a
				<-time.After(5 * time.Millisecond)
			}
		})
	}
	<-time.After(wait)
	server := w.server
	server.Stop(syscall.SIGKILL)
	senders.Wait()
	w.server = nil
	for i, a := range answers {
		if a.Status == http.StatusOK {
			w.acknowledged(requests[i], a)
		}
	}
}
