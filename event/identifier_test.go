package event

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// identifierCase is a line of the identifier corpus.
type identifierCase struct {
	ID        string          `json:"id"`
	Field     string          `json:"field"`
	Value     json.RawMessage `json:"value"`
	Verdict   string          `json:"verdict"`
	Warning   Code            `json:"warning"`
	ErrorCode Code            `json:"error_code"`
	Why       string          `json:"why"`
}

var kindNames = map[string]identifierKind{"email_sha256": kindEmail, "ifa": kindIFA, "ip": kindIP, "partner_id": kindPartner}

// text is the value if it is a string.
func (c *identifierCase) text() (s string, ok bool) {
	return s, json.Unmarshal(c.Value, &s) == nil && c.Value[0] == '"'
}

func readIdentifiers(t testing.TB, path string) (cases []identifierCase) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var c identifierCase
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatalf("%s: %v in %s", path, err, lines.Text())
		}
		cases = append(cases, c)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return cases
}

var corpora = []string{"testdata/identifiers.jsonl", "testdata/identifier_extra.jsonl"}

// TestIdentifierCorpus holds checkIdentifier against every string of both corpora.
func TestIdentifierCorpus(t *testing.T) {
	for _, path := range corpora {
		for _, c := range readIdentifiers(t, path) {
			value, ok := c.text()
			if !ok {
				continue // null and other types never reach checkIdentifier; the decoder's tests have them
			}
			out, warn, code, message, hint := checkIdentifier(kindNames[c.Field], value)
			if wrong := c.judge(value, out, warn, code); wrong != "" {
				t.Errorf("%s (%s): %s; out %q, warning %q, code %q, message %q", c.ID, c.Why, wrong, out, warn, code, message)
			}
			if code != "" && (message == "" || hint == "") {
				t.Errorf("%s: rejected without message or hint", c.ID)
			}
		}
	}
}

// judge says what is wrong with an answer, "" if nothing is.
func (c *identifierCase) judge(value, out string, warn, code Code) string {
	switch c.Verdict {
	case "accept":
		want := value
		if c.Warning == HashCaseNormalized || c.Field == "ifa" && c.Warning != IFANonstandard {
			want = strings.ToLower(value)
		}
		if code != "" || out != want || warn != c.Warning {
			return "want accepted with warning " + string(c.Warning)
		}
	case "absent":
		if code != "" || out != "" || warn != c.Warning {
			return "want absent with warning " + string(c.Warning)
		}
	case "reject":
		any := c.ErrorCode == "*" && (code == PlaintextPII || code == InvalidIdentifier)
		if out != "" || warn != "" || code != c.ErrorCode && !any {
			return "want " + string(c.ErrorCode)
		}
	default:
		return "unknown verdict " + c.Verdict
	}
	return ""
}
