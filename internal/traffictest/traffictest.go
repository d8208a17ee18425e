// Package traffictest makes conversion events of the shapes that senders really send, for tests and the benchmark.
package traffictest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strconv"
)

// Mix says how events are made up, as shares from 0 to 1. The zero value is the plainest event there is.
type Mix struct {
	GPP     float64 // with a consent string
	Custom  float64 // with custom_data
	URLs    float64 // with page_url and referer
	Value   float64 // with value and currency_code
	Late    float64 // 7 to 30 days old
	Invalid float64 // rejected by a rule
}

// Standard is the mix that figures are given for: events of about 700 bytes, all accepted.
var Standard = Mix{GPP: 0.5, Custom: 0.6, URLs: 0.9, Value: 0.5}

// Lively is a mix with something of everything, for people to look at.
var Lively = Mix{GPP: 0.4, Custom: 0.5, URLs: 0.8, Value: 0.6, Late: 0.04, Invalid: 0.06}

// Source makes events. The same seed makes the same ones. It is not for concurrent use.
type Source struct {
	mix  Mix
	rand *rand.Rand
	n    uint64
	seed uint64
}

// New returns a source.
func New(mix Mix, seed uint64) *Source {
	return &Source{mix: mix, rand: rand.New(rand.NewPCG(seed, 1)), seed: seed}
}

var (
	types = []string{
		"page_view", "page_view", "page_view", "page_view", "viewed_item", "viewed_item", "search", "add_to_cart",
		"add_to_cart",
		"begin_checkout", "add_payment_info", "purchase", "purchase", "sign_up", "generate_lead", "subscribe", "start_trial",
		"custom",
	}
	sources    = []string{"website", "website", "website", "app", "offline", "crm"}
	currencies = []string{"USD", "USD", "EUR", "GBP", "JPY"}
	// Consent strings of the national section: nobody opted out, a sale opt-out, the signal of a browser.
	consents = []string{
		"DBABLA~BVVqAAAACqA.QA", "DBABLA~BVVqAAAACqA.QA", "DBABLA~BVVqAAAACqA.QA", "DBABLA~BVVmAAAACqA.QA",
		"DBABLA~BVVqAAAACqA.YA",
	}
	pages = []string{
		"/", "/product/blue-lamp", "/product/oak-table-180", "/cart", "/checkout/done", "/search?q=lamp",
		"/blog/how-to-choose-a-lamp",
	}
	coupons = []string{`["SPRING10"]`, `["WELCOME","FREESHIP"]`, `[]`}
	faults  = []string{
		`"identifiers":{"email_sha256":"jane.doe@example.com"}`,
		`"identifiers":{}`,
		`"identifiers":{"email_sha256":"0cba00ca3da1b283a57287bcceb17e35"}`,
		`"identifiers":{"ip":"203.0.113.7"}`,
	}
)

// Append adds one event of a dataset to b. now is in Unix seconds.
func (s *Source) Append(b []byte, datasetID string, now int64) []byte {
	s.n++
	at := now - s.rand.Int64N(600)
	if s.chance(s.mix.Late) {
		at = now - 8*86400 - s.rand.Int64N(20*86400)
	}
	kind := pick(s, types)
	b = append(b, `{"data_set_id":`...)
	b = strconv.AppendQuote(b, datasetID)
	b = append(b, `,"timestamp":`...)
	b = strconv.AppendInt(b, at, 10)
	b = append(b, `,"event_type":"`...)
	b = append(b, kind...)
	b = append(b, `","source":"`...)
	b = append(b, pick(s, sources)...)
	b = append(b, '"')
	if kind == "custom" {
		b = append(b, `,"custom_event_name":"spring_quiz_finished"`...)
	}
	b = append(b, `,"cp_id":"cmp-2026-`...)
	b = strconv.AppendInt(b, s.rand.Int64N(40), 10)
	b = append(b, `","cp_name":"Autumn prospecting"`...)
	if s.chance(s.mix.URLs) {
		b = fmt.Appendf(b, `,"page_url":"https://shop.example%s","referer":"https://search.example/r?id=%d"`, pick(s, pages),
			s.rand.Int64N(1e9))
	}
	if s.chance(s.mix.Value) {
		b = append(b, `,"value":`...)
		b = strconv.AppendFloat(b, float64(s.rand.Int64N(50_000))/100, 'f', 2, 64)
		b = append(b, `,"currency_code":"`...)
		b = append(b, pick(s, currencies)...)
		b = append(b, '"')
	}
	b = append(b, ',')
	b = s.appendIdentifiers(b)
	if s.chance(s.mix.GPP) {
		b = append(b, `,"privacy":{"gpp_string":"`...)
		b = append(b, pick(s, consents)...)
		b = append(b, `","gpp_sid":[7]}`...)
	}
	if s.chance(s.mix.Custom) {
		b = fmt.Appendf(b, `,"custom_data":{"order_id":"o-%d","coupons":%s,"items":%d,"loyalty":"gold"}`, s.rand.Int64N(1e9),
			pick(s, coupons), s.rand.IntN(9))
	}
	return append(b, '}')
}

// AppendBatch adds an array of n events.
func (s *Source) AppendBatch(b []byte, datasetID string, now int64, n int) []byte {
	b = append(b, '[')
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		b = s.Append(b, datasetID, now)
	}
	return append(b, ']')
}

func (s *Source) appendIdentifiers(b []byte) []byte {
	if s.chance(s.mix.Invalid) {
		return append(b, pick(s, faults)...)
	}
	b = append(b, `"identifiers":{"email_sha256":"`...)
	b = s.appendHash(b, "person")
	b = append(b, `","ip":"`...)
	b = s.appendHash(b, "address")
	b = append(b, '"')
	if s.chance(0.5) {
		b = append(b, `,"ifa":"`...)
		b = fmt.Appendf(b, "%08x-%04x-4%03x-a%03x-%012x", s.rand.Uint32(), s.rand.Uint32()&0xffff, s.rand.Uint32()&0xfff,
			s.rand.Uint32()&0xfff, s.rand.Uint64()&(1<<48-1))
		b = append(b, '"')
	}
	if s.chance(0.3) {
		b = append(b, `,"partner_id":"p-`...)
		b = strconv.AppendInt(b, s.rand.Int64N(1e12), 36)
		b = append(b, '"')
	}
	return append(b, '}')
}

// appendHash adds the SHA-256 of something that belongs to nobody.
func (s *Source) appendHash(b []byte, what string) []byte {
	sum := sha256.Sum256([]byte(what + strconv.FormatUint(s.seed, 10) + "-" + strconv.FormatUint(s.rand.Uint64N(1e7), 10)))
	return hex.AppendEncode(b, sum[:])
}

func (s *Source) chance(share float64) bool { return share > 0 && s.rand.Float64() < share }

func pick(s *Source, from []string) string { return from[s.rand.IntN(len(from))] }
