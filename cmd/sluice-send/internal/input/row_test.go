package input

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// readAll gives the rows of text, one on a line as LINE:DATA, and the error that ended them.
func readAll(r Rows) (string, error) {
	var out []string
	for {
		row, err := r.Next()
		if Ended(err) {
			return strings.Join(out, "|"), nil
		}
		if err != nil {
			return strings.Join(out, "|"), err
		}
		text := string(row.Data)
		if row.Fault != "" {
			text = "FAULT"
		}
		out = append(out, fmt.Sprintf("%d:%s", row.Line, text))
	}
}

// small makes a reader with the smallest window, so that nearly every row needs a copy.
func small(text string) *bufio.Reader { return bufio.NewReaderSize(strings.NewReader(text), 16) }

func TestLineRows(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"plain":            {"a\nb\n", "1:a|2:b"},
		"no break at end":  {"a\nb", "1:a|2:b"},
		"CR LF":            {"a\r\nb\r\n", "1:a|2:b"},
		"blank lines":      {"\n\na\n  \n\nb", "3:a|6:b"},
		"over the window":  {strings.Repeat("x", 40) + "\ny\n", "1:" + strings.Repeat("x", 40) + "|2:y"},
		"exactly a window": {strings.Repeat("x", 16) + "\ny", "1:" + strings.Repeat("x", 16) + "|2:y"},
		"nothing":          {"", ""},
	} {
		l := &lineRows{Lines{r: small(tt.text)}}
		got, err := readAll(l)
		if err != nil || got != tt.want {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, tt.want)
		}
		if p := l.Position(); p.Offset != int64(len(tt.text)) {
			t.Errorf("%s: got offset %d at the end, want %d", name, p.Offset, len(tt.text))
		}
	}
}

// repeated is n bytes of c, made as they are read.
type repeated struct {
	c byte
	n int
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.n == 0 {
		return 0, io.EOF
	}
	n := min(len(p), r.n)
	for i := range n {
		p[i] = r.c
	}
	r.n -= n
	return n, nil
}

func TestHugeLine(t *testing.T) {
	const huge = 100 << 20
	in := io.MultiReader(strings.NewReader("first\n"), &repeated{'x', huge}, strings.NewReader("\nlast\n"))
	l := &lineRows{Lines{r: bufio.NewReaderSize(in, windowBytes)}}
	got, err := readAll(l)
	if err != nil || got != "1:first|2:FAULT|3:last" {
		t.Errorf("got %q, %v", got, err)
	}
	if held := cap(l.spill); held > 2*MaxRow {
		t.Errorf("the line took %d bytes of memory", held)
	}
	// Inside a JSON array, and in a quoted field, where nothing after it can be understood.
	in = io.MultiReader(strings.NewReader(`[{"a":1},{"b":"`), &repeated{'x', huge}, strings.NewReader(`"},{"c":3}]`))
	v := newValueRows(bufio.NewReaderSize(in, windowBytes), Position{})
	if got, err := readAll(v); err != nil || got != `1:{"a":1}|1:FAULT|1:{"c":3}` {
		t.Errorf("in an array: got %q, %v", got, err)
	}
	in = io.MultiReader(strings.NewReader("a,b\nc,\"d\n"), &repeated{'\n', huge}, strings.NewReader("\"\n"))
	c := &csvRows{Lines: Lines{r: bufio.NewReaderSize(in, windowBytes)}, delimiter: ','}
	_, err = readAll(c)
	if e, ok := errors.AsType[*FileError](err); !ok || e.Line != 2 {
		t.Errorf("in quotes: got %v, want a fault in line 2", err)
	}
}

