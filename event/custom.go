package event

import "strings"

// checkCustomData is the rule of custom_data. The row keeps the text that came; only if there are nulls in it, it is
// written anew without them.
func (d *Decoder) checkCustomData(t *draft, r *Row) {
	const f = fieldCustomData
	if !t.is(f) {
		return
	}
	pointer := Fields[f].Pointer
	raw := t.text[f]
	good := true
	if t.customMembers > customDataMembers {
		d.problem(InvalidCustomData, pointer, "custom_data has more than 100 members.", "")
		good = false
	}
	if t.customDeepest > customDataDepth {
		d.problem(InvalidCustomData, pointer, "custom_data is nested deeper than 3 levels.", "")
		good = false
	}
	if len(raw) > customDataBytes {
		d.problem(InvalidCustomData, pointer, "custom_data is larger than 32 KiB.", "")
		good = false
	}
	if good && t.customNulls {
		raw = d.withoutNulls(raw)
	}
	r.CustomData = raw
}

// withoutNulls writes a JSON text, known to be valid, without the members and elements that are null, and without
// white space. Every other literal stays as it was written.
func (d *Decoder) withoutNulls(raw string) string {
	from := d.arena.Len()
	d.arena.Grow(len(raw))
	c := copier{in: raw, out: &d.arena}
	c.value()
	return d.arena.String()[from:]
}

// copier copies valid JSON.
type copier struct {
	in  string
	i   int
	out *strings.Builder
}

func (c *copier) space() byte {
	for c.in[c.i] <= ' ' {
		c.i++
	}
	return c.in[c.i]
}

func (c *copier) value() {
	switch c.space() {
	case '{':
		c.container('}')
	case '[':
		c.container(']')
	case '"':
		c.str()
	default:
		from := c.i
		for c.i < len(c.in) && !strings.ContainsRune(" \t\r\n,]}", rune(c.in[c.i])) {
			c.i++
		}
		c.out.WriteString(c.in[from:c.i])
	}
}

func (c *copier) str() {
	from := c.i
	for c.i++; c.in[c.i] != '"'; c.i++ {
		if c.in[c.i] == '\\' {
			c.i++
		}
	}
	c.i++
	c.out.WriteString(c.in[from:c.i])
}

// container copies an object or an array up to the byte that closes it.
func (c *copier) container(closing byte) {
	c.out.WriteByte(c.in[c.i])
	c.i++
	comma := false
	for c.space() != closing {
		if c.in[c.i] == ',' {
			c.i++
			c.space()
		}
		nameFrom, nameTo := c.i, c.i
		if closing == '}' {
			nameTo = c.name()
		}
		if c.space() == 'n' {
			c.i += len("null")
			continue
		}
		if comma {
			c.out.WriteByte(',')
		}
		comma = true
		if closing == '}' {
			c.out.WriteString(c.in[nameFrom:nameTo])
			c.out.WriteByte(':')
		}
		c.value()
	}
	c.i++
	c.out.WriteByte(closing)
}

// name moves over a member's name and colon and returns where the name ends.
func (c *copier) name() int {
	for c.i++; c.in[c.i] != '"'; c.i++ {
		if c.in[c.i] == '\\' {
			c.i++
		}
	}
	c.i++
	to := c.i
	c.space()
	c.i++
	return to
}
