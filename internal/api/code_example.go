package api

import (
	"strconv"
	"strings"
	"time"

	"sluice/event"
)

// codeExample shows what causes a code, and what to send instead. For codes of events both are members of an event,
// whose other members the test has; it holds every pair against the validator. For codes of requests they are words.
type codeExample struct {
	Wrong string
	Right string // "": there is nothing to correct
}

// Parts that several examples share.
const (
	exampleOptOut  = `"privacy":{"gpp_string":"DBABLA~BVQaAAAAAgA","gpp_sid":[7]}`
	exampleTC      = "CQgYw8AQgYw8AEqNqrENisEgDpiAAELgAB5YA6ut383d-2VfvPvX43-9fyAOy7f6vv2Ubn9dv_vP1_WuwAAA"
	exampleHash    = `"identifiers":{"email_sha256":"HASH"}`
	exampleNow     = `"timestamp":NOW`
	examplePrice   = `"value":129.95,"currency_code":"EUR"`
	exampleNothing = `"identifiers":{"email_sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",` +
		"\n" + ` "ip":"` + exampleIP + `"}`
	exampleBearer   = "Authorization: Bearer $SLUICE_API_KEY"
	exampleSameKey  = "Idempotency-Key: 5f0c6a1e-8b1d-4b6f-9a57-2d0f6f4f3c11   with the same body as before"
	exampleWaitThen = "the same request again, with the same Idempotency-Key, not before Retry-After"
)

