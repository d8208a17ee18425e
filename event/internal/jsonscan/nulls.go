package jsonscan

import "strings"

// WriteWithoutNulls writes a JSON text, known to be valid, without the members and elements that are null, and without
// white space. Every other literal stays as it was written.
func WriteWithoutNulls(out *strings.Builder, raw string) {
	c := copier{in: raw, out: out}
	c.value()
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
		c.out.WriteString(c.str())
	default:
		from := c.i
		for c.i < len(c.in) && !strings.ContainsRune(" \t\r\n,]}", rune(c.in[c.i])) {
			c.i++
		}
		c.out.WriteString(c.in[from:c.i])
	}
}

// str moves over a string and returns it, with its quotes.
func (c *copier) str() string {
	from := c.i
	for c.i++; c.in[c.i] != '"'; c.i++ {
		if c.in[c.i] == '\\' {
			c.i++
		}
	}
	c.i++
	return c.in[from:c.i]
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
		name := ""
		if closing == '}' {
			name = c.str()
			c.space()
			c.i++ // the colon
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
			c.out.WriteString(name)
			c.out.WriteByte(':')
		}
		c.value()
	}
	c.i++
	c.out.WriteByte(closing)
}
