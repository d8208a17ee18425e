package convert

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"sluice/event"
)

// FuzzBody holds what is true of every body: no panic; what is converted is accepted by the rules; and an event with a
// consent field that is set to a refusal is restricted or left out.
func FuzzBody(f *testing.F) {
	for i, name := range Names() {
		f.Add(uint8(i), with(name, nil))
		f.Add(uint8(i), with(name, map[string]string{"EVENT": `"opt_out":true`, "USER": `"att_status":"DENIED"`}))
	}
	names := Names()
	f.Fuzz(func(t *testing.T, n uint8, body string) {
		platform := names[int(n)%len(names)]
		c := New(platform, Options{Dataset: "spring", Now: func() time.Time { return time.Unix(1794657600, 0) }})
		var d event.Decoder
		for _, out := range c.Body([]byte(body)) {
			if out.Fault != nil {
				continue
			}
			var e struct {
				Timestamp int64 `json:"timestamp"`
			}
			if err := json.Unmarshal(out.Event, &e); err != nil {
				t.Fatalf("%s: %v", out.Event, err)
			}
			res, whole := d.Decode(string(out.Event), event.Single, event.Policy{}, time.Unix(e.Timestamp, 0))
			if whole != nil || len(res.Rows) != 1 {
				t.Fatalf("%s: %v, %+v", out.Event, whole, res)
			}
		}
		// The same events with a refusal that no table has must all be restricted.
		var request map[string]any
		if json.Unmarshal([]byte(body), &request) != nil || request == nil {
			return
		}
		request["us_privacy"] = "1YYN"
		refused, err := json.Marshal(request)
		if err != nil {
			return
		}
		for _, out := range c.Body(refused) {
			if out.Fault == nil && !strings.Contains(string(out.Event), `"mmt_only":true`) {
				t.Fatalf("%s: %s is not restricted", refused, out.Event)
			}
		}
	})
}
