package event

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

var testNow = time.Date(2026, 11, 14, 23, 40, 5, 0, time.UTC)

const plainEvent = `{"data_set_id":"spring","timestamp":1794699600,"event_type":"purchase","identifiers":{"email_sha256":"973dfe463ec85785f5f95af5ba3906eedb2d931c24e69824a89ea65dba4e813b"},"value":12.5,"currency_code":"USD"}`

// decode must not reject the request.
func decode(t testing.TB, d *Decoder, body string, shape Shape, p Policy) *Result {
	t.Helper()
	res, rejection := d.Decode(body, shape, p, testNow)
	if rejection != nil {
		t.Fatalf("request rejected: %v", rejection)
	}
	return res
}

// TestIdentifiersThroughDecode runs the identifier corpus as whole events.
func TestIdentifiersThroughDecode(t *testing.T) {
	// The other identifier makes the event valid, so that what is absent differs from what is rejected.
	const other = `97987bca-ae59-4c7d-94ba-ee4f19ab8c21`
	var d Decoder
	for _, path := range corpora {
		for _, c := range readIdentifiers(t, path) {
			companion := `"ifa":"` + other + `"`
			if c.Field == "ifa" {
				companion = `"ip":"bfeb4c6192985efa05e7fa0740ac45708a515e569e7edaec7fc060ff72b44a0c"`
			}
			own := `"` + c.Field + `":` + string(c.Value)
			event := func(identifiers string) string {
				return `{"data_set_id":"d","timestamp":1794699600,"event_type":"purchase","identifiers":{` + identifiers + `}}`
			}
			res := decode(t, &d, event(own+","+companion), Single, Policy{DatasetID: "d"})
			checkIdentifierCase(t, &c, res)
			if c.Verdict == "absent" {
				res := decode(t, &d, event(own), Single, Policy{DatasetID: "d"})
				if len(res.Errors) != 1 || res.Errors[0].Code != MissingIdentifier {
					t.Errorf("%s alone: got %v, want MISSING_IDENTIFIER (%s)", c.ID, res.Errors, c.Why)
				}
			}
		}
	}
}

func checkIdentifierCase(t *testing.T, c *identifierCase, res *Result) {
	t.Helper()
	if c.Verdict == "reject" {
		if len(res.Errors) != 1 || res.Errors[0].Field != "/identifiers/"+c.Field {
			t.Errorf("%s: got %v, want one problem at the field (%s)", c.ID, res.Errors, c.Why)
			return
		}
		code := res.Errors[0].Code
		ofIdentifiers := code == PlaintextPII || code == InvalidIdentifier
		if code != c.ErrorCode && (c.ErrorCode != "*" || !ofIdentifiers) {
			t.Errorf("%s: got %s, want %s (%s)", c.ID, code, c.ErrorCode, c.Why)
		}
		return
	}
	if len(res.Errors) != 0 {
		t.Errorf("%s: got %v, want it accepted (%s)", c.ID, res.Errors, c.Why)
		return
	}
	r := &res.Rows[0]
	stored := map[string]string{"email_sha256": r.EmailSHA256, "ifa": r.IFA, "ip": r.IPSHA256, "partner_id": r.PartnerID}[c.Field]
	if (stored == "") != (c.Verdict == "absent") {
		t.Errorf("%s: stored %v, want verdict %s (%s)", c.ID, stored != "", c.Verdict, c.Why)
	}
	var codes []Code
	for _, w := range res.Warnings {
		codes = append(codes, w.Code)
	}
	if c.Warning != "" && !slices.Contains(codes, c.Warning) {
		t.Errorf("%s: got warnings %v, want %s (%s)", c.ID, codes, c.Warning, c.Why)
	}
}

