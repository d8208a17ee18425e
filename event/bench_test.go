package event_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"sluice/event"
)

var benchNow = time.Date(2026, 11, 14, 23, 40, 5, 0, time.UTC)

// typical is an event of about 700 bytes, as a shop's server sends it; n makes each one different.
func typical(n int, privacy string) string {
	return fmt.Sprintf(`{"data_set_id":"spring-2026","timestamp":%d,"event_type":"purchase","identifiers":{"email_sha256":"%064x","ifa":"97987bca-ae59-4c7d-94ba-ee4f%08x","ip":"%064x","partner_id":"crm-%08x"},`+
		`"source":"website","cp_id":"cmp-77-emea","cp_name":"Spring sale 2026, returning buyers","referer":"https://www.example.com/search?q=running+shoes&page=2","page_url":"https://shop.example.com/checkout/thank-you?order=%d&utm_source=newsletter&utm_medium=email",`+
		`"value":%d.95,"currency_code":"USD",%s"custom_data":{"order_id":"A-%d","coupons":["SPRING10","VIP"],"items":2,"shipping":"express"},"mmt_only":false,"schema_version":"1.0"}`,
		benchNow.Unix()-int64(n), uint64(n+1)*0x9e3779b97f4a7c15, uint32(n), uint64(n+7)*0xc2b2ae3d27d4eb4f, n, 100000+n, n%500, privacy, 100000+n)
}

func typicalBatch(size int, privacy func(n int) string) string {
	events := make([]string, size)
	for n := range events {
		events[n] = typical(n, privacy(n))
	}
	return "[" + strings.Join(events, ",") + "]"
}

func noPrivacy(int) string { return "" }

// somePrivacy is a usnat section with GPC, what most American senders have; eight different ones in all, for that is
// how alike real people's strings are.
func somePrivacy(n int) string { return privacyOf(n%8, 0, 0) }

// ownPrivacy is a string for each event alone: the worst case.
func ownPrivacy(n int) string { return privacyOf(n%8, n/8%8, n/64%8) }

// privacyOf varies sensitive-data values, which restrict nothing.
func privacyOf(a, b, c int) string {
	const digits = "AIQgkioh"
	return `"privacy":{"gpp_string":"DBABLA~CQCAg` + string([]byte{digits[a], digits[b], digits[c]}) + `SABY.QA","gpp_sid":[7]},`
}

func BenchmarkBatch(b *testing.B) { benchmark(b, typicalBatch(500, noPrivacy), event.Batch, 500) }

func BenchmarkBatchGPP(b *testing.B) { benchmark(b, typicalBatch(500, somePrivacy), event.Batch, 500) }

func BenchmarkBatchOwnGPP(b *testing.B) {
	benchmark(b, typicalBatch(500, ownPrivacy), event.Batch, 500)
}

func BenchmarkSingle(b *testing.B) {
	benchmark(b, typical(1, ""), event.Single, 1)
}

func benchmark(b *testing.B, body string, shape event.Shape, events int) {
	var d event.Decoder
	policy := event.Policy{DatasetID: "spring-2026"}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		res, err := d.Decode(body, shape, policy, benchNow)
		if err != nil || len(res.Rows) != events || len(res.Warnings) > 0 {
			b.Fatalf("got %v, %+v", err, res)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*events), "ns/event")
	b.ReportMetric(float64(len(body)/events), "bytes/event")
}

// BenchmarkReference reads the same batch's tokens with jsontext and does nothing with them: the figure to hold the
// others against, for a machine that is busy is slow at everything.
func BenchmarkReference(b *testing.B) {
	body := typicalBatch(500, noPrivacy)
	d := jsontext.NewDecoder(strings.NewReader(body))
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		d.Reset(strings.NewReader(body))
		for {
			if _, err := d.ReadToken(); err != nil {
				break
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*500), "ns/event")
}

// TestAllocations holds that a Decoder allocates nothing once it has seen a batch.
func TestAllocations(t *testing.T) {
	var d event.Decoder
	policy := event.Policy{DatasetID: "spring-2026"}
	for name, body := range map[string]string{"plain": typicalBatch(500, noPrivacy), "with eight consent strings": typicalBatch(500, somePrivacy), "with many": typicalBatch(500, ownPrivacy)} {
		allocs := testing.AllocsPerRun(5, func() { d.Decode(body, event.Batch, policy, benchNow) })
		if allocs > 1 {
			t.Errorf("%s: got %v allocations for 500 events, want none", name, allocs)
		}
	}
}

// BenchmarkConsentCost decodes the same events without and with consent strings in turn, so that a busy machine slows
// both, and tells what a string costs as a share of an event without.
func BenchmarkConsentCost(b *testing.B) {
	for _, c := range []struct {
		name    string
		events  int
		privacy func(int) string
		write   *strings.Replacer
	}{
		{"alike", 500, somePrivacy, strings.NewReplacer()},
		{"own", 500, ownPrivacy, strings.NewReplacer()},
		{"single", 1, somePrivacy, strings.NewReplacer()},
		{"spaced", 500, ownPrivacy, strings.NewReplacer(`":`, `": `, `,"`, `, "`)}, // as Python writes JSON by default
	} {
		b.Run(c.name, func(b *testing.B) {
			var d event.Decoder
			policy := event.Policy{DatasetID: "spring-2026"}
			bodies := [2]string{c.write.Replace(typicalBatch(c.events, noPrivacy)), c.write.Replace(typicalBatch(c.events, c.privacy))}
			var took [2]time.Duration
			for b.Loop() {
				for i, body := range bodies {
					start := time.Now()
					for range 500 / c.events {
						if res, err := d.Decode(body, event.Batch, policy, benchNow); err != nil || len(res.Rows) != c.events {
							b.Fatalf("got %v, %+v", err, res)
						}
						d.Reset()
					}
					took[i] += time.Since(start)
				}
			}
			b.ReportMetric(100*(took[1].Seconds()/took[0].Seconds()-1), "%more")
		})
	}
}