func TestValueRows(t *testing.T) {
	for name, tt := range map[string]struct{ text, want, err string }{
		"array":             {`[{"a":1},{"b":2}]`, `1:{"a":1}|1:{"b":2}`, ""},
		"laid out":          {"[\n  {\n \"a\": 1\n  },\n  {}\n]\n", "2:{\n \"a\": 1\n  }|5:{}", ""},
		"empty array":       {` [ ] `, "", ""},
		"values in a row":   {"{\"a\":\n1}\n{}\n[{}]", "1:{\"a\":\n1}|3:{}|4:{}", ""},
		"strings":           {`[{"a":"]}\"{["},"x,]",1,true]`, `1:{"a":"]}\"{["}|1:"x,]"|1:1|1:true`, ""},
		"number at the end": {`17`, `1:17`, ""},
		"no comma":          {"[{}\n{}]", "1:{}", "line 2: a comma is missing"},
		"two commas":        {"[{},,{}]", "1:{}", "line 1: a JSON value is missing"},
		"trailing comma":    {"[{},]", "1:{}", "line 1: a JSON value is missing"},
		"leading comma":     {"[,{}]", "", "line 1: a JSON value is missing"},
		"open array":        {"[{},\n{}", "1:{}|2:{}", "line 2: the file ends inside its JSON array"},
		"open object":       {"[{},\n{\"a\":", "1:{}", "line 2: the file ends inside a JSON value"},
		"open string":       {`["abc`, "", "line 1: the file ends inside a JSON value"},
		"stray bracket":     {`{}]`, "1:{}", "line 1: a JSON value is missing"},
	} {
		got, err := readAll(newValueRows(small(tt.text), Position{}))
		if got != tt.want || (tt.err == "") != (err == nil) || err != nil && !strings.HasPrefix(err.Error(), tt.err) {
			t.Errorf("%s: got %q, %v, want %q, %s", name, got, err, tt.want, tt.err)
		}
	}
}

func TestCSVRows(t *testing.T) {
	for name, tt := range map[string]struct{ text, want, err string }{
		"plain":              {"a,b\n1,2\n", "1:a,b|2:1,2", ""},
		"CR LF and blanks":   {"a,b\r\n\r\n1,2\r\n", "1:a,b|3:1,2", ""},
		"quoted break":       {"a\n\"x\ny\",2\nz,3\n", "1:a|2:\"x\ny\",2|4:z,3", ""},
		"quoted CR LF":       {"\"x\r\ny\"\r\nz\r\n", "1:\"x\ny\"|3:z", ""},
		"doubled quotes":     {"\"a\"\"\n\"\"b\"\nc", "1:\"a\"\"\n\"\"b\"|3:c", ""},
		"quote in the field": {"5\" pipe,1\nnext,2\n", "1:5\" pipe,1|2:next,2", ""},
		"never closed":       {"a\nb,\"c\nd\n", "1:a", "line 2: a quote is opened"},
	} {
		got, err := readAll(&csvRows{Lines: Lines{r: small(tt.text)}, delimiter: ','})
		if got != tt.want || (tt.err == "") != (err == nil) || err != nil && !strings.HasPrefix(err.Error(), tt.err) {
			t.Errorf("%s: got %q, %v, want %q, %s", name, got, err, tt.want, tt.err)
		}
	}
}

func TestSplitRecord(t *testing.T) {
	for _, tt := range []struct {
		record, want string
		err          error
	}{
		{"a,b,c", "[a b c]", nil},
		{"", "[]", nil},
		{",", "[ ]", nil},
		{`"a,b",c`, "[a,b c]", nil},
		{`"say ""hi""",""`, `[say "hi" ]`, nil},
		{"\"x\ny\",z", "[x\ny z]", nil},
		{`a"b,c`, "", errQuote},
		{`"a"b,c`, "", errQuote},
		{`"a`, "", errQuote},
		{"\xff,c", "", errUTF8},
		{`"",""`, "[ ]", nil},
	} {
		fields, _, err := splitRecord(nil, nil, []byte(tt.record), ',')
		if err != tt.err || err == nil && fmt.Sprintf("%s", fields) != tt.want {
			t.Errorf("%q: got %q, %v, want %s, %v", tt.record, fields, err, tt.want, tt.err)
		}
	}
}

// A record read by our own splitter and by encoding/csv must be the same, and nothing may crash.
func FuzzSplitRecord(f *testing.F) {
	for _, s := range []string{"a,b", `"a,b",c`, `"x""y"`, "\"a\nb\",c", `a"b`, ",,", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		compareWithStandardCSV(t, s)
	})
}

