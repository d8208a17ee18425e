// Package convert turns the server events of other platforms into ours.
//
// The tables in platform.go say which member of a foreign event fills which of ours. Every consent field of a platform
// is in its table: a refusal restricts the event to measurement or leaves it out, never neither.
package convert

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sluice/event"
)

// Names lists the platforms whose events can be converted.
func Names() []string {
	var names []string
	for _, p := range platforms {
		names = append(names, p.name)
	}
	return names
}

// Table is the platform's mapping in Markdown; docs/sending.md holds the same.
func (pl *platform) Table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s | ours | how |\n|---|---|---|\n", pl.title)
	for _, m := range pl.moves {
		from, to := m.from, "–"
		if outer, ok := strings.CutPrefix(from, "^"); ok {
			from = outer + " (of the request)"
		}
		if m.to != "" {
			to = "`" + m.to + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", from, to, m.as)
	}
	for _, r := range pl.rest {
		fmt.Fprintf(&b, "| other members of %s | `custom_data` | as they are |\n", r)
	}
	b.WriteString("| any other consent field, anywhere | `mmt_only` | restricts the event to measurement |\n")
	b.WriteString("| anything else | – | left out, and said |\n")
	if len(pl.types) > 0 {
		b.WriteString("\n| event | `event_type` |\n|---|---|\n")
		for _, name := range slices.Sorted(maps.Keys(pl.types)) {
			fmt.Fprintf(&b, "| %s | `%s` |\n", name, pl.types[name])
		}
	}
	return b.String()
}

// Options are the choices of a conversion.
type Options struct {
	Dataset   string           // data_set_id of events that have none
	HashPlain bool             // hash plain e-mail and IPv4 addresses instead of rejecting the event
	Now       func() time.Time // for events without a time
}

// Converter turns the events of one platform into ours. One goroutine at a time.
type Converter struct {
	*platform
	Options
	Dropped map[string]int // members that an event has no field for, and how often they occurred
	// Restricted counts the events that a consent field of the source restricted to measurement, by field.
	Restricted map[string]int

	decoder event.Decoder
}

// New makes a converter. It is nil for an unknown platform.
func New(name string, o Options) *Converter {
	i := slices.IndexFunc(platforms, func(p platform) bool { return p.name == name })
	if i < 0 {
		return nil
	}
	return &Converter{platform: &platforms[i], Options: o, Dropped: map[string]int{}, Restricted: map[string]int{}}
}

// Outcome is one converted event, or why it was not converted.
type Outcome struct {
	Event []byte
	Fault *event.Error
}

func rejected(code event.Code, message, hint string) Outcome {
	return Outcome{Fault: &event.Error{Code: code, Message: message, Hint: hint}}
}

// Body converts a request body, which may hold many events, or one event.
func (c *Converter) Body(data []byte) []Outcome {
	var request map[string]any
	if err := decoder(data).Decode(&request); err != nil {
		return []Outcome{rejected(event.MalformedJSON, "The text is not a JSON object.",
			"Give whole request bodies or events.")}
	}
	if duplicate(decoder(data)) {
		return []Outcome{rejected(event.DuplicateField, "An object of the body names a member twice.",
			"Send every member once: two programs could read two different events.")}
	}
	for _, name := range c.lists {
		list, ok := request[name].([]any)
		if !ok {
			continue
		}
		out := make([]Outcome, len(list))
		for i, e := range list {
			if one, ok := e.(map[string]any); ok {
				out[i] = c.one(request, one, false)
			} else {
				out[i] = rejected(event.InvalidType, "The event is not an object.", "")
			}
		}
		return out
	}
	return []Outcome{c.one(request, request, true)}
}

// decoder reads data; a number keeps its literal.
func decoder(data []byte) *json.Decoder {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return d
}

// duplicate says whether an object of the value that d reads names a member twice. The standard library keeps the last
// one, so a refusal before it would be lost. The value must be good JSON.
func duplicate(d *json.Decoder) bool {
	open, _ := d.Token()
	if _, nested := open.(json.Delim); !nested {
		return false
	}
	names := map[json.Token]bool{}
	for d.More() {
		if open == json.Delim('{') {
			name, _ := d.Token()
			if names[name] {
				return true
			}
			names[name] = true
		}
		if duplicate(d) {
			return true
		}
	}
	_, _ = d.Token() // what closes it
	return false
}

func (c *Converter) one(request, source map[string]any, alone bool) Outcome {
	t := &translation{c: c, source: source, alone: alone, out: map[string]any{}, denied: map[string]bool{}}
	for _, m := range c.moves {
		from, path := source, m.from
		if outer, ok := strings.CutPrefix(m.from, "^"); ok {
			from, path = request, outer
		}
		v, found := dig(from, path)
		if !found || v == nil || v == "" {
			continue
		}
		if fault := t.move(m, v); fault != nil {
			return Outcome{Fault: fault}
		}
	}
	t.searchConsent(request)
	t.takeRest()
	if _, has := t.out["data_set_id"]; !has && c.Dataset != "" {
		t.out["data_set_id"] = c.Dataset
	}
	body, err := json.Marshal(t.out)
	if err != nil {
		return rejected(event.InvalidType, "The event cannot be written.", "")
	}
	out := c.verify(body)
	if out.Fault == nil {
		for path := range t.denied {
			c.Restricted[path]++
		}
	}
	return out
}

// verify holds a converted event against the rules, at its own time: whether it is too old is for the day of its
// upload.
func (c *Converter) verify(body []byte) Outcome {
	var e struct {
		Timestamp int64 `json:"timestamp"`
	}
	now := c.Now()
	if json.Unmarshal(body, &e) == nil && e.Timestamp > 0 {
		now = time.Unix(e.Timestamp, 0)
	}
	r, whole := c.decoder.Decode(string(body), event.Single, event.Policy{}, now)
	if whole != nil {
		return Outcome{Fault: whole}
	}
	for _, p := range r.Errors {
		if p.Code == event.MissingField && p.Field == "/data_set_id" {
			continue // upload --dataset can give it
		}
		return Outcome{Fault: new(p)}
	}
	return Outcome{Event: body}
}

// dig follows a path of member names.
func dig(from map[string]any, path string) (any, bool) {
	first, rest, deeper := strings.Cut(path, ".")
	v, ok := from[first]
	if !ok || !deeper {
		return v, ok
	}
	inner, ok := v.(map[string]any)
	if !ok {
		return nil, false
	}
	return dig(inner, rest)
}
