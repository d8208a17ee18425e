package event_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"sluice/event"
)

// oracle reads a text with another strict parser, and returns whether it is JSON that nests no deeper than an event
// or a batch may.
func oracle(text string, duplicates bool) bool {
	d := jsontext.NewDecoder(strings.NewReader(text), jsontext.AllowDuplicateNames(duplicates))
	levels := 8
	if d.PeekKind() == '[' {
		levels++
	}
	for n := 0; ; n++ {
		_, err := d.ReadToken()
		if err != nil {
			return errors.Is(err, io.EOF) && n > 0 && err == io.EOF
		}
		if d.StackDepth() > levels {
			return false
		}
		if d.StackDepth() == 0 {
			_, err := d.ReadToken()
			return err == io.EOF
		}
	}
}

var syntaxTexts = []string{
	``, ` `, `{}`, `[]`, `null`, `true`, `tru`, `nul`, `truex`, `"a"`, `0`, `-0`, `01`, `-`, `1.`, `.5`, `1.5e`, `1e+`, `1E-7`, `1e5x`, `+1`, `0x1`, `NaN`, `Infinity`,
	`{"a":1,}`, `[1,]`, `[,1]`, `{,}`, `{"a"}`, `{"a":}`, `{a:1}`, `{'a':1}`, `{"a":1 "b":2}`, `[1 2]`, `{}{}`, `[] []`, `{} x`, `{`, `[`, `{"a`, `{"a":"`, `{"a":"\`,
	`{"a":"\u`, `{"a":"\u12"}`, `{"a":"\ud800"}`, `{"a":"\udc00"}`, `{"a":"\ud83d\ude00"}`, `{"a":"\ud83d\u0041"}`, `{"a":"\ud83dx"}`, `{"a":"\x41"}`,
	"{\"a\":\"\x01\"}", "{\"a\":\"\xff\"}", "{\"a\":\"\xed\xa0\x80\"}", "{\"a\":\"\xc0\x80\"}", "{\"a\":\"ü€😀\"}", "\ufeff{}", "{}\x00", "\x00", "{\"\xff\":1}",
	"\t\r\n {\t\"a\"\r:\n1 } ", "\v{}", "{\"a\":\u00a01}", "// c\n{}", "{/**/}",
	`{"x":[[[[[[[]]]]]]]}`, `{"x":[[[[[[[[]]]]]]]]}`, `[{"x":[[[[[[[]]]]]]]}]`, `[{"x":[[[[[[[[]]]]]]]]}]`,
	`{"a\u0062":1,"ab":2}`, `{"a":{"b":1,"b":2}}`, `{"a":1,"a":2}`, `{"\/":1,"/":2}`, `{"a":[{"b":1,"\u0062":1}]}`,
}

// TestSyntax holds the scanner against another parser.
func TestSyntax(t *testing.T) {
	for _, text := range syntaxTexts {
		var d event.Decoder
		_, e := d.Decode(text, event.Any, event.Policy{}, benchNow)
		got := e == nil || e.Code != event.MalformedJSON
		if want := oracle(text, true); got != want {
			t.Errorf("%q: got valid %v, want %v (%v)", text, got, want, e)
		}
	}
}

// TestOffset holds the places at which faults are reported.
func TestOffset(t *testing.T) {
	for text, want := range map[string]string{
		``:                     "(byte 0)",
		`{"a":1,}`:             "(byte 7)",
		`{"a":tru}`:            "(byte 8)",
		"{\"a\":\"b\xff\"}":    "(byte 7)",
		`{"a":"b`:              "(byte 7)",
		`{} x`:                 "(byte 3)",
		`[[[[[[[[[[`:           "(byte 9)",
		`{"a":"\ud800"}`:       "(byte 6)",
		`{"a":"\u00zz"}`:       "(byte 10)",
		`{"a":1.}`:             "(byte 7)",
		"{\"a\":\"b\nc\"}":     "(byte 7)",
		"\ufeff{}":             "(byte 0)",
		`{"a":"\u12`:           "(byte 10)",
		`{"a":"\ud83d\ude0x"}`: "(byte 17)",
	} {
		var d event.Decoder
		_, e := d.Decode(text, event.Any, event.Policy{}, benchNow)
		if e == nil || e.Code != event.MalformedJSON || !strings.Contains(e.Message, want) {
			t.Errorf("%q: got %v, want %s", text, e, want)
		}
	}
}
