// Package rules holds the rule corpus: one example for every rule of an event and every edge of it.
//
// Each file of it has a header, an empty line, then a request body. The lines of the header:
//
//	why: what the example shows
//	now: the time of receipt, RFC 3339
//	shape: single (unless said otherwise), batch or any
//	policy: suppress, if the dataset suppresses people who opted out
//	clock: exact, if one second more or less changes the answer
//	request: CODE, if the whole request is rejected
//	want: [INDEX] CODE [/pointer], a problem, in the order in which problems are listed
//	warn: [INDEX] CODE [/pointer], a warning, in any order
//	validate: [INDEX] CODE [/pointer], a warning of /v1/events/validate, if its warnings are not those of warn
//	row: [INDEX] member=JSON, what is stored of an accepted event
//
// An example without request and want is accepted, with exactly the warnings that are listed. Bodies and rows may
// hold placeholders, so that an example can be sent to a running service: {{dataset}}, {{now}}, {{now-7d}},
// {{now+300s}}, with a unit behind a blank for milliseconds, microseconds, nanoseconds or RFC 3339 ({{now-1h ms}}, us,
// ns, rfc3339), {{repeat TEXT COUNT}}, and {{byte HEX}} for a byte that a text file should not hold.
package rules

import (
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"sluice/event"
)

//go:embed cases/*.txt
var files embed.FS

// Case is one example.
type Case struct {
	Name     string // of the file, without its ending
	Why      string
	Now      time.Time
	Shape    event.Shape
	Suppress bool       // the dataset's policy
	Exact    bool       // depends on the very second of receipt: not for a service whose clock runs
	Request  event.Code // rejects the whole request, "" if it is read
	Want     []Finding  // problems, in order
	Warn     []Finding  // warnings, in any order
	Validate []Finding  // warnings of a validation, in any order; none means those of Warn
	Row      []Member   // of what is stored

	body string
}

// Finding is a problem or a warning that an example must provoke.
type Finding struct {
	Index int
	Code  event.Code
	Field string
}

// Member is a member of a stored event.
type Member struct {
	Index int // of the event in the request
	Name  string
	json  string
}

// Cases are all examples, sorted by name.
func Cases() ([]Case, error) {
	names, err := fs.Glob(files, "cases/*.txt")
	if err != nil {
		return nil, err
	}
	cases := make([]Case, 0, len(names))
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		c, err := parse(strings.TrimSuffix(strings.TrimPrefix(name, "cases/"), ".txt"), string(text))
		if err != nil {
			return nil, fmt.Errorf("rule example %s: %w", name, err)
		}
		cases = append(cases, c)
	}
	return cases, nil
}

// Warnings are those of a request, or of its validation.
func (c *Case) Warnings(validation bool) []Finding {
	if validation && len(c.Validate) > 0 {
		return c.Validate
	}
	return c.Warn
}

// Body is the request body for a dataset at a time of receipt.
func (c *Case) Body(now time.Time, dataset string) string { return expanded(c.body, now, dataset) }

// JSON is the value that the member must have.
func (m *Member) JSON(now time.Time, dataset string) string { return expanded(m.json, now, dataset) }

func expanded(text string, now time.Time, dataset string) string {
	text, err := expand(text, now, dataset)
	if err != nil {
		panic(err) // Cases has tried
	}
	return text
}

// parse reads a file.
func parse(name, text string) (Case, error) {
	c := Case{Name: name}
	header, body, found := strings.Cut(text, "\n\n")
	if !found {
		return c, fmt.Errorf("no empty line after the header")
	}
	// A text file ends with a newline; it is no part of the body.
	c.body = strings.TrimSuffix(body, "\n")
	for line := range strings.Lines(header) {
		key, value, found := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		if !found {
			return c, fmt.Errorf("header line without a colon: %q", line)
		}
		if err := c.set(key, value); err != nil {
			return c, fmt.Errorf("%s: %w", key, err)
		}
	}
	if c.Why == "" || c.Now.IsZero() {
		return c, fmt.Errorf("why and now are required")
	}
	if _, err := expand(c.body, c.Now, "d"); err != nil {
		return c, err
	}
	for i := range c.Row {
		if _, err := expand(c.Row[i].json, c.Now, "d"); err != nil {
			return c, err
		}
	}
	return c, nil
}

