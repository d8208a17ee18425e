package event

import (
	"math"
	"strconv"
	"unicode/utf8"
)

// AppendJSON adds the stored event as one JSON object on one line: every column, null when absent.
func AppendJSON(b []byte, r *Row) []byte {
	sep := byte('{')
	for i := range columns {
		c := &columns[i]
		b = append(append(append(b, sep, '"'), c.Name...), `":`...)
		b = c.appendJSON(b, r)
		sep = ','
	}
	return append(b, '}')
}

// AppendString adds a JSON string. Bytes that are not UTF-8 become U+FFFD, so that the result is always valid. The same
// s always gives the same bytes: a sender repeats a request to the byte, also after an update.
func AppendString[S string | []byte](b []byte, s S) []byte {
	b = append(b, '"')
	done := 0 // everything before it is written
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
			if r == utf8.RuneError && size == 1 {
				b = append(append(b, s[done:i]...), `\ufffd`...)
				done = i + 1
			}
			i += size
			continue
		}
		if c < ' ' || c == '"' || c == '\\' {
			b = append(append(b, s[done:i]...), '\\')
			if c < ' ' {
				b = append(b, 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			} else {
				b = append(b, c)
			}
			done = i + 1
		}
		i++
	}
	return append(append(b, s[done:]...), '"')
}

// appendNumber adds a JSON number: plain digits where people write them, an exponent beyond. There is none for infinity
// and what is not a number.
func appendNumber(b []byte, v float64) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return b
	}
	format := byte('f')
	if a := math.Abs(v); a != 0 && (a < 1e-6 || a >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(b, v, format, -1, 64)
}

// appendNumbers adds an array; nothing for an empty list.
func appendNumbers(b []byte, list []int32) []byte {
	if len(list) == 0 {
		return b
	}
	sep := byte('[')
	for _, n := range list {
		b = strconv.AppendInt(append(b, sep), int64(n), 10)
		sep = ','
	}
	return append(b, ']')
}

// appendLine adds JSON on one line: in valid JSON a control character can only be white space between tokens, so
// leaving them out changes nothing.
func appendLine(b []byte, raw string) []byte {
	for i := range len(raw) {
		if raw[i] >= ' ' {
			b = append(b, raw[i])
		}
	}
	return b
}
