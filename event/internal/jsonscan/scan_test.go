package jsonscan

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// walk reads one value as a caller would and returns what its strings stand for.
func walk(s *Scanner, names *Names, level int) (texts []string, duplicate, ok bool) {
	switch c := s.Peek(); c {
	case '"':
		text, ok := s.Text()
		return []string{text}, false, ok
	case '{', '[':
		if level == MaxLevels {
			return nil, false, s.Fail(s.Pos, "too deep")
		}
		s.Pos++
		names.Open()
		defer names.Close()
		for n := 0; ; n++ {
			var name string
			step := Next
			if c == '{' {
				name, step = s.Member(n == 0)
			} else {
				step = s.Element(n == 0)
			}
			if step != Next {
				return texts, duplicate, step == End
			}
			if c == '{' {
				texts = append(texts, name)
				duplicate = !names.Add(name) || duplicate
			}
			inner, twice, ok := walk(s, names, level+1)
			if !ok {
				return nil, false, false
			}
			texts, duplicate = append(texts, inner...), duplicate || twice
		}
	case 't':
		return nil, false, s.Literal("true")
	case 'f':
		return nil, false, s.Literal("false")
	case 'n':
		return nil, false, s.Literal("null")
	}
	_, _, ok = s.Number()
	return nil, false, ok
}

// scan reads a whole text.
func scan(text string) (texts []string, duplicate, ok bool) {
	var s Scanner
	var names Names
	s.Start(text)
	s.Space()
	texts, duplicate, ok = walk(&s, &names, 0)
	if s.Space(); ok && s.Pos < len(text) {
		ok = s.Fail(s.Pos, "more text")
	}
	if !ok && s.Fault == "" {
		panic("no fault was set")
	}
	return texts, duplicate, ok
}

// oracle reads the text with another strict parser.
func oracle(text string, duplicates bool) (texts []string, ok bool) {
	d := jsontext.NewDecoder(strings.NewReader(text), jsontext.AllowDuplicateNames(duplicates))
	for {
		token, err := d.ReadToken()
		if err != nil || d.StackDepth() > MaxLevels {
			return nil, false
		}
		if token.Kind() == '"' {
			texts = append(texts, token.String())
		}
		if d.StackDepth() == 0 {
			_, err := d.ReadToken()
			return texts, err == io.EOF
		}
	}
}

var texts = []string{
	``, ` `, `{}`, `[]`, `null`, `tru`, `"a"`, `-0`, `01`, `1.`, `1.5e`, `1E-7`, `+1`, `NaN`, `{"a":1,}`, `[1,]`, `{"a"}`, `{"a":1 "b":2}`, `{}{}`, `{"a":"\u12"}`,
	`{"a":"\ud83d\ude00"}`, `{"a":"\ud800"}`, `{"a":"\ud83dx"}`, "{\"a\":\"\x01\"}", "{\"a\":\"\xff\"}", "{\"a\":\"ü€😀\"}", `[[[[[[[[]]]]]]]]`, `[[[[[[[[[]]]]]]]]]`,
	`{"a\u0062":1,"ab":2}`, `{"a":[{"b":1,"\u0062":1}]}`, `["\"\\\/\b\f\n\r\t\u20ac, and plain text after it"]`, `{"a":null,"b":[null,1,null,{"c":null}]}`,
}

func compare(t *testing.T, text string) {
	t.Helper()
	got, duplicate, ok := scan(text)
	want, valid := oracle(text, true)
	if ok != valid || ok && strings.Join(got, "\x00") != strings.Join(want, "\x00") {
		t.Fatalf("%q: got %q, valid %v; want %q, valid %v", text, got, ok, want, valid)
	}
	if !ok {
		return
	}
	if _, unique := oracle(text, false); duplicate == unique {
		t.Fatalf("%q: got duplicate %v, want %v", text, duplicate, !unique)
	}
	var b strings.Builder
	WriteWithoutNulls(&b, strings.TrimSpace(text))
	if out := b.String(); !json.Valid([]byte(out)) {
		t.Fatalf("%q: got %q without nulls", text, out)
	}
}

// TestScan holds the scanner against another parser.
func TestScan(t *testing.T) {
	for _, text := range texts {
		compare(t, text)
	}
}

// FuzzScan does so for any text.
func FuzzScan(f *testing.F) {
	for _, text := range texts {
		f.Add(text)
	}
	f.Fuzz(compare)
}

func TestWithoutNulls(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":null}`: `{}`, `{ "a" : 1.50 , "b":null,"c":[null, 2,null] }`: `{"a":1.50,"c":[2]}`, `[null]`: `[]`,
		`{"a\"n":"null","b":{"c":null,"d":"\\"}}`: `{"a\"n":"null","b":{"d":"\\"}}`, `null`: `null`,
	} {
		var b strings.Builder
		WriteWithoutNulls(&b, in)
		if got := b.String(); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}
