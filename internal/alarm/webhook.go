package alarm

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// How the webhook is told: how long it may take to answer, how long to wait after a failure (twice as long each time),
// and how old the end of an alarm may be. Arbitrary.
const (
	hookTime   = 10 * time.Second
	hookWait   = time.Second
	hookLonger = time.Minute
	hookOld    = 24 * time.Hour
)

// notice is the body that the webhook gets. Its members are documented: they do not change.
type notice struct {
	ID       string     `json:"id"` // the same for a repeated notice
	Alarm    string     `json:"alarm"`
	Severity string     `json:"severity"`
	Dataset  string     `json:"dataset"`
	State    string     `json:"state"`
	Since    time.Time  `json:"since"`
	Until    *time.Time `json:"until"` // null while it lasts
	Summary  string     `json:"summary"`
	Do       string     `json:"do"`
	URL      string     `json:"url"`
}

// notice is what is to be told about the episode next; false if nothing is.
func (e *Episode) notice(url string, now time.Time) (n notice, due bool) {
	n = notice{
		ID: e.ID + "-" + stateFiring, Alarm: e.Alarm, Severity: e.Severity, Dataset: e.Dataset, State: stateFiring,
		Since: e.Since, Summary: e.Summary, Do: e.Do, URL: strings.TrimSuffix(url, "/") + cmp.Or(e.Path, "/system"),
	}
	switch {
	case !e.Until.IsZero() && now.Sub(e.Until) > hookOld:
		return n, false
	case e.Told == "":
		return n, true
	case e.Told == stateFiring && !e.Until.IsZero():
		n.ID, n.State, n.Until = e.ID+"-"+stateResolved, stateResolved, &e.Until
		return n, true
	}
	return n, false
}

// tellWebhook tells of each beginning and each end while this node is the one that tells. A notice that was told and
// not yet noted is told again, with the same id.
func (w *Watch) tellWebhook(ctx context.Context, holds *atomic.Bool) {
	client := &http.Client{Timeout: hookTime, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	wait := hookWait
	for {
		pause := everySecond
		if holds.Load() {
			if err := w.tellAll(ctx, client); err == nil {
				wait = hookWait
			} else if ctx.Err() == nil {
				w.hookFailures.Add(1)
				w.o.Log.Warn("the webhook did not take an alarm; it is told again", "error", err, "after", wait)
				pause, wait = wait, min(2*wait, hookLonger)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// tellAll tells everything that is due, oldest first, until one fails.
func (w *Watch) tellAll(ctx context.Context, client *http.Client) error {
	for _, e := range w.history.episodes() {
		for {
			n, due := e.notice(w.o.URL, w.o.Now().UTC())
			if !due {
				break
			}
			if err := post(ctx, client, w.o.Webhook, n); err != nil {
				return err
			}
			e.Told = n.State
			w.history.tell(e.ID, n.State)
		}
	}
	return nil
}

// post sends a notice. An error does not show the address, which may hold a secret.
func post(ctx context.Context, client *http.Client, address string, n notice) error {
	body, err := json.Marshal(n)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("the address of the webhook cannot be read")
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "sluice")
	resp, err := client.Do(r)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // without the address
		}
		return err
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("it answered %d", resp.StatusCode)
	}
	return nil
}
