package event

import (
	"testing"
	"time"
)

var testNow = time.Date(2026, 11, 14, 23, 40, 5, 0, time.UTC)

const plainEvent = `{"data_set_id":"spring","timestamp":1794699600,"event_type":"purchase","identifiers":{"email_sha256":"973dfe463ec85785f5f95af5ba3906eedb2d931c24e69824a89ea65dba4e813b"},"value":12.5,"currency_code":"USD"}`

func TestDecodePlain(t *testing.T) {
	var d Decoder
	res, e := d.Decode(plainEvent, Single, Policy{DatasetID: "spring"}, testNow)
	if e != nil {
		t.Fatal(e)
	}
	if len(res.Rows) != 1 || len(res.Errors) != 0 || len(res.Warnings) != 0 {
		t.Fatalf("got %+v", res)
	}
	t.Logf("%s", AppendJSON(nil, &res.Rows[0]))
}
