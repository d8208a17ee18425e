package main

import (
	"bufio"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/event"
	"sluice/event/rules"
)

// The uploader judges a row as the service would judge the same bytes: every example of the rule corpus that is one event
// goes through it, and comes out with the same codes and fields.
func TestPrepareKeepsTheRules(t *testing.T) {
	cases, err := rules.Cases()
	must(t, err)
	run := 0
	for i := range cases {
		c := &cases[i]
		if c.Shape != event.Single || strings.Contains(c.Body(c.Now, "spring"), "\n") {
			continue // a row is one event on one line
		}
		run++
		p := &preparer{policy: event.Policy{DatasetID: "spring", SuppressOptOut: c.Suppress}, now: func() time.Time { return c.Now }}
		b := new(batch)
		b.add(row{data: []byte(c.Body(c.Now, "spring")), line: 1})
		prep := p.prepare(b)
		var got, want []string
		for _, r := range prep.refused {
			list := r.Errors
			if len(list) == 0 {
				list = []problem{r.problem}
			}
			for _, e := range list {
				got = append(got, fmt.Sprint(e.Code, e.Field))
			}
		}
		for _, w := range c.Want {
			want = append(want, fmt.Sprint(w.Code, w.Field))
		}
		if c.Request != "" {
			if len(got) != 1 || !strings.HasPrefix(got[0], string(c.Request)) {
				t.Errorf("%s: got %q, want %s", c.Name, got, c.Request)
			}
			continue
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: got %q, want %q", c.Name, got, want)
		}
		if sent := len(prep.requests) == 1; sent == (len(want) > 0) {
			t.Errorf("%s: sent %v with %d problems", c.Name, sent, len(want))
		}
	}
	if run < 100 {
		t.Errorf("only %d examples were run", run)
	}
}

// Where the window of the reader ends must not matter, and no bytes may crash it.
func FuzzRows(f *testing.F) {
	for _, s := range []string{"a\nb", "{\"a\":1}\n{}", "[{},{\"x\":[1,\"]\"]}]", "a,\"b\nc\",d\ne,f,g", "\"\"\"\n\"\"\"", "[1,2", "\\\"[{", "\r\n\r\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		kinds := map[string]func(window int) rows{
			"ndjson": func(w int) rows { return &lineRows{lines{r: window(s, w)}} },
			"json":   func(w int) rows { return newValueRows(window(s, w), position{}) },
			"csv":    func(w int) rows { return &csvRows{lines: lines{r: window(s, w)}, delimiter: ','} },
		}
		for kind, open := range kinds {
			small, large := open(16), open(1<<16)
			a, errA := readAll(small)
			b, errB := readAll(large)
			if a != b || fmt.Sprint(errA) != fmt.Sprint(errB) || small.position() != large.position() {
				t.Errorf("%s: %q, %v, %v against %q, %v, %v", kind, a, errA, small.position(), b, errB, large.position())
			}
			if p := small.position(); p.Offset > int64(len(s)) {
				t.Errorf("%s: stands at %d of %d bytes", kind, p.Offset, len(s))
			}
		}
	})
}

func window(s string, n int) *bufio.Reader { return bufio.NewReaderSize(strings.NewReader(s), n) }
