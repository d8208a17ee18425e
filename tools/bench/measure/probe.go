package measure

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Probe measures freshness: it sends one event and asks for its submission until it is PROCESSED, which is when
// the event can be read from the table.
type Probe struct {
	URL     string // of the server
	Dataset Dataset
	Client  *http.Client
	Now     func() time.Time
}

// pause is how long the probe waits before it asks again: it measures to this grain, and costs the server little.
const pause = 100 * time.Millisecond

// A probe begins so long after the one before, whether that one has ended or not. Else each would begin right after a
// commit, and wait longer than other events do. Arbitrary; no part of the time between two commits.
const probeEvery = 700 * time.Millisecond

// Run begins probes until ctx ends, and returns the times of all that it has begun and that were answered.
func (p *Probe) Run(ctx context.Context) (out []time.Duration) {
	work, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleAtMost)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for {
		wg.Go(func() {
			if d, err := p.Once(work); err == nil {
				mu.Lock()
				out = append(out, d)
				mu.Unlock()
			}
		})
		if !sleep(ctx, probeEvery) {
			wg.Wait()
			return out
		}
	}
}

// Once sends an event and returns how long it took from its receipt until it was PROCESSED. With one partition
// everything acknowledged before it is then in the table too.
func (p *Probe) Once(ctx context.Context) (time.Duration, error) {
	event := fmt.Sprintf(`{"data_set_id":%q,"timestamp":%d,"event_type":"page_view","identifiers":{"ifa":"8a6e0804-2bd0-4672-b79d-d97027f9071a"}}`,
		p.Dataset.ID, p.Now().Unix())
	var receipt struct {
		ID     string `json:"submission_id"`
		Status string `json:"status"`
	}
	if err := p.ask(ctx, http.MethodPost, "/v1/events", event, &receipt); err != nil {
		return 0, err
	}
	start := p.Now()
	for {
		if err := p.ask(ctx, http.MethodGet, "/v1/submissions/"+receipt.ID, "", &receipt); err != nil {
			return 0, err
		}
		if receipt.Status == "PROCESSED" {
			return p.Now().Sub(start), nil
		}
		if !sleep(ctx, pause) {
			return 0, ctx.Err()
		}
	}
}

// Known waits until the server knows the dataset and its key.
func (p *Probe) Known(ctx context.Context) error {
	for {
		var schema json.RawMessage
		err := p.ask(ctx, http.MethodGet, "/v1/schema/events", "", &schema)
		if err == nil {
			return nil
		}
		if !sleep(ctx, pause) {
			return err
		}
	}
}

func (p *Probe) ask(ctx context.Context, method, path, body string, into any) error {
	r, err := http.NewRequestWithContext(ctx, method, p.URL+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+p.Dataset.Key())
	r.Header.Set("Content-Type", "application/json")
	answer, err := p.Client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return statusError(answer.StatusCode)
	}
	return json.NewDecoder(bytes.NewReader(text)).Decode(into)
}
