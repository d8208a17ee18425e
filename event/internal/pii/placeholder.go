package pii

import "strings"

// placeholder says whether value is a word that programs and people write where there is no value, in any
// case and in any brackets or quotes, or a zero, or has no letter and no digit at all.
func placeholder(value string, c class) bool {
	if c.digits() > 0 {
		return zeros(value)
	}
	var buf [24]byte
	if len(value) > 2*len(buf) {
		return false
	}
	s := trimSigns(value)
	if s == "" {
		return true
	}
	if len(s) > len(buf) {
		return false
	}
	word := lowerASCII(buf[:0], s)
	for i, c := range word {
		if c == '_' || c == '-' {
			word[i] = ' '
		}
	}
	switch string(word) {
	case "null", "nil", "none", "undefined", "undef", "nan", "void", "na", "n/a", "n.a",
		"not set", "notset", "unset", "not available", "not applicable", "not provided", "not found", "no value", "no data",
		"unknown", "empty", "blank", "missing", "absent", "redacted", "removed", "deleted", "hidden", "masked", "anonymous",
		"anonymized", "anonymised", "optout", "opt out", "false", "true", "test", "testing", "example", "sample",
		"placeholder",
		"string", "value", "dummy", "todo", "tbd", "object object", "object undefined", "object null", "default", "localhost",
		"null null", "none none", "undefined undefined", "inf", "infinity", "ref", "error":
		return true
	}
	return false
}

// trimSigns takes off what is neither a letter nor a digit at both ends. Letters beyond ASCII stay.
func trimSigns(s string) string {
	return strings.TrimFunc(s, func(r rune) bool { return r < 0x80 && !isWord(byte(r)) })
}

// zeros says whether s has digits, no letters, and no digit but 0.
func zeros(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= 0x80 || r != '0' && isWord(byte(r)) })
}

// maxBraces bounds the braces that are tried as the beginning of a macro; arbitrary.
const maxBraces = 16

// holdsMacro says whether a template macro was left unexpanded: {{x}}, ${x}, #{x}, {x}, %%x%% or <%= x %>
// anywhere in s; [x], <x>, $x, %x%, __x__, *|x|* or #x# as the whole of it.
func holdsMacro(s string) bool {
	tries := 0
	for i := strings.IndexByte(s, '{'); i >= 0 && i < len(s) && tries < maxBraces; i++ {
		if s[i] != '{' {
			continue
		}
		tries++
		if i > 0 && (s[i-1] == '$' || s[i-1] == '#') && strings.IndexByte(s[i:], '}') > 1 || braceMacro(s[i:]) {
			return true
		}
	}
	if n := strings.IndexByte(s, '%'); n >= 0 {
		if _, rest, ok := strings.Cut(s[n:], "%%"); ok && strings.Contains(rest, "%%") {
			return true
		}
		if strings.Contains(s, "<%") && strings.Contains(s[n:], "%>") {
			return true
		}
	}
	if len(s) < 3 {
		return len(s) == 2 && s[0] == '$' && isLetter(s[1])
	}
	last := len(s) - 1
	switch s[0] {
	case '[':
		return s[last] == ']' && macroWord(strings.Trim(s, "[]"))
	case '<':
		return s[last] == '>' && macroWord(strings.Trim(s, "<>"))
	case '%', '#':
		return s[last] == s[0] && macroWord(s[1:last])
	case '$':
		return macroWord(strings.Trim(s, "$"))
	case '_':
		return len(s) > 4 && strings.HasPrefix(s, "__") && strings.HasSuffix(s, "__") && macroWord(strings.Trim(s, "_"))
	case '*':
		return strings.HasPrefix(s, "*|") && strings.HasSuffix(s, "|*")
	}
	return false
}

// braceMacro says whether s, which begins with a brace, begins with a macro.
func braceMacro(s string) bool {
	if strings.HasPrefix(s, "{{") {
		return strings.Contains(s, "}}")
	}
	if strings.HasPrefix(s, "{%") {
		return strings.Contains(s, "%}")
	}
	end := strings.IndexByte(s, '}')
	return end > 1 && macroWord(s[1:end])
}

// macroWord says whether s names a variable: letters with few digits, so that an opaque id in brackets is none.
func macroWord(s string) bool {
	s = strings.TrimSpace(s)
	if s == "" || len(s) > 64 || !isLetter(s[0]) && s[0] != '_' {
		return false
	}
	digits := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case isLetter(c) || c == '_' || c == '.' || c == '-' || c == ' ' || c == ':':
		case isDigit(c):
			digits++
		default:
			return false
		}
	}
	return digits <= 2 || digits == 3 && strings.HasSuffix(s, "256") || digits == 3 && strings.HasSuffix(s, "512")
}
