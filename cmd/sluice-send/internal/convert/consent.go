package convert

import (
	"encoding/json"
	"slices"
	"strings"

	"sluice/event"
)

// consentDenied is the code of events that must not be sent at all; the service never sees them.
const consentDenied event.Code = "CONSENT_DENIED"

// consent applies one consent field. Only a value that is known to permit leaves the event as it is.
func (t *translation) consent(m move, v any) *event.Error {
	permitted := false
	switch m.as {
	case asFlag:
		permitted = isOff(v)
	case asEnabled:
		permitted = v == true || isWord(v, "true", "1", "yes")
	case asATT:
		permitted = isWord(v, "authorized", "3", "not_applicable")
	case asGranted, asRefusal:
		permitted = isWord(v, "granted")
		if m.as == asRefusal && isWord(v, "denied") {
			return &event.Error{
				Code: consentDenied, Field: pointerOf(m.from), Message: "The person refused the use of their data for advertising.",
				Hint: "Do not send such events.",
			}
		}
	}
	if !permitted {
		t.restrict(m.from)
	}
	return nil
}

// restrict limits the event to measurement because of the field at path.
func (t *translation) restrict(path string) {
	t.out["mmt_only"] = true
	t.denied[strings.TrimPrefix(path, "^")] = true
}

// isOff says whether a restriction is certainly not set: false, 0, no text, nothing in a list.
func isOff(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		return strings.Trim(v, "[]'\" ") == "" || isWord(v, "false", "0", "no")
	case json.Number:
		return v == "0"
	case []any:
		return !slices.ContainsFunc(v, func(e any) bool { return e != nil && e != "" })
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// isWord says whether v is one of the words, as a text in any case or as a number.
func isWord(v any, words ...string) bool {
	text := ""
	switch v := v.(type) {
	case string:
		text = strings.ToLower(strings.TrimSpace(v))
	case json.Number:
		text = string(v)
	}
	return slices.Contains(words, text)
}

// searchConsent restricts the event for every consent signal that the platform's table does not have: by its name, at
// any depth, in the event and in the request around it. What we do not understand is not a permission.
func (t *translation) searchConsent(request map[string]any) {
	t.search(t.source, "", false, func(path string) bool {
		return t.moved(path) || t.alone && t.moved("^"+path)
	})
	if !t.alone {
		t.search(request, "", false, func(path string) bool {
			return slices.Contains(t.c.lists, path) || t.moved("^"+path)
		})
	}
}

func (t *translation) moved(from string) bool {
	return slices.ContainsFunc(t.c.moves, func(m move) bool { return m.from == from })
}

// search looks at a value and what is in it. Members of it have paths that begin with prefix, which ends with a dot.
// consent says that the value, or an object around it, has a consent name.
func (t *translation) search(v any, prefix string, consent bool, known func(path string) bool) {
	switch v := v.(type) {
	case nil:
	case map[string]any:
		for name, inner := range v {
			if !known(prefix + name) {
				t.search(inner, prefix+name+".", consent || event.IsConsentName(name), known)
			}
		}
	case []any:
		for _, e := range v {
			t.search(e, prefix, consent, known)
		}
	default:
		if consent {
			t.restrict(strings.TrimSuffix(prefix, "."))
		}
	}
}
