package event_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"sluice/event"
)

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(event.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("event.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("event.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// unsaid are the rules that a JSON Schema cannot say at all.
var unsaid = map[event.Code]string{
	event.DuplicateField:    "a parsed document no longer holds the second of two names",
	event.TimestampTooOld:   "depends on the time of receipt",
	event.TimestampInFuture: "depends on the time of receipt",
	event.PlaintextPII:      "detectors, not patterns",
	event.InvalidGPPString:  "needs a decoder; the pattern only has the alphabet",
}

// unsaidCases are the examples of rules of which a JSON Schema can say the other part.
var unsaidCases = map[string]string{
	"timestamp-invalid-fraction-zero": "an integer in JSON Schema is one by value, not by spelling",
	"timestamp-invalid-exponent":      "an integer in JSON Schema is one by value, not by spelling",
	"gpp-sid-invalid-fraction":        "an integer in JSON Schema is one by value, not by spelling",
	"gpp-sid-invalid-exponent":        "an integer in JSON Schema is one by value, not by spelling",
	"type-value-huge":                 "JSON Schema knows no largest number",
	"identifier-missing-zero":         "a well-formed value that counts as absent",
	"identifier-missing-junk":         "a well-formed value that counts as absent",
	"custom-data-32k-1":               "JSON Schema does not measure bytes",
	"length-bytes":                    "JSON Schema counts characters, not bytes",
	"report-id-257-bytes":             "JSON Schema counts characters, not bytes",
	"report-id-257-digits":            "JSON Schema does not count the digits of a number",
}

// TestSchemaOnRules runs the rule corpus through the schema. It must accept what the validator accepts, and reject what
// that rejects but for the differences explained above.
func TestSchemaOnRules(t *testing.T) {
	schema := compileSchema(t)
	used := map[string]bool{}
	for _, c := range loadRules(t) {
		if c.Shape != event.Single || c.Request != "" {
			continue
		}
		err := validateText(t, schema, c.Body(c.Now, dataset))
		if len(c.Want) == 0 {
			if err != nil {
				t.Errorf("%s is valid, but the schema rejects it: %v", c.Name, err)
			}
			continue
		}
		if err != nil {
			continue
		}
		if unsaidCases[c.Name] != "" {
			used[c.Name] = true
			continue
		}
		for _, w := range c.Want {
			if unsaid[w.Code] == "" {
				t.Errorf("%s: the schema accepts what breaks %s", c.Name, w.Code)
			}
		}
	}
	for name := range unsaidCases {
		if !used[name] {
			t.Errorf("the difference at %s is explained, but there is none", name)
		}
	}
}

func validateText(t *testing.T, schema *jsonschema.Schema, text string) error {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return schema.Validate(doc)
}

// pools are values for each member, good and bad. An absent member is the empty string.
var pools = map[string][]string{
	"data_set_id":       {`"` + dataset + `"`, `"` + dataset + `"`, `"` + dataset + `"`, ``, `null`, `" "`, `5`},
	"timestamp":         {`1794699600`, `1794699600`, `1794699600000`, ``, `null`, `"1794699600"`, `1.5`, `-1`, `true`, `1794699600000000`},
	"event_type":        {`"purchase"`, `"refund"`, `"custom"`, `"Purchase"`, ``, `null`, `7`, `""`},
	"identifiers":       nil,
	"custom_event_name": {``, ``, `"quiz"`, `null`, `" "`, `1`},
	"source":            {``, `"app"`, `null`, `""`, `{}`, `"` + strings.Repeat("x", 65) + `"`},
	"cp_id":             {``, `"c"`, `null`, `1`},
	"page_url":          {``, `"https://a.example/"`, `"` + strings.Repeat("x", 8193) + `"`, `[]`},
	"value":             {``, ``, `0`, `-1.5`, `1e3`, `null`, `"1"`, `[]`},
	"currency_code":     {``, `"USD"`, `"usd"`, `"Eur"`, `"DEM"`, `"dem"`, `"US"`, `"x"`, `"qqq"`, `"Xx"`, `"usdx"`, `" usd"`, `""`, `null`, `1`},
	"privacy":           nil,
	"custom_data":       {``, `{}`, `{"a":[1,{"b":null}]}`, `{"a":{"b":{"c":{}}}}`, `null`, `[]`, `""`},
	"mmt_only":          {``, `true`, `null`, `"true"`, `0`},
	"ext":               {``, `{}`, `{"a":1}`, `null`, `[]`},
	"schema_version":    {``, `"1.0"`, `"v1"`, `""`, `"2.0"`, `1.0`, `null`},
	"event_id":          {``, `"x"`, `5`, `null`, `{}`, `"` + strings.Repeat("x", 257) + `"`},
	"id":                {``, `"x"`, `5`, `5.5`, `null`, `" "`, `[1]`, `"` + strings.Repeat("x", 257) + `"`},
	"unknown":           {``, `1`, `{"a":[]}`},
}

var identifierPools = map[string][]string{
	"email_sha256": {``, `"973dfe463ec85785f5f95af5ba3906eedb2d931c24e69824a89ea65dba4e813b"`, `"973DFE463EC85785F5F95AF5BA3906EEDB2D931C24E69824A89EA65DBA4E813B"`, `null`, `" "`, `"x"`, `1`},
	"ifa":          {``, `"97987bca-ae59-4c7d-94ba-ee4f19ab8c21"`, `"9774d56d682e549c"`, `""`, `null`, `"a b"`, `{}`},
	"ip":           {``, `"bfeb4c6192985efa05e7fa0740ac45708a515e569e7edaec7fc060ff72b44a0c"`, `null`, `"203.0.113.7"`, `7`},
	"partner_id":   {``, `"crm-1"`, `"` + strings.Repeat("x", 2049) + `"`, `"a b"`, `null`, `"\u00a0"`, `9`},
}

var privacyPools = map[string][]string{
	"gpp_string":        {``, `"DBABBg~BUqhhIBY"`, `"DBABBg~BRQkgACY.QA"`, `null`, `" "`, `"a b"`, `5`},
	"gpp_sid":           {``, `[8]`, `[-1]`, `[7,8]`, `[]`, `[99]`, `["8"]`, `null`, `8`},
	"us_privacy_string": {``, `"1YNN"`, `"1---"`, `"1ynn"`, `""`, `null`, `1`},
}

// TestSchemaOnLengths holds the longest text of each member, and that a blank one is absent however long it is.
func TestSchemaOnLengths(t *testing.T) {
	schema := compileSchema(t)
	var d event.Decoder
	for _, f := range event.Fields() {
		for _, sign := range []string{"1", " "} {
			for _, n := range []int{f.MaxBytes, f.MaxBytes + 1} {
				members := map[string]any{
					"data_set_id": dataset, "timestamp": 1794699600, "event_type": "custom", "custom_event_name": "quiz",
				}
				inner := map[string]any{"ifa": "97987bca-ae59-4c7d-94ba-ee4f19ab8c21"}
				members["identifiers"] = inner
				if parent, _, below := strings.Cut(f.Pointer[1:], "/"); f.MaxBytes == 0 || parent == "privacy" && sign != " " {
					continue // no limit, or more than a limit
				} else if parent == "privacy" {
					members[parent] = map[string]any{f.Name(): strings.Repeat(sign, n)}
				} else if below {
					inner[f.Name()] = strings.Repeat(sign, n)
				} else {
					members[f.Name()] = strings.Repeat(sign, n)
				}
				body, err := json.Marshal(members)
				if err != nil {
					t.Fatal(err)
				}
				res, rejection := d.Decode(string(body), event.Single, event.Policy{}, benchNow)
				if rejection != nil {
					t.Fatal(rejection)
				}
				if err := validateText(t, schema, string(body)); (err == nil) != (len(res.Rows) == 1) {
					t.Errorf("%s, %d times %q: the validator says %+v, the schema %v", f.Pointer, n, sign, res.Errors, err)
				}
			}
		}
	}
}

// TestSchemaOnGenerated compares schema and validator on random mixtures of good and bad members.
func TestSchemaOnGenerated(t *testing.T) {
	schema := compileSchema(t)
	random := rand.New(rand.NewPCG(1, 2))
	var d event.Decoder
	accepted := 0
	for range 6000 {
		body := mixture(random, pools)
		res, rejection := d.Decode(body, event.Single, event.Policy{}, benchNow)
		if rejection != nil {
			t.Fatalf("%v: %s", rejection, body)
		}
		err := validateText(t, schema, body)
		if len(res.Rows) == 1 {
			accepted++
			if err != nil {
				t.Fatalf("the schema rejects a valid event: %v\n%s", err, body)
			}
			continue
		}
		if err == nil {
			explainDifference(t, body, res)
		}
	}
	if accepted < 100 {
		t.Errorf("only %d events of the mixtures are valid: they show nothing", accepted)
	}
}

// explainDifference fails unless every problem of the event is one that a schema cannot state.
func explainDifference(t *testing.T, body string, res *event.Result) {
	t.Helper()
	for _, e := range res.Errors {
		badIDs := e.Code == event.InvalidIdentifier // finer than a pattern
		if unsaid[e.Code] == "" && !badIDs {
			t.Errorf("the schema accepts what breaks %s at %s: %s", e.Code, e.Field, body)
		}
	}
}

// mixture is an object of members taken from pools, mostly from their good beginnings.
func mixture(random *rand.Rand, from map[string][]string) string {
	members := []string{}
	for _, f := range append(event.Fields()[:len(event.Fields()):len(event.Fields())], event.FieldInfo{Pointer: "/unknown"}) {
		name := f.Name()
		values, ok := from[name]
		if !ok {
			continue
		}
		value := ""
		switch {
		case name == "identifiers" && random.IntN(20) > 0:
			value = mixture(random, identifierPools)
		case name == "privacy" && random.IntN(2) > 0:
			value = mixture(random, privacyPools)
		case values == nil:
			value = []string{``, `null`, `"x"`}[random.IntN(3)]
		case random.IntN(8) > 0:
			value = values[random.IntN(2)]
		default:
			value = values[random.IntN(len(values))]
		}
		if value != "" {
			members = append(members, fmt.Sprintf("%q:%s", name, value))
		}
	}
	return "{" + strings.Join(members, ",") + "}"
}

// The schema accepts the currencies that the validator accepts, in any mixture of case, and no other text.
func TestSchemaOnCurrencies(t *testing.T) {
	schema := compileSchema(t)
	var d event.Decoder
	for _, code := range []string{"USD", "usd", "Usd", "uSD", "zmw", "DEM", "dem", "x", "qqq", "Xx", "us", "usdx", "usdeur", " usd", "u\u017fd", "", " "} {
		body := `{"data_set_id":"` + dataset + `","timestamp":1794699600,"event_type":"purchase","identifiers":{"ifa":"97987bca-ae59-4c7d-94ba-ee4f19ab8c21"},"currency_code":"` + code + `"}`
		res, rejection := d.Decode(body, event.Single, event.Policy{}, benchNow)
		if rejection != nil {
			t.Fatal(rejection)
		}
		if err := validateText(t, schema, body); (err == nil) != (len(res.Rows) == 1) {
			t.Errorf("%q: the validator says %+v, the schema %v", code, res.Errors, err)
		}
	}
}

// TestSchemaExamples holds that the examples of the schema are themselves valid events, put together.
func TestSchemaExamples(t *testing.T) {
	members := map[string]json.RawMessage{}
	for i := range event.Fields() {
		f := &event.Fields()[i]
		if strings.Count(f.Pointer, "/") == 1 && f.Name() != "custom_event_name" && f.Name() != "event_id" {
			members[f.Name()] = json.RawMessage(f.Example)
		}
	}
	members["timestamp"] = json.RawMessage(fmt.Sprint(benchNow.Unix()))
	body, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	if err := validateText(t, compileSchema(t), string(body)); err != nil {
		t.Error(err)
	}
	var d event.Decoder
	res, rejection := d.Decode(string(body), event.Single, event.Policy{}, benchNow)
	if rejection != nil || len(res.Rows) != 1 || len(res.Warnings) > 0 {
		t.Errorf("got %v, %+v", rejection, res)
	}
}
