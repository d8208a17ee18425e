package convert

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"sluice/client"
	"sluice/cmd/sluice-send/internal/input"
	"sluice/event"
)

// translation is one event on its way to ours.
type translation struct {
	c      *Converter
	source map[string]any
	alone  bool // the body is this event; there is no request around it
	out    map[string]any
	denied map[string]bool // paths of consent fields that restrict the event
}

// move takes one value to its place. A place that is filled already keeps what it has.
func (t *translation) move(m move, v any) *event.Error {
	if m.to == "mmt_only" {
		return t.consent(m, v)
	}
	if list, ok := v.([]any); ok && m.as != asInts && !strings.HasPrefix(m.to, "custom_data.") {
		if len(list) == 0 {
			return nil
		}
		if len(list) > 1 {
			t.c.Dropped[m.from+" after the first"] += len(list) - 1
		}
		v = list[0]
	}
	switch m.as {
	case asType:
		t.eventType(v)
	case asTime, asMicros:
		t.put(m.to, instantOf(v, m.as))
	case asNumber:
		t.put(m.to, numberOf(v))
	case asEmail:
		return t.identifier(m, v, client.HashEmail)
	case asIP:
		return t.identifier(m, v, client.HashIPv4)
	case asSource:
		t.put(m.to, sourceOf(v))
	case asNothing:
	default:
		t.put(m.to, v)
	}
	return nil
}

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
	if name, ok := v.(string); ok {
		if ours, known := t.c.types[name]; known {
			v = ours
		} else if _, known := event.LookupType(name); !known {
			v = "custom"
			t.put("custom_event_name", name)
		}
	}
	t.put("event_type", v)
}

// identifier takes a hash as it is. A plain value is hashed only if the sender asked for it; otherwise the event
// is rejected, because somebody meant to send a hash and did not.
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
		return &event.Error{
			Code: event.InvalidIdentifier, Field: pointerOf(m.from),
			Message: "The value is neither a SHA-256 nor what should have been hashed.", Hint: "Correct it at its source.",
		}
	case t.c.HashPlain:
		t.put(m.to, h)
	default:
		return &event.Error{
			Code: event.PlaintextPII, Field: pointerOf(m.from), Message: "The value is not hashed.",
			Hint: "Hash it at its source, or use --hash-plain.",
		}
	}
	return nil
}

func pointerOf(path string) string {
	return "/" + strings.ReplaceAll(strings.TrimPrefix(path, "^"), ".", "/")
}

// takeRest moves the other members of the free objects into custom_data, and counts those that have no place.
func (t *translation) takeRest() {
	for _, name := range sorted(t.source) {
		inner, nested := t.source[name].(map[string]any)
		if !nested || !slices.Contains(t.c.rest, name) {
			t.drop(name, t.source[name])
			continue
		}
		for _, member := range sorted(inner) {
			if path := name + "." + member; inner[member] != nil && !t.placed(path) {
				t.put("custom_data."+member, inner[member])
			}
		}
	}
}

// drop counts a member that has no place. Of an object, each member is counted by itself; an empty one is nothing.
func (t *translation) drop(path string, v any) {
	if v == nil || t.placed(path) {
		return
	}
	if inner, nested := v.(map[string]any); nested &&
		(strings.Count(path, ".") == 0 || t.parent(path) || len(inner) == 0) {
		for _, member := range sorted(inner) {
			t.drop(path+"."+member, inner[member])
		}
		return
	}
	t.c.Dropped[path]++
}

// placed says whether a member has a place of its own, restricts the event, or is the list of events of a request.
func (t *translation) placed(path string) bool {
	return t.denied[path] || slices.Contains(t.c.lists, path) || t.moved(path) || t.moved("^"+path)
}

// parent says whether members of the object at path have a place of their own.
func (t *translation) parent(path string) bool {
	return slices.ContainsFunc(t.c.moves, func(m move) bool {
		return strings.HasPrefix(strings.TrimPrefix(m.from, "^"), path+".")
	})
}

// instantOf gives whole seconds; a value that is not an integer stays as it is, and the rules reject it.
func instantOf(v any, as way) any {
	if s, isString := v.(string); isString {
		if at, err := time.Parse(time.RFC3339, s); err == nil {
			return at.Unix()
		}
	}
	n, ok := numberOf(v).(json.Number)
	if !ok {
		return v
	}
	i, err := n.Int64()
	if err != nil {
		return n
	}
	switch {
	case as == asMicros:
		i /= 1_000_000
	case i >= 1e11: // the same limit as the service's rule for milliseconds
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
	switch s = strings.ToLower(s); s {
	case "web":
		return "website"
	case "mobile_app":
		return "app"
	}
	return s
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
