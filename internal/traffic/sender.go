package traffic

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Sender sends sample events through the API, as a sender would.
type Sender struct {
	URL, Key, Dataset string
	Source            *Source

	client   http.Client
	sent     int
	accepted int
	rejected int
	failed   int
}

// Run sends a batch of a second's events every second until ctx ends, and says every ten seconds how it goes.
func (d *Sender) Run(ctx context.Context, words io.Writer, rate int) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for second := 0; ; second++ {
		for left := rate; left > 0 && ctx.Err() == nil; {
			n := min(left, 500)
			d.send(ctx, n)
			left -= n
		}
		if second%10 == 0 && d.sent > 0 {
			fmt.Fprintf(words, "%s  sent %d · accepted %d · rejected, each with its reason %d · failed %d\n",
				time.Now().Format("15:04:05"), d.sent, d.accepted, d.rejected, d.failed)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (d *Sender) send(ctx context.Context, n int) {
	d.sent += n
	body := d.Source.AppendBatch(nil, d.Dataset, time.Now().Unix(), n)
	// An answer on its way is awaited even when the demo ends: what was accepted is then said to be.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, d.URL+"/v1/events/batch", bytes.NewReader(body))
	if err != nil {
		d.failed += n
		return
	}
	r.Header.Set("Authorization", "Bearer "+d.Key)
	r.Header.Set("Content-Type", "application/json")
	answer, err := d.client.Do(r)
	if err != nil {
		d.failed += n
		return
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body)
	var accepted, rejected int
	_, _ = fmt.Sscan(answer.Header.Get("X-Events-Accepted"), &accepted)
	_, _ = fmt.Sscan(answer.Header.Get("X-Events-Rejected"), &rejected)
	d.accepted += accepted
	d.rejected += rejected
	d.failed += n - accepted - rejected
}
