package convert

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"sluice/client"
	"sluice/cmd/sluice-send/internal/input"
	"sluice/event"
)

// translation is one event on its way to ours.
type translation struct {
	c      *Converter
	source map[string]any
	out    map[string]any
	used   map[string]bool // paths of the source that have a place
}

// move takes one value to its place. A place that is filled already keeps what it has.
func (t *translation) move(m move, v any) *event.Error {
	t.used[m.from] = true
	if list, ok := v.([]any); ok && m.how != "ints" && m.how != "flag" && !strings.HasPrefix(m.to, "custom_data.") {
		if len(list) == 0 {
			return nil
		}
		if len(list) > 1 {
			t.c.Dropped[m.from+" after the first"] += len(list) - 1
		}
		v = list[0]
	}
	switch m.how {
	case "type":
		t.eventType(v)
	case "seconds", "millis", "micros":
		t.put(m.to, instantOf(v, m.how))
	case "number":
		t.put(m.to, numberOf(v))
	case "email":
		return t.identifier(m, v, client.HashEmail)
	case "ip":
		return t.identifier(m, v, client.HashIPv4)
	case "source":
		t.put(m.to, sourceOf(v))
	case "flag":
		if isSet(v) {
			t.out["mmt_only"] = true
		}
	case "denied":
		if v == "DENIED" {
			t.out["mmt_only"] = true
		}
	case "refused":
		if v == "DENIED" {
			return &event.Error{Code: consentDenied, Field: "/" + strings.ReplaceAll(m.from, ".", "/"), Message: "The person refused the use of their data for advertising.", Hint: "Do not send such events."}
		}
	default:
		t.put(m.to, v)
	}
	return nil
}

// consentDenied is the code of events that must not be sent at all; the service never sees them.
const consentDenied event.Code = "CONSENT_DENIED"

// put sets a field of our event by its name, within its group.
func (t *translation) put(field string, v any) {
	m, ok := input.MemberOf(field)
	if !ok {
		return
	}
	object := t.out
	if m.Group != "" {
		inner, ok := t.out[m.Group].(map[string]any)
		if !ok {
			inner = map[string]any{}
			t.out[m.Group] = inner
		}
		object = inner
	}
	if _, taken := object[m.Name]; !taken {
		object[m.Name] = v
	}
}

func (t *translation) eventType(v any) {
	name, ok := v.(string)
	if !ok {
		t.put("event_type", v)
		return
	}
	if ours, known := t.c.types[name]; known {
		t.put("event_type", ours)
		return
	}
	if _, known := event.LookupType(name); known {
		t.put("event_type", name)
		return
	}
	t.put("event_type", "custom")
	t.put("custom_event_name", name)
}

// identifier takes a hash as it is. A plain value is hashed only if the sender asked for it; otherwise the event
// is refused, for somebody meant to send a hash and did not.
func (t *translation) identifier(m move, v any, hash func(string) (string, error)) *event.Error {
	s, ok := v.(string)
	if !ok {
		t.put(m.to, v)
		return nil
	}
	s = strings.TrimSpace(s)
	h, err := hash(s)
	switch {
	case err == client.ErrAlreadyHashed:
		t.put(m.to, strings.ToLower(s))
	case err == client.ErrNotIPv4 && strings.Count(s, ":") > 1:
		t.c.Dropped[m.from+" (IPv6)"]++
	case err != nil:
		return &event.Error{Code: event.InvalidIdentifier, Field: pointerOf(m.from), Message: "The value is neither a SHA-256 nor what should have been hashed.", Hint: "Correct it at its source."}
	case t.c.HashPlain:
		t.put(m.to, h)
	default:
		return &event.Error{Code: event.PlaintextPII, Field: pointerOf(m.from), Message: "The value is not hashed.", Hint: "Hash it at its source, or use --hash-plain."}
	}
	return nil
}

func pointerOf(path string) string {
	return "/" + strings.ReplaceAll(strings.TrimPrefix(path, "^"), ".", "/")
}

// takeRest moves the other members of the free objects into custom_data, and counts those that have no place.
func (t *translation) takeRest() {
	for _, name := range sorted(t.source) {
		v := t.source[name]
		if v == nil || t.used[name] || t.placed(name) {
			continue
		}
		inner, nested := v.(map[string]any)
		if !nested {
			t.c.Dropped[name]++
			continue
		}
		for _, member := range sorted(inner) {
			path := name + "." + member
			switch {
			case inner[member] == nil || t.used[path] || t.placed(path):
			case slices.Contains(t.c.rest, name):
				t.put("custom_data."+member, inner[member])
			default:
				t.c.Dropped[path]++
			}
		}
	}
}

// placed says whether a member has a place of its own, or is the list of events of a request.
func (t *translation) placed(path string) bool {
	if path == t.c.list {
		return true
	}
	return slices.ContainsFunc(t.c.moves, func(m move) bool {
		from := strings.TrimPrefix(m.from, "^")
		return from == path
	})
}

// instantOf gives whole seconds; what is no integer goes as it is, for the rules to refuse.
func instantOf(v any, how string) any {
	n, ok := v.(json.Number)
	if s, isString := v.(string); isString && input.IsNumber([]byte(s)) {
		n, ok = json.Number(s), true
	}
	if !ok {
		return v
	}
	i, err := n.Int64()
	if err != nil {
		return n
	}
	switch {
	case how == "micros":
		i /= 1_000_000
	case how == "millis" && i >= 1e11: // the same border as the service's rule for milliseconds
		i /= 1000
	}
	return i
}

func numberOf(v any) any {
	if s, ok := v.(string); ok && input.IsNumber([]byte(s)) {
		return json.Number(s)
	}
	return v
}

func sourceOf(v any) any {
	s, ok := v.(string)
	if !ok {
		return v
	}
	s = strings.ToLower(s)
	switch s {
	case "web":
		return "website"
	case "mobile_app":
		return "app"
	}
	return s
}

// isSet says whether a restriction is on: true, a list with something in it, or a text such as "['LMU']".
func isSet(v any) bool {
	switch v := v.(type) {
	case bool:
		return v
	case []any:
		return slices.ContainsFunc(v, func(e any) bool { return e != nil && e != "" })
	case string:
		return strings.Trim(v, "[]'\" ") != "" && !strings.EqualFold(v, "false")
	case json.Number:
		return v != "0"
	}
	return false
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