// TestBatchSize holds the edge of 1,000 events.
func TestBatchSize(t *testing.T) {
	var d Decoder
	full := "[" + strings.Repeat(plainEvent+",", MaxEvents-1) + plainEvent + "]"
	res := decode(t, &d, full, Batch, Policy{})
	if len(res.Rows) != MaxEvents || res.Total != MaxEvents || !res.Batch {
		t.Errorf("got %d rows of %d", len(res.Rows), res.Total)
	}
	if last := res.Rows[MaxEvents-1].SubmissionIndex; last != MaxEvents-1 {
		t.Errorf("got last index %d", last)
	}
	_, rejection := d.Decode("["+plainEvent+","+full[1:], Batch, Policy{}, testNow)
	if rejection == nil || rejection.Code != BatchTooLarge {
		t.Errorf("got %v, want BATCH_TOO_LARGE", rejection)
	}
}

// TestErrorsTruncated holds that 100 problems are listed, and that all are counted.
func TestErrorsTruncated(t *testing.T) {
	var d Decoder
	for _, n := range []int{100, 101, 1000} {
		res := decode(t, &d, "["+strings.Repeat("1,", n-1)+"1]", Batch, Policy{})
		if len(res.Errors) != 100 || res.ErrorsTruncated != (n > 100) || res.Rejected != n || res.Common != InvalidType {
			t.Errorf("%d bad events: got %d errors, truncated %v, %d rejected, common %q", n, len(res.Errors), res.ErrorsTruncated, res.Rejected, res.Common)
		}
		want := []Rejection{{Code: InvalidType, Count: int32(n), Events: int32(n)}}
		if !slices.Equal(res.Rejections, want) {
			t.Errorf("%d bad events: got %v, want %v", n, res.Rejections, want)
		}
	}
}

