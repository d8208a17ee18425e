package api

import (
	"bytes"
	"encoding/json"

	"sluice/event"
)

// object is a JSON object whose members keep their order, for documents that people read too.
type object []member

type member struct {
	name  string
	value any
}

// MarshalJSON writes the members in their order.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(event.AppendString(nil, m.name))
		b.WriteByte(':')
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// text is the value of a member that is a string.
func (o object) text(name string) string {
	for _, m := range o {
		if s, ok := m.value.(string); ok && m.name == name {
			return s
		}
	}
	return ""
}

// with returns the object with one more member.
func (o object) with(name string, value any) object {
	return append(o[:len(o):len(o)], member{name, value})
}
