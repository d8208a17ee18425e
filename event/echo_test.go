package event_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"sluice/event"
)

// mark stands for a value that no answer may repeat. The digits make it unfit to be repeated as a name, too.
const mark = "Zq9Xj8Kv7Wp6Bn5Tm4Rg3Yd2Hs1Cf0"

// TestNoValueIsRepeated puts a mark into every string and every name of every example, in several dresses, and looks for
// it in all that a sender gets.
func TestNoValueIsRepeated(t *testing.T) {
	dresses := []string{mark, mark + "@example.com", "https://" + mark + ".example/?a=" + mark + "%40example.com", "+1 415 555 0123 " + mark}
	for _, c := range loadRules(t) {
		var doc any
		if json.Unmarshal([]byte(c.Body(c.Now, dataset)), &doc) != nil {
			continue
		}
		for _, dress := range dresses {
			checkSilent(t, c.Name, marked(doc, dress, false))
			checkSilent(t, c.Name, marked(doc, dress, true))
		}
	}
	for _, text := range []string{`{"%s":1}`, `{"a":"%s`, `"%s"`, `{"custom_data":{"a":{"%s":"j@example.com"}}}`, `{"identifiers":{"%s":[{}]}}`, `{"privacy":{"gpp_sid":["%s"],"gpp_string":"%s"}}`} {
		checkSilent(t, text, strings.ReplaceAll(text, "%s", mark))
	}
}

// marked replaces the strings of a document, one way or also its names.
func marked(doc any, dress string, names bool) string {
	n := 0
	var walk func(any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case string:
			return dress
		case []any:
			out := make([]any, len(v))
			for i := range v {
				out[i] = walk(v[i])
			}
			return out
		case map[string]any:
			out := map[string]any{}
			for name, value := range v {
				if names {
					n++
					name = fmt.Sprint(dress, n)
				}
				out[name] = walk(value)
			}
			return out
		}
		return v
	}
	text, err := json.Marshal(walk(doc))
	if err != nil {
		panic(err) // made of what Unmarshal gave
	}
	return string(text)
}

func checkSilent(t *testing.T, name, body string) {
	t.Helper()
	var d event.Decoder
	res, rejection := d.Decode(body, event.Any, event.Policy{}, benchNow)
	var said []string
	if rejection != nil {
		said = append(said, fmt.Sprint(*rejection), rejection.Error())
	} else {
		said = append(said, fmt.Sprint(res.Errors), fmt.Sprint(res.Warnings), fmt.Sprint(res.Rejections))
	}
	for _, text := range said {
		if strings.Contains(strings.ToLower(text), strings.ToLower(mark[:8])) {
			t.Errorf("%s: a value is repeated in %s", name, text)
		}
	}
}