func (c *Case) set(key, value string) (err error) {
	switch key {
	case "why":
		c.Why = value
	case "now":
		c.Now, err = time.Parse(time.RFC3339, value)
	case "shape":
		shape, ok := map[string]event.Shape{"single": event.Single, "batch": event.Batch, "any": event.Any}[value]
		if !ok {
			return fmt.Errorf("unknown shape %q", value)
		}
		c.Shape = shape
	case "policy":
		c.Suppress, err = flag(value, "suppress")
	case "clock":
		c.Exact, err = flag(value, "exact")
	case "request":
		c.Request = event.Code(value)
	case "want":
		c.Want, err = add(c.Want, value)
	case "warn":
		c.Warn, err = add(c.Warn, value)
	case "validate":
		c.Validate, err = add(c.Validate, value)
	case "row":
		index, rest := leadingIndex(value)
		name, text, ok := strings.Cut(rest, "=")
		if !ok {
			return fmt.Errorf("no = in %q", value)
		}
		c.Row = append(c.Row, Member{index, name, text})
	default:
		return fmt.Errorf("unknown header line")
	}
	return err
}

func flag(value, word string) (bool, error) {
	if value != word {
		return false, fmt.Errorf("got %q, want %s", value, word)
	}
	return true, nil
}

func add(to []Finding, text string) ([]Finding, error) {
	index, rest := leadingIndex(text)
	code, pointer, _ := strings.Cut(rest, " ")
	if code == "" {
		return to, fmt.Errorf("no code")
	}
	return append(to, Finding{index, event.Code(code), pointer}), nil
}

func leadingIndex(text string) (int, string) {
	first, rest, found := strings.Cut(text, " ")
	if index, err := strconv.Atoi(first); found && err == nil {
		return index, rest
	}
	return 0, text
}

// expand replaces the placeholders.
func expand(text string, now time.Time, dataset string) (string, error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "{{")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		inside, after, found := strings.Cut(rest, "}}")
		if !found {
			return "", fmt.Errorf("placeholder without an end")
		}
		value, err := placeholder(strings.Fields(inside), now, dataset)
		if err != nil {
			return "", fmt.Errorf("placeholder %q: %w", inside, err)
		}
		b.WriteString(value)
		text = after
	}
}

func placeholder(words []string, now time.Time, dataset string) (string, error) {
	switch {
	case len(words) == 0:
		return "{{}}", nil
	case words[0] == "dataset":
		return dataset, nil
	case words[0] == "open":
		return "{{", nil
	case words[0] == "byte" && len(words) == 2:
		raw, err := hex.DecodeString(words[1])
		return string(raw), err
	case words[0] == "repeat" && len(words) == 3:
		n, err := strconv.Atoi(words[2])
		if err != nil {
			return "", err
		}
		return strings.Repeat(words[1], n), nil
	case strings.HasPrefix(words[0], "now"):
		return moment(words, now)
	}
	return "", fmt.Errorf("not known")
}

// moment is a point in time, such as now-7d, in seconds or in the unit that follows.
func moment(words []string, now time.Time) (string, error) {
	shift := strings.TrimPrefix(words[0], "now")
	if shift != "" {
		unit := map[byte]time.Duration{
			's': time.Second, 'm': time.Minute, 'h': time.Hour,
			'd': 24 * time.Hour,
		}[shift[len(shift)-1]]
		n, err := strconv.Atoi(shift[:len(shift)-1])
		if err != nil || unit == 0 {
			return "", fmt.Errorf("no shift of time: %q", shift)
		}
		now = now.Add(time.Duration(n) * unit)
	}
	if len(words) == 1 {
		return strconv.FormatInt(now.Unix(), 10), nil
	}
	switch words[1] {
	case "ms":
		return strconv.FormatInt(now.UnixMilli(), 10), nil
	case "us":
		return strconv.FormatInt(now.UnixMicro(), 10), nil
	case "ns":
		return strconv.FormatInt(now.UnixNano(), 10), nil
	case "rfc3339":
		return now.UTC().Format(time.RFC3339), nil
	}
	return "", fmt.Errorf("unknown unit")
}
