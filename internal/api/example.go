package api

import (
	"net/http"
	"time"

	"sluice/event"
	"sluice/internal/submission"
)

// example is a request for the documentation. Its answer is made by the code that answers senders, and a test
// sends every one of them to a running server.
type example struct {
	name    string // a JSON member name
	summary string
	route   int
	strict  bool
	body    string // HASH stands for exampleEmail, NOW and WEEK_AGO for timestamps
}

// exampleDataset is the dataset of the examples, and of the demo: what is copied from the documentation works there.
const exampleDataset = "shop"

// Two digests of invented values, written out so that a reader sees what goes on the wire.
const (
	exampleEmail = "973dfe463ec85785f5f95af5ba3906eedb2d931c24e69824a89ea65dba4e813b" // test@example.com
	exampleIP    = "e183220b699c10a83ca7be3433d228ed0860a5ecf9480f83e9655f16bad58908" // 198.51.100.7
)

var examples = []example{
	{
		"purchase", "A purchase", routeEvents, false,
		`{"data_set_id":"shop","timestamp":NOW,"event_type":"purchase","identifiers":{"email_sha256":"HASH"},` +
			`"value":129.95,"currency_code":"USD","source":"website",` +
			`"custom_data":{"order_id":"A-1001","coupons":["SPRING10"]}}`,
	},
	{
		"custom", "An event with a name of your own", routeEvents, false,
		`{"data_set_id":"shop","timestamp":NOW,"event_type":"custom","custom_event_name":"quiz_finished",` +
			`"identifiers":{"ifa":"97987bca-ae59-4c7d-94ba-ee4f19ab8c21"}}`,
	},
	{
		"late", "An event that is accepted with a warning", routeEvents, false,
		`{"data_set_id":"shop","timestamp":WEEK_AGO,"event_type":"sign_up","identifiers":{"ip":"` + exampleIP + `"}}`,
	},
	{
		"plaintext", "An e-mail address that was not hashed", routeEvents, false,
		`{"data_set_id":"shop","timestamp":NOW,"event_type":"purchase","identifiers":{"email_sha256":"test@example.com"}}`,
	},
	{
		"two_events", "Two events", routeBatch, false,
		`[{"data_set_id":"shop","timestamp":NOW,"event_type":"add_to_cart","identifiers":{"email_sha256":"HASH"}},` +
			`{"data_set_id":"shop","timestamp":NOW,"event_type":"page_view","identifiers":{"email_sha256":"HASH"},` +
			`"page_url":"https://shop.example.com/checkout"}]`,
	},
	{"one_rejected", "One valid event and one that is rejected", routeBatch, false, exampleMixed},
	{"strict", "The same, all or nothing", routeBatch, true, exampleMixed},
	{
		"consent", "An event of someone who opted out of sale", routeValidate, false,
		`{"data_set_id":"shop","timestamp":NOW,"event_type":"purchase","identifiers":{"email_sha256":"HASH"},` +
			`"privacy":{"gpp_string":"DBABLA~BVQaAAAAAgA","gpp_sid":[7]}}`,
	},
}

// exampleMixed has a valid event, and one that is rejected.
const exampleMixed = `[{"data_set_id":"shop","timestamp":NOW,"event_type":"search",` +
	`"identifiers":{"email_sha256":"HASH"}},` +
	`{"data_set_id":"shop","timestamp":NOW,"event_type":"Purchase","identifiers":{"email_sha256":"HASH"}}]`

// Ids of the answers in the documentation.
const exampleRequest = "5f2b6c1e9a7d4b0c8e3f1a2b3c4d5e6f"

// decode reads the example as a server would.
func (e *example) decode(now time.Time) (*event.Result, *event.Error) {
	d := event.Decoder{Explain: e.route == routeValidate}
	shape := event.Single
	switch e.route {
	case routeBatch:
		shape = event.Batch
	case routeValidate:
		shape = event.Any
	}
	return d.Decode(exampleAt(e.body, now), shape, event.Policy{DatasetID: exampleDataset}, now)
}

// valid says whether every event of the example is accepted.
func (e *example) valid(now time.Time) bool {
	res, bad := e.decode(now)
	return bad == nil && res.Rejected == 0
}

// answer is what a server says to the example at now, but for the ids.
func (e *example) answer(now time.Time) (status int, body []byte) {
	kind := submission.Single
	if e.route == routeBatch {
		kind = submission.Batch
	}
	res, bad := e.decode(now)
	r := whole(res, bad, exampleDataset)
	if r == nil && e.route == routeValidate {
		body, _ = appendValidation(nil, res, maxShown, func(int) error { return nil }) // only reserve makes an error
		return http.StatusOK, body
	}
	if r == nil && (len(res.Rows) == 0 || e.strict && res.Rejected > 0) {
		r = none(res)
	}
	if r != nil {
		return r.status(), r.append(nil, exampleRequest)
	}
	sub := submission.Submission{Kind: kind, ReceivedAt: now.Unix(), Extra: string(appendExtra(nil, res))}
	sub.ID = event.ID{0x01, 0x97, 0xf3, 0xa0, 0x1c, 0x2b, 0x8c, 0x41, 0x9d, 0xb7, 0x52, 0x0e, 0x63, 0xf8, 0x5e, 0x21}
	return http.StatusOK, sub.AppendReceipt(nil)
}