// A batch is cut in the same places wherever the reading begins.
func TestCutterIsTheSameFromEveryBatch(t *testing.T) {
	var text strings.Builder
	for i := range 200 {
		fmt.Fprintf(&text, "{\"n\":%d,\"pad\":%q}\n", i, strings.Repeat("x", i%37))
	}
	path := filepath.Join(t.TempDir(), "rows.ndjson")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	cuts := func(from Position, number int64) (out []string) {
		s, err := OpenSource(path, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		r, err := s.rowsFrom(from, 0)
		if err != nil {
			t.Fatal(err)
		}
		c := &Cutter{Rows: r, MaxRows: 7, MaxBytes: 150, Number: number}
		for b := new(Batch); ; {
			if err := c.Next(b); Ended(err) {
				return out
			} else if err != nil {
				t.Fatal(err)
			}
			out = append(out, fmt.Sprintf("%d %v %v %d %q", b.Number, b.Start, b.End, len(b.Spans), b.Data))
		}
	}
	s, _ := OpenSource(path, nil, "")
	defer s.Close()
	r, _ := s.Rows()
	c := &Cutter{Rows: r, MaxRows: 7, MaxBytes: 150}
	whole := cuts(Position{}, 0)
	rows := 0
	for b, i := new(Batch), 0; c.Next(b) == nil; i++ {
		rows += len(b.Spans)
		if rest := cuts(b.End, b.Number+1); strings.Join(rest, "\n") != strings.Join(whole[i+1:], "\n") {
			t.Fatalf("from batch %d on the cuts differ", i+1)
		}
	}
	if rows != 200 {
		t.Errorf("got %d rows in batches, want 200", rows)
	}
}

func TestSources(t *testing.T) {
	dir := t.TempDir()
	text := "{\"a\":1}\n{\"b\":2}\n"
	var gz, zs bytes.Buffer
	w := gzip.NewWriter(&gz)
	io.WriteString(w, text)
	w.Close()
	e, _ := zstd.NewWriter(&zs)
	io.WriteString(e, text)
	e.Close()
	for name, tt := range map[string]struct {
		file, data string
		format     string
		want       string
		err        string
	}{
		"ndjson":          {"a.ndjson", text, "ndjson", `1:{"a":1}|2:{"b":2}`, ""},
		"gzip":            {"a.ndjson.gz", gz.String(), "ndjson", `1:{"a":1}|2:{"b":2}`, ""},
		"zstd":            {"a.zst", zs.String(), "ndjson", `1:{"a":1}|2:{"b":2}`, ""},
		"gzip by content": {"a.json", gz.String(), "ndjson", `1:{"a":1}|2:{"b":2}`, ""},
		"byte order mark": {"a.jsonl", "\ufeff" + text, "ndjson", `1:{"a":1}|2:{"b":2}`, ""},
		"array":           {"a.ndjson", "\n[{}]", "json", "2:{}", ""},
		"laid out":        {"a.json", "{\n  \"a\": 1\n}\n", "json", "1:{\n  \"a\": 1\n}", ""},
		"csv":             {"a.csv", "x,y\n", "csv", "1:x,y", ""},
		"tsv":             {"a.tsv", "x\ty\n", "tsv", "1:x\ty", ""},
		"csv by content":  {"a.dat", "x,y\n", "csv", "1:x,y", ""},
		"empty":           {"a.csv", "", "", "", "line 1: the file is empty"},
		"only blanks":     {"a.csv", " \n\n", "", "", "line 1: the file is empty"},
		"only a mark":     {"a.csv", "\ufeff", "", "", "line 1: the file is empty"},
		"UTF-16":          {"a.csv", "\xff\xfex\x00", "", "", "line 1: the file is UTF-16"},
		"binary":          {"a.csv", "PK\x03\x04\x00\x00", "", "", "line 1: the file holds zero bytes"},
		"broken gzip":     {"a.gz", "\x1f\x8bxx", "", "", "gzip"},
	} {
		path := filepath.Join(dir, tt.file)
		if err := os.WriteFile(path, []byte(tt.data), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := OpenSource(path, nil, "")
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: got %v, want %q", name, err, tt.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		s.delimiter = ','
		r, err := s.Rows()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := readAll(r); err != nil || got != tt.want || s.Format != tt.format {
			t.Errorf("%s: got %s %q, %v, want %s %q", name, s.Format, got, err, tt.format, tt.want)
		}
		s.Close()
	}
	if _, err := OpenSource(dir, nil, ""); err == nil {
		t.Error("a directory was opened")
	}
	if _, err := OpenSource(filepath.Join(dir, "none"), nil, ""); err == nil {
		t.Error("a missing file was opened")
	}
}
