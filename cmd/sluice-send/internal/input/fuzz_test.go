package input

import (
	"bufio"
	"fmt"
	"strings"
	"testing"
)

// Where the window of the reader ends must not matter, and no bytes may crash it.
func FuzzRows(f *testing.F) {
	for _, s := range []string{"a\nb", "{\"a\":1}\n{}", "[{},{\"x\":[1,\"]\"]}]", "a,\"b\nc\",d\ne,f,g", "\"\"\"\n\"\"\"", "[1,2", "\\\"[{", "\r\n\r\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		kinds := map[string]func(window int) Rows{
			"ndjson": func(w int) Rows { return &lineRows{Lines{r: window(s, w)}} },
			"json":   func(w int) Rows { return newValueRows(window(s, w), Position{}) },
			"csv":    func(w int) Rows { return &csvRows{Lines: Lines{r: window(s, w)}, delimiter: ','} },
		}
		for kind, open := range kinds {
			small, large := open(16), open(1<<16)
			a, errA := readAll(small)
			b, errB := readAll(large)
			if a != b || fmt.Sprint(errA) != fmt.Sprint(errB) || small.Position() != large.Position() {
				t.Errorf("%s: %q, %v, %v against %q, %v, %v", kind, a, errA, small.Position(), b, errB, large.Position())
			}
			if p := small.Position(); p.Offset > int64(len(s)) {
				t.Errorf("%s: stands at %d of %d bytes", kind, p.Offset, len(s))
			}
		}
	})
}

func window(s string, n int) *bufio.Reader { return bufio.NewReaderSize(strings.NewReader(s), n) }
