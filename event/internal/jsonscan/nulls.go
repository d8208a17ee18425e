package jsonscan

import "strings"

const whiteSpace = " \t\r\n"

// WriteWithoutNulls writes a JSON text, known to be valid and to have no white space around it, without the members and
// elements that are null, and without white space. Every other literal stays as it was written.
func WriteWithoutNulls(out *strings.Builder, raw string) {
	if raw[0] != '{' && raw[0] != '[' {
		out.WriteString(raw)
		return
	}
	name := ""    // of the member that begins, not written yet
	first := true // nothing is before it in its object or array
	for raw != "" {
		var token string
		token, raw = cutToken(raw)
		raw = strings.TrimLeft(raw, whiteSpace)
		switch c := token[0]; {
		case c == ',':
		case c == 'n':
			name = ""
		case c == '"' && raw[0] == ':':
			name, raw = token, raw[1:]
			raw = strings.TrimLeft(raw, whiteSpace)
		case c == '}' || c == ']':
			out.WriteString(token)
			first = false
		default:
			if !first {
				out.WriteByte(',')
			}
			if name != "" {
				out.WriteString(name)
				out.WriteByte(':')
			}
			out.WriteString(token)
			name, first = "", c == '{' || c == '['
		}
	}
}

// cutToken cuts the first token off valid JSON: a string, a literal, or a sign.
func cutToken(raw string) (token, rest string) {
	end := 1
	switch raw[0] {
	case '{', '}', '[', ']', ',':
	case '"':
		for ; raw[end] != '"'; end++ {
			if raw[end] == '\\' {
				end++
			}
		}
		end++
	default:
		end = strings.IndexAny(raw, whiteSpace+",]}")
	}
	return raw[:end], raw[end:]
}
