// Package sent makes events as senders send them, with the row that must be stored for each. The row follows from the
// event alone, by the rules that docs/api.md gives: no code of the service takes part.
package sent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"
)

// Row is a stored row in the form that all readers are compared in: a member for each column that is not null. Text,
// UUIDs and hashes (hexadecimal) are strings, times microseconds as int64, integers int64, numbers float64, lists
// []int64.
type Row map[string]any

// Event is one event and what becomes of it. Row holds everything but what the receipt tells: event_id, submission_id,
// submission_index and received_at. A rejected event has no Row, but Code and Field.
type Event struct {
	Body map[string]any
	Row  Row
	Code string
	At   string // pointer to the field that breaks the rule
}

// Generator makes the same events for the same seed.
type Generator struct {
	rand *rand.Rand
	n    int
}

// New starts a generator.
func New(seed uint64) *Generator { return &Generator{rand: rand.New(rand.NewPCG(seed, 10))} }

// optional are the members that an event may leave out, in an order that makes neighbours independent of each other.
var optional = []string{
	"custom_event_name", "source", "cp_name", "referer", "page_url", "value", "currency_code", "email_sha256", "ifa", "ip",
	"partner_id", "gpp_string", "us_privacy_string", "custom_data", "id",
}

// consents are consent strings and what they allow. The last one forbids all use.
var consents = []struct {
	gpp     string
	sid     int64
	outcome string
}{
	{"DBABLA~BVQqAAAAAgA", 7, "unrestricted"},
	{"DBABLA~BVQaAAAAAgA", 7, "measurement_only"},
	{"DBABLA~ClViiJlAIEZU.YA", 7, "suppressed"},
}

// Events makes n events of a dataset, sorted by their time, which is as the table sorts them. Each member is present in
// a random share of the events, but for four members that round chooses: of them a run of y values begins at the
// y-th event and no other follows, for y from 1 on.
func (g *Generator) Events(dataset string, n, round int, now time.Time) []Event {
	share := map[string]float64{}
	first := map[string]int{}
	for _, name := range optional {
		share[name] = []float64{0, 0.03, 0.3, 0.7, 1}[g.rand.IntN(5)]
	}
	for k := range 4 {
		first[optional[(round+3*k)%len(optional)]] = 1 + k
	}
	var out []Event
	late := g.rand.IntN(3)
	for i := range n {
		at := now.Unix() - 3600 + int64(i)
		if i < late {
			at -= 8 * 24 * 3600
		}
		has := map[string]bool{}
		for _, name := range optional {
			if y, ok := first[name]; ok {
				has[name] = i >= y && i < 2*y
			} else {
				has[name] = g.rand.Float64() < share[name]
			}
		}
		if !has["email_sha256"] && !has["ip"] {
			has["ifa"] = true
		}
		out = append(out, g.event(dataset, at, i < late, has))
	}
	return out
}

// Rejected makes an event that breaks a rule.
func (g *Generator) Rejected(dataset string, now time.Time) Event {
	e := g.event(dataset, now.Unix()-60, false, map[string]bool{"ifa": true})
	switch g.rand.IntN(3) {
	case 0:
		delete(e.Body, "event_type")
		return Event{Body: e.Body, Code: "MISSING_FIELD", At: "/event_type"}
	case 1:
		e.Body["timestamp"] = now.Unix() - 40*24*3600
		return Event{Body: e.Body, Code: "TIMESTAMP_TOO_OLD", At: "/timestamp"}
	}
	e.Body["event_type"] = "Purchase"
	return Event{Body: e.Body, Code: "INVALID_EVENT_TYPE", At: "/event_type"}
}

var types = []string{"purchase", "refund", "add_to_cart", "page_view", "generate_lead"}

