package demo

import (
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/event"
)

// A story is the same whenever it is told, and has what the demo shows.
func TestStory(t *testing.T) {
	noon := time.Date(2026, 11, 14, 12, 0, 0, 0, time.UTC)
	s, later := NewStory(1, noon.Unix()), NewStory(1, noon.Add(30*time.Hour).Unix())
	for i, shop := range s.Senders {
		types, accepted, rejected := map[string]int{}, [Days]int{}, [Days]int{}
		for hour := range int64(Days * 24) {
			events := shop.Hour(hour, noon.Unix())
			if hour < 30 {
				if again := later.Senders[i].Hour(hour, noon.Unix()+30*3600); len(again) != len(events) {
					t.Fatalf("%s, hour %d: %d events and then %d", shop.Dataset, hour, len(events), len(again))
				}
			}
			for _, one := range events {
				_, kind, _ := strings.Cut(one, `"event_type":"`)
				kind, _, _ = strings.Cut(kind, `"`)
				types[kind]++
			}
			if day := hour / 24; day > 0 && day < Days-1 {
				continue // the edges tell
			}
			received := time.Unix(s.Begin+hour*3600+3599, 0)
			for batch := range slices.Chunk(events, event.MaxEvents) {
				var d event.Decoder
				got, problem := d.Decode("["+strings.Join(batch, ",")+"]", event.Batch, event.Policy{DatasetID: shop.Dataset}, received)
				if problem != nil {
					t.Fatal(problem)
				}
				accepted[hour/24] += len(got.Rows)
				rejected[hour/24] += got.Rejected
			}
		}
		for _, kind := range []string{"ad_impression", "page_view", "add_to_cart", "begin_checkout", "purchase", "refund"} {
			if types[kind] == 0 {
				t.Errorf("%s has no %s", shop.Dataset, kind)
			}
		}
		last := Days - 1
		if bad := rejected[last] > accepted[last]; bad != (shop.Dataset == "travel") {
			t.Errorf("%s: %d accepted and %d rejected on the last day", shop.Dataset, accepted[last], rejected[last])
		}
		if silent := accepted[last] == 0; silent != (shop.Dataset == "outlet") {
			t.Errorf("%s: %d accepted on the last day", shop.Dataset, accepted[last])
		}
		if rejected[0]*20 > accepted[0] {
			t.Errorf("%s: %d accepted and %d rejected on the first day", shop.Dataset, accepted[0], rejected[0])
		}
		if now := shop.Next(noon.Unix(), 10); len(now) != 10 && shop.Dataset != "outlet" {
			t.Errorf("%s: %d events now", shop.Dataset, len(now))
		}
	}
}