var codeExamples = map[event.Code]codeExample{
	event.MalformedJSON:     {`"value":129,95,"currency_code":"EUR"`, examplePrice},
	event.DuplicateField:    {`"source":"app","source":"website"`, `"source":"website"`},
	event.InvalidType:       {`"value":"129.95","currency_code":"EUR"`, examplePrice},
	event.MissingField:      {`"value":129.95`, examplePrice},
	event.InvalidEventType:  {`"event_type":"Purchase"`, `"event_type":"purchase"`},
	event.InvalidTimestamp:  {`"timestamp":"2026-11-14T23:40:05Z"`, exampleNow},
	event.TimestampTooOld:   {`"timestamp":MONTH_AGO`, exampleNow},
	event.TimestampInFuture: {`"timestamp":TOMORROW`, exampleNow},
	event.MissingIdentifier: {
		`"identifiers":{"partner_id":"crm-8f14e45f"}`,
		`"identifiers":{"partner_id":"crm-8f14e45f","email_sha256":"HASH"}`,
	},
	event.PlaintextPII:             {`"identifiers":{"email_sha256":"test@example.com"}`, exampleHash},
	event.InvalidIdentifier:        {`"identifiers":{"email_sha256":"55502f40dc8b7c769880b10874abc9d0"}`, exampleHash},
	event.InvalidCurrency:          {`"value":129.95,"currency_code":"EURO"`, examplePrice},
	event.InvalidGPPString:         {`"privacy":{"gpp_string":"BVQaAAAAAgA","gpp_sid":[7]}`, exampleOptOut},
	event.InvalidGPPSID:            {`"privacy":{"gpp_string":"DBABLA~BVQaAAAAAgA","gpp_sid":["7"]}`, exampleOptOut},
	event.InvalidUSPrivacyString:   {`"privacy":{"us_privacy_string":"1yny"}`, `"privacy":{"us_privacy_string":"1YNY"}`},
	event.UnsupportedSchemaVersion: {`"schema_version":"2.0"`, `"schema_version":"1.0"`},
	event.InvalidCustomData: {
		`"custom_data":{"cart":{"items":[{"price":{"net":100}}]}}`,
		`"custom_data":{"cart":{"items":[100]}}`,
	},
	event.FieldTooLong: {
		`"source":"the website that we opened in spring, on its page for returning customers"`, `"source":"website"`,
	},

	event.LateEvent:              {`"timestamp":WEEK_AGO`, exampleNow},
	event.TimestampMilliseconds:  {`"timestamp":NOW000`, exampleNow},
	event.ClockSkew:              {`"timestamp":AHEAD`, exampleNow},
	event.HashCaseNormalized:     {`"identifiers":{"email_sha256":"` + strings.ToUpper(exampleEmail) + `"}`, exampleHash},
	event.CurrencyCaseNormalized: {`"value":129.95,"currency_code":"eur"`, examplePrice},
	event.UnknownField:           {`"order_id":"A-1001"`, `"custom_data":{"order_id":"A-1001"}`},
	event.EventIDIgnored:         {`"id":{"order":"A-1001","step":"paid"}`, `"id":"A-1001-paid"`},
	event.CustomEventNameIgnored: {
		`"event_type":"purchase","custom_event_name":"quiz_finished"`,
		`"event_type":"custom","custom_event_name":"quiz_finished"`,
	},
	event.ExtIgnored:     {`"ext":{"order_id":"A-1001"}`, `"custom_data":{"order_id":"A-1001"}`},
	event.GPPSIDMismatch: {`"privacy":{"gpp_string":"DBABLA~BVQaAAAAAgA","gpp_sid":[8]}`, exampleOptOut},
	event.GPPSIDIgnored:  {`"privacy":{"gpp_sid":[7]}`, exampleOptOut},
	event.IFAZeroed: {
		`"identifiers":{"email_sha256":"HASH",` + "\n" + ` "ifa":"00000000-0000-0000-0000-000000000000"}`, exampleHash,
	},
	event.IFANonstandard: {
		`"identifiers":{"ifa":"shop-device-9774d56d"}`, `"identifiers":{"ifa":"97987bca-ae59-4c7d-94ba-ee4f19ab8c21"}`,
	},
	event.JunkHash: {exampleNothing, `"identifiers":{"ip":"` + exampleIP + `"}`},
	event.PartnerIDLong: {
		`"identifiers":{"email_sha256":"HASH",` + "\n" + ` "partner_id":"` + strings.Repeat("crm-8f14e45f-", 40) + `"}`,
		`"identifiers":{"email_sha256":"HASH","partner_id":"crm-8f14e45f"}`,
	},
	event.NegativeValue: {
		`"event_type":"purchase","value":-129.95,"currency_code":"EUR"`,
		`"event_type":"refund","value":-129.95,"currency_code":"EUR"`,
	},
	event.ValueImplausible:  {`"value":1e16,"currency_code":"EUR"`, examplePrice},
	event.NullDropped:       {`"custom_data":{"sizes":[38,null,40]}`, `"custom_data":{"sizes":[38,40]}`},
	event.PrivacyRestricted: {exampleOptOut, ""},
	event.PrivacySuppressed: {exampleOptOut, ""},
	event.GPPVersionUnknown: {`"privacy":{"gpp_string":"DBABLA~DVVVAAAAAAFU","gpp_sid":[7]}`, ""},
	event.TCFWithoutDisclosedVendors: {
		`"privacy":{"gpp_string":"DBABMA~` + exampleTC + `","gpp_sid":[2]}`,
		`"privacy":{"gpp_string":"DBABMA~` + exampleTC + `.IA7v_dMV-XuP_OtX773A3_rg","gpp_sid":[2]}`,
	},
	"PRIVACY_NOT_UNDERSTOOD": {`"us_privacy":"1YNY"`, `"privacy":{"us_privacy_string":"1YNY"}`},

	event.EmptyBatch:    {`[]`, `[{"data_set_id":"shop", …}]`},
	event.BatchTooLarge: {`an array of 1,200 events`, `two arrays: 1,000 events, then 200`},
	event.BatchRejected: {
		`[{"event_type":"Purchase", …}, {"timestamp":"yesterday", …}]`,
		`the events, corrected as each entry of errors says`,
	},
	event.MissingAPIKey: {`a request without the header Authorization`, exampleBearer},
	event.InvalidAPIKey: {
		`Authorization: Bearer the-key-of-last-year`,
		exampleBearer + "   with a key that the operator has issued and not revoked",
	},
	event.DatasetForbidden: {`"data_set_id":"another"   with the key of shop`, `"data_set_id":"shop"`},
	event.ServerSideOnly: {
		`Origin: https://shop.example.com   from a browser`,
		`the same request from your server, without an Origin header`,
	},
	event.InvalidParameter: {`GET /v1/stats?window=9y`, `GET /v1/stats?window=7d`},
	event.NotFound: {
		`GET /v1/event`,
		`GET /v1/submissions/{submission_id}   with an id from a receipt of this dataset`,
	},
	event.MethodNotAllowed:      {`GET /v1/events`, `POST /v1/events`},
	event.PayloadTooLarge:       {`a body of 6,000,000 bytes`, `two bodies under 5,242,880 bytes; 1 MB works best`},
	event.UnsupportedMediaType:  {`Content-Type: text/plain`, `Content-Type: application/json`},
	event.IdempotencyInProgress: {exampleSameKey + ", while the first try still runs", exampleWaitThen},
	event.IdempotencyKeyReused: {
		`Idempotency-Key: 5f0c6a1e-8b1d-4b6f-9a57-2d0f6f4f3c11   with another timestamp in the body`,
		exampleSameKey + ", or a new key",
	},
	event.RateLimited:   {`300 requests a second, where the dataset may send 100`, exampleWaitThen},
	event.InternalError: {`any request, while the service has a fault`, exampleWaitThen},
	event.Unavailable:   {`any request, while the service cannot store`, exampleWaitThen},
}

// exampleAt gives a text of an example its timestamps.
func exampleAt(text string, now time.Time) string {
	second := func(d time.Duration) string { return strconv.FormatInt(now.Add(d).Unix(), 10) }
	return strings.NewReplacer(
		"HASH", exampleEmail, "NOW", second(-time.Minute), "WEEK_AGO", second(-event.LateAge-time.Minute),
		"MONTH_AGO", second(-31*24*time.Hour), "AHEAD", second(2*time.Minute), "TOMORROW", second(24*time.Hour),
	).Replace(text)
}
