package event_test

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/event"
)

// maxBody is less than half of what a request may hold, so that the race detector's run stays short. A step that grows
// with the square would still take longer than the bound below.
const maxBody = 2 << 20

// hostile is a large body, made to cost as much as possible: its middle is repeated as
// often as fits. A middle with a %d in it is numbered.
type hostile struct{ name, before, middle, after string }

var hostiles = []hostile{
	{"brackets", "", "[", ""},
	{"braces", "", `{"":`, ""},
	{"white space", "", " ", "{}"},
	{"numbers", "[", "0,", "0]"},
	{"objects", "[", "{},", "{}]"},
	{"one number", `{"value":`, "9", "}"},
	{"one timestamp", `{"timestamp":`, "1", "}"},
	{"different names", "{", `"%d":1,`, `"":1}`},
	{"different names below", `{"x":[{`, `"%d":1,`, `"":1}]}`},
	{"same name", "{", `"a":1,`, `"a":1}`},
	{"sids", `{"privacy":{"gpp_sid":[`, "7,", "7]}}"},
	{"sids of text", `{"privacy":{"gpp_string":"x","gpp_sid":[`, `"",`, `""]}}`},
	{"e-mail addresses", `{"x":[`, `"j@example.com",`, `1]}`},
	{"at signs", `{"x":"`, "@", `"}`},
	{"almost addresses", `{"cp_name":"`, "a@b.", `"}`},
	{"percent signs", `{"page_url":"`, "%2540", `"}`},
	{"percents", `{"page_url":"`, "%25", `"}`},
	{"entities", `{"page_url":"`, "&amp;", `"}`},
	{"numeric entities", `{"page_url":"`, "&#38;", `"}`},
	{"escapes", `{"x":"`, `\u0040`, `"}`},
	{"escaped names", "{", `"\u0061":1,`, `"a":1}`},
	{"backslashes", `{"x":"`, `\\u0040`, `"}`},
	{"wide", `{"x":"`, "＠", `"}`},
	{"invisible", `{"x":"`, "\u200b", `"}`},
	{"long event type", `{"event_type":"`, "a", `"}`},
	{"long unknown name", `{"`, "a", `":1}`},
	{"long email", `{"identifiers":{"email_sha256":"`, "YWJj", `"}}`},
	{"long ifa", `{"identifiers":{"ifa":"`, "1-", `"}}`},
	{"long ip", `{"identifiers":{"ip":"`, "1.", `"}}`},
	{"long partner", `{"identifiers":{"partner_id":"`, "4111-", `"}}`},
	{"long consent", `{"privacy":{"gpp_string":"`, "DBAA~", `","gpp_sid":[7]}}`},
	{"long currency", `{"currency_code":"`, "u", `"}`},
	{"base64 of text", `{"x":"`, "Pz8/", `"}`},
	{"base64 of half an address", `{"x":"`, "amFuZUBleGFt/", `"}`},
	{"base64 in parts", `{"x":[`, `"YWJjZGVmZ2hp-YWJjZGVmZ2hp-YWJjZGVmZ2hp",`, `1]}`},
	{"long partner of base32", `{"identifiers":{"partner_id":"`, "MFRGGZDF", `"}}`},
	{"long partner of hyphens", `{"identifiers":{"partner_id":"`, "203-0-113-", `"}}`},
	{"long partner of hexadecimal", `{"identifiers":{"partner_id":"`, "0x1.", `"}}`},
	{"long partner of names", `{"identifiers":{"partner_id":"`, "Jane_", `"}}`},
	{"long partner of tel", `{"identifiers":{"partner_id":"`, "tel:", `"}}`},
	{"consent names", `{"privacy":{`, `"%d":1,`, `"":1}}`},
	{"a long consent name", `{"`, "_", `gpc":1}`},
	{"custom nulls", `{"custom_data":{"a":[`, "null,", "1]}}"},
	{"short strings", `{"x":[`, `"%",`, `1]}`},
	{"small objects after a huge one", `{"x":{` + numbered(200000) + `"":1},"y":[`, `{"a":1,"b":2},`, `{}]}`},
}

func numbered(members int) string {
	var b strings.Builder
	for n := range members {
		fmt.Fprintf(&b, `"%d":1,`, n)
	}
	return b.String()
}

func (h *hostile) body() string {
	var b strings.Builder
	b.Grow(maxBody)
	b.WriteString(h.before)
	for n := 0; b.Len()+len(h.middle)+8+len(h.after) <= maxBody; n++ {
		if before, after, found := strings.Cut(h.middle, "%d"); found {
			b.WriteString(before)
			b.WriteString(strconv.Itoa(n))
			b.WriteString(after)
		} else {
			b.WriteString(h.middle)
		}
	}
	b.WriteString(h.after)
	return b.String()
}

// TestHostileBodies holds that no body of the largest size costs much time or memory.
func TestHostileBodies(t *testing.T) {
	// Hundreds of times what a plain body of this size takes, for a busy machine under the race detector; the one
	// quadratic step that there was took twice as long on a quiet one.
	const longest = 8 * time.Second
	// A body of half a million names needs a table of them; nothing else comes near.
	const most = 48 << 20
	for _, h := range hostiles {
		name, body := h.name, h.body()
		var d event.Decoder
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		res, rejection := d.Decode(body, event.Any, event.Policy{DatasetID: "d"}, benchNow)
		took := time.Since(start)
		runtime.ReadMemStats(&after)
		allocated := after.TotalAlloc - before.TotalAlloc
		if took > longest || allocated > most {
			t.Errorf("%s: %v and %d bytes", name, took, allocated)
		}
		t.Logf("%-40s %8v %9d KiB", name, took.Round(time.Millisecond/10), allocated>>10)
		if rejection == nil && len(res.Rows) > 0 {
			t.Errorf("%s: accepted", name)
		}
	}
}