// TestManyProblemsInOne holds that the first rule comes first even if thousands of problems of a later one were found
// before it.
func TestManyProblemsInOne(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"a":[`)
	b.WriteString(strings.Repeat(`"jane@example.com",`, 5000))
	b.WriteString(`1],"a":2}`)
	var d Decoder
	res := decode(t, &d, b.String(), Single, Policy{})
	if len(res.Errors) != 100 || !res.ErrorsTruncated || res.Errors[0].Code != DuplicateField || res.Common != DuplicateField {
		t.Fatalf("got %d errors, first %v", len(res.Errors), res.Errors[0])
	}
	if last := res.Errors[99].Code; last != PlaintextPII {
		t.Errorf("got %s last, want PLAINTEXT_PII", last)
	}
	for _, r := range res.Rejections {
		if r.Code == PlaintextPII && r.Count != 5000 {
			t.Errorf("got %d finds counted, want 5,000", r.Count)
		}
	}
}

// TestRejections holds the sums: by code and known field, the first problem of an event counted once.
func TestRejections(t *testing.T) {
	body := `[{"data_set_id":"d"},` + plainEvent + `,{"data_set_id":"d","custom_data":{"made-up":"jane@example.com"}},5]`
	var d Decoder
	res := decode(t, &d, body, Batch, Policy{})
	want := []Rejection{
		{MissingField, "/timestamp", 2, 2},
		{MissingField, "/event_type", 2, 0},
		{MissingIdentifier, "/identifiers", 2, 0},
		{PlaintextPII, "/custom_data", 1, 0},
		{InvalidType, "", 1, 1},
	}
	got := slices.Clone(res.Rejections)
	byCode := func(a, b Rejection) int { return strings.Compare(string(a.Code)+a.Field, string(b.Code)+b.Field) }
	slices.SortFunc(got, byCode)
	slices.SortFunc(want, byCode)
	if !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if res.Common != "" || res.Rejected != 3 || len(res.Rows) != 1 {
		t.Errorf("got common %q, %d rejected, %d rows", res.Common, res.Rejected, len(res.Rows))
	}
}

// TestWarningsBounded holds that one event cannot fill an answer, and that a batch cannot either.
func TestWarningsBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString(plainEvent[:len(plainEvent)-1])
	for i := range 500 {
		b.WriteString(`,"` + strings.Repeat("x", i+1) + `":1`)
	}
	b.WriteByte('}')
	var d Decoder
	res := decode(t, &d, b.String(), Single, Policy{})
	if len(res.Rows) != 1 || len(res.Warnings) != maxUnknownNamed+1 {
		t.Errorf("got %d rows, %d warnings", len(res.Rows), len(res.Warnings))
	}
	events := "[" + strings.Repeat(b.String()+",", 49) + b.String() + "]"
	res = decode(t, &d, events, Batch, Policy{})
	if len(res.Warnings) != maxWarnings || !res.WarningsTruncated {
		t.Errorf("got %d warnings, truncated %v", len(res.Warnings), res.WarningsTruncated)
	}
}

// TestExplain holds what validation tells about privacy.
func TestExplain(t *testing.T) {
	d := Decoder{Explain: true}
	body := strings.TrimSuffix(plainEvent, "}") + `,"mmt_only":true,"privacy":{"gpp_string":"DBABBg~BRQkgACY.QA","gpp_sid":[8]}}`
	res := decode(t, &d, "["+plainEvent+","+body+"]", Batch, Policy{})
	if len(res.Details) != 2 || res.Details[0].GPP != nil || len(res.Details[0].Reasons) != 0 {
		t.Fatalf("got %+v", res.Details)
	}
	if got, want := res.Details[1].Reasons, []string{"usca.SaleOptOut", "mmt_only"}; !slices.Equal(got, want) {
		t.Errorf("got reasons %q, want %q", got, want)
	}
	if got := string(res.Details[1].GPP.AppendJSON(nil)); !strings.Contains(got, `"SaleOptOut":1`) {
		t.Errorf("got %s", got)
	}
}

// TestReuse holds that a Decoder carries nothing over, and that the strings of rows stay as they are when it is used
// again.
func TestReuse(t *testing.T) {
	var d Decoder
	body := strings.TrimSuffix(plainEvent, "}") + `,"cp_name":"a\u0041","privacy":{"gpp_string":"DBABBg~BUqhhIBY","gpp_sid":[8]}}`
	first := decode(t, &d, body, Single, Policy{}).Rows[0]
	first.GPPSID = slices.Clone(first.GPPSID)
	before := string(AppendJSON(nil, &first))
	other := strings.ReplaceAll(strings.ReplaceAll(body, `\u0041`, `\u0042`), "[8]", "[0]")
	second := decode(t, &d, other, Single, Policy{}).Rows[0]
	if second.CampaignName != "aB" || second.GPPSID[0] != 0 {
		t.Errorf("got %+v", second)
	}
	if after := string(AppendJSON(nil, &first)); after != before {
		t.Errorf("the first row changed from %s to %s", before, after)
	}
	res := decode(t, &d, `[`+plainEvent+`,1]`, Batch, Policy{})
	if len(res.Rows) != 1 || res.Rows[0].CampaignName != "" || len(res.Warnings) != 0 {
		t.Errorf("got %+v", res)
	}
	d.Reset()
	if len(res.Rows) != 0 || d.scan.Input != "" || res.Rows[:1][0].DatasetID != "" {
		t.Error("a Decoder that was reset keeps an event")
	}
}

// TestForeignIndex holds that the first event of another dataset is named, whatever follows it.
func TestForeignIndex(t *testing.T) {
	var d Decoder
	foreign := strings.Replace(plainEvent, "spring", "autumn", 1)
	res := decode(t, &d, "["+plainEvent+",1,"+foreign+","+foreign+"]", Batch, Policy{DatasetID: "spring"})
	if !res.Foreign || res.ForeignIndex != 2 {
		t.Errorf("got %v at %d, want the event at 2", res.Foreign, res.ForeignIndex)
	}
}

// TestTexts holds that a message names the member and a hint says what to send instead.
func TestTexts(t *testing.T) {
	for _, c := range []struct{ old, new, message, hint string }{
		{`"value":12.5`, `"source":7`, "source must be a string.", "Send a JSON string, in double quotes."},
		{`"value":12.5`, `"mmt_only":"true"`, "mmt_only must be a boolean.", "Send true or false, without quotes."},
		{`"value":12.5`, `"privacy":{"gpp_sid":7}`, "gpp_sid must be an array.", "Send a JSON array, in brackets."},
		{`"USD"`, `""`, "currency_code is required when value is present.", "Send the ISO 4217 code of the currency, such as USD, or omit value."},
	} {
		var d Decoder
		res := decode(t, &d, strings.Replace(plainEvent, c.old, c.new, 1), Single, Policy{})
		if len(res.Errors) != 1 || res.Errors[0].Message != c.message || res.Errors[0].Hint != c.hint {
			t.Errorf("%s: got %+v", c.new, res.Errors)
		}
	}
}

// TestPolicyAnyDataset holds that without a dataset every id is taken, and its length is then the rule.
func TestPolicyAnyDataset(t *testing.T) {
	var d Decoder
	long := strings.Replace(plainEvent, "spring", strings.Repeat("x", 129), 1)
	res := decode(t, &d, "["+plainEvent+","+long+"]", Batch, Policy{})
	if res.Foreign || len(res.Rows) != 1 || len(res.Errors) != 1 || res.Errors[0].Code != FieldTooLong || res.Errors[0].Field != "/data_set_id" {
		t.Errorf("got %+v", res)
	}
}

// TestUsualConsent holds that privacy says the same whether it is written in one of the usual ways, which are read at
// once, or with a line break in it.
func TestUsualConsent(t *testing.T) {
	texts := []string{"DBABBg~BUqhhIBY", "DBABBg~nonsense", "", " ", `DBABBg~BUqhh\u0049BY`, "DBABBg~BUqhhIBY\x7f", "ü"}
	lists := []string{
		"[8]", "[8,7]", "[0]", "[-1]", "[10]", "[59]", "[60]", "[63]", "[64]", "[8,10,7]", "[8,8]", "[]", "[8,-1]", "[8.0]", "[8e0]",
		`["8"]`, "[true]", "[99,8]", "[8,99]", "8", "null", "[08]", "[8,]", "[8", "[8,", "[8}", "[,8]", "[8 ]", "[ 8]", "[8, 7]",
	}
	ends := []string{"}", " }", `,"us_privacy_string":"1YYN"}`, `,"gpp_sid":[8]}`, `,"gpp_string":"DBAA"}`, `,"other":1}`, ",}", "]", ""}
	usual := 0
	for _, text := range texts {
		for _, list := range lists {
			for _, end := range ends {
				privacy := `"gpp_string":"` + text + `","gpp_sid":` + list + end
				spaced := strings.NewReplacer(`":`, `": `, ",", ", ").Replace(privacy)
				var got [3]string
				for i, privacy := range []string{"{" + privacy, "{" + spaced, "{\n" + privacy} {
					var d Decoder
					d.Explain = true
					res, err := d.Decode(strings.TrimSuffix(plainEvent, "}")+`,"privacy":`+privacy+"}", Single, Policy{}, testNow)
					if err != nil {
						got[i] = string(err.Code)
						continue
					}
					got[i] = fmt.Sprint(res.Errors, res.Warnings, res.Rejections)
					for j := range res.Rows {
						got[i] += string(AppendJSON(nil, &res.Rows[j])) + fmt.Sprint(res.Details[j].Reasons)
						usual++
					}
				}
				if got[0] != got[2] || got[1] != got[2] {
					t.Errorf("%s:\n got %s\n and %s\nwant %s", privacy, got[0], got[1], got[2])
				}
			}
		}
	}
	if usual < 40 {
		t.Errorf("only %d events were accepted", usual)
	}
}
