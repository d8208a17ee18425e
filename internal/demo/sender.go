package demo

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Sender sends a story through the API, as its senders would.
type Sender struct {
	URL   string
	Keys  map[string]string // by dataset
	Story *Story

	Sent, Accepted, Rejected int // events so far; the rest of those sent got no answer that says so

	client http.Client
}

// Past sends what happened up to a time. Before each hour it sets the clock of the service, which must read it.
func (d *Sender) Past(ctx context.Context, now time.Time, clock func(time.Time)) {
	for hour := int64(0); d.Story.Begin+hour*3600 < now.Unix() && ctx.Err() == nil; hour++ {
		clock(time.Unix(min(d.Story.Begin+hour*3600+3599, now.Unix()), 0))
		for _, shop := range d.Story.Senders {
			d.send(ctx, shop.Dataset, shop.Hour(hour, now.Unix()))
		}
	}
}

// Run sends a second's events every second until ctx ends, and calls say every ten seconds.
func (d *Sender) Run(ctx context.Context, rate int, say func()) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for second := 0; ; second++ {
		// Three events of four are of the first sender, the fourth is of the second. The third is silent.
		fourth := (second+1)*rate/4 - second*rate/4
		for i, n := range []int{rate - fourth, fourth} {
			shop := d.Story.Senders[i]
			d.send(ctx, shop.Dataset, shop.Next(time.Now().Unix(), n))
		}
		if second%10 == 0 {
			say()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// send sends events of a dataset in batches.
func (d *Sender) send(ctx context.Context, dataset string, events []string) {
	for batch := range slices.Chunk(events, 500) {
		if ctx.Err() != nil {
			return
		}
		accepted, rejected := d.post(ctx, dataset, "["+strings.Join(batch, ",")+"]")
		d.Sent += len(batch)
		d.Accepted += accepted
		d.Rejected += rejected
	}
}

func (d *Sender) post(ctx context.Context, dataset, body string) (accepted, rejected int) {
	// An answer on its way is awaited even when the demo ends: what was accepted is then said to be.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, d.URL+"/v1/events/batch", strings.NewReader(body))
	if err != nil {
		return 0, 0
	}
	r.Header.Set("Authorization", "Bearer "+d.Keys[dataset])
	r.Header.Set("Content-Type", "application/json")
	answer, err := d.client.Do(r)
	if err != nil {
		return 0, 0
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body)
	_, _ = fmt.Sscan(answer.Header.Get("X-Events-Accepted"), &accepted)
	_, _ = fmt.Sscan(answer.Header.Get("X-Events-Rejected"), &rejected)
	return accepted, rejected
}