func (g *Generator) event(dataset string, at int64, late bool, has map[string]bool) Event {
	g.n++
	body := map[string]any{"data_set_id": dataset, "timestamp": at, "event_type": types[g.rand.IntN(len(types))]}
	row := Row{
		"data_set_id": dataset, "event_time": at * 1e6, "cp_id": dataset, "late": late, "mmt_only": false,
		"schema_version": "1.0",
	}
	put := func(in map[string]any, name, column string, value any) {
		if has[name] {
			in[name], row[column] = value, value
		}
	}
	if has["custom_event_name"] {
		body["event_type"] = "custom"
	}
	if has["value"] {
		has["currency_code"] = true
	}
	row["event_type"] = body["event_type"]
	put(body, "custom_event_name", "custom_event_name", g.word("step"))
	put(body, "source", "source", []string{"web", "app", "phone"}[g.rand.IntN(3)])
	put(body, "cp_name", "cp_name", g.word("Żółta kampania 🛒"))
	put(body, "referer", "referer", "https://search.example/?q="+g.word("shoes-"))
	put(body, "page_url", "page_url", "https://shop.example/"+g.word("p"))
	put(body, "value", "value", []float64{0, 0.1, 19.99, 1e15, 123456.789}[g.rand.IntN(5)])
	put(body, "currency_code", "currency_code", []string{"EUR", "PLN", "USD"}[g.rand.IntN(3)])
	identifiers := map[string]any{}
	put(identifiers, "email_sha256", "email_sha256", g.digest("person"))
	put(identifiers, "ifa", "ifa", g.uuid())
	put(identifiers, "ip", "ip_sha256", g.digest("address"))
	put(identifiers, "partner_id", "partner_id", g.word("partner-"))
	body["identifiers"] = identifiers
	if has["custom_data"] {
		text := fmt.Sprintf(`{"order_id":"A-%d","total":%d.50,"lines":[1,2,{"sku":"żółć"}]}`, g.n, g.rand.IntN(100))
		body["custom_data"], row["custom_data"] = json.RawMessage(text), text
	}
	g.report(body, row, has)
	g.consent(body, row, has)
	return Event{Body: body, Row: row}
}

// report adds the sender's own ids: one for the report, in either of its places, and that of the order.
func (g *Generator) report(body map[string]any, row Row, has map[string]bool) {
	if has["custom_data"] {
		row["order_id"] = fmt.Sprint("A-", g.n)
	}
	if !has["id"] {
		return
	}
	switch g.n % 3 {
	case 0:
		body["id"], row["sender_event_id"] = g.n, fmt.Sprint(g.n)
	case 1:
		body["id"], row["sender_event_id"] = " ż ", " ż "
	case 2:
		body["event_id"], row["sender_event_id"] = "e-1", "e-1"
	}
}

// consent adds the signals and what follows from them.
func (g *Generator) consent(body map[string]any, row Row, has map[string]bool) {
	privacy := map[string]any{}
	outcome := consents[0].outcome
	if has["us_privacy_string"] {
		privacy["us_privacy_string"], row["us_privacy_string"] = "1YNN", "1YNN"
	}
	// What a suppressed row keeps of these members is not the same in every version: it is sent without them.
	plain := !has["custom_event_name"] && !has["source"] && !has["cp_name"] && !has["us_privacy_string"]
	if !plain && g.rand.IntN(4) == 0 {
		body["cp_id"] = g.word("campaign-")
		row["cp_id"] = body["cp_id"]
		plain = false
	}
	if has["gpp_string"] {
		n := len(consents)
		if !plain {
			n--
		}
		c := consents[g.rand.IntN(n)]
		outcome = c.outcome
		privacy["gpp_string"], privacy["gpp_sid"] = c.gpp, []int64{c.sid}
		row["gpp_string"], row["gpp_sid"] = c.gpp, []int64{c.sid}
	}
	if g.rand.IntN(10) == 0 {
		body["mmt_only"], row["mmt_only"] = true, true
		if outcome == "unrestricted" {
			outcome = "measurement_only"
		}
	}
	if len(privacy) > 0 {
		body["privacy"] = privacy
	}
	row["privacy"] = outcome
	row["optimization_eligible"] = outcome == "unrestricted" && row["late"] == false
	if outcome == "suppressed" {
		for _, name := range []string{"email_sha256", "ifa", "ip_sha256", "partner_id", "gpp_string", "gpp_sid", "custom_data", "referer", "page_url", "sender_event_id", "order_id"} {
			delete(row, name)
		}
	}
}

func (g *Generator) word(prefix string) string { return fmt.Sprint(prefix, g.rand.IntN(40)) }

func (g *Generator) digest(what string) string {
	h := sha256.Sum256(fmt.Append(nil, what, g.rand.Uint64()))
	return hex.EncodeToString(h[:])
}

func (g *Generator) uuid() string {
	return fmt.Sprintf("%08x-0000-4000-8000-%012x", g.rand.Uint32(), g.rand.Uint64()>>16)
}
