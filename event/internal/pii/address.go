package pii

import (
	"net/netip"
	"strconv"
	"strings"
)

// findIPv4 says whether s holds an IPv4 address as a separate token. v2.10.3.1 is a version; 1.2.3.4.5 is not an
// address.
func findIPv4(s string, loose bool) bool {
	for i := 0; i < len(s); i++ {
		if !isDigit(s[i]) {
			continue
		}
		start := i
		for i < len(s) && (isDigit(s[i]) || s[i] == '.') {
			i++
		}
		run := strings.TrimRight(s[start:i], ".")
		after := start + len(run)
		if start > 0 && isLetter(s[start-1]) || after < len(s) && isLetter(s[after]) {
			continue
		}
		dotted := start > 1 && s[start-1] == '.' && (isLetter(s[start-2]) || isDigit(s[start-2]))
		if long, _, ok := quad(run, "."); ok && (!dotted || long > 0 || loose) {
			return true
		}
	}
	return false
}

// quad says whether s is four numbers up to 255 with a separator between them, how many have three digits, and whether
// one has a leading zero.
func quad(s, separator string) (long int, padded, ok bool) {
	parts := 0
	for part := range strings.SplitSeq(s, separator) {
		if parts++; parts > 4 || part == "" || len(part) > 3 {
			return 0, false, false
		}
		if n, err := strconv.Atoi(part); err != nil || n > 255 {
			return 0, false, false
		}
		padded = padded || len(part) > 1 && part[0] == '0'
		if len(part) == 3 {
			long++
		}
	}
	return long, padded, parts == 4
}

// findNumericIPv4 says whether s holds an IPv4 address with parts in hexadecimal or octal, as programs read it:
// 0xCB.0x00.0x71.0x07, 0313.0.0161.07. At least one part has to be written so.
func findNumericIPv4(s string) bool {
	for i := 0; i < len(s); i++ {
		if !isDigit(s[i]) || i > 0 && (isWord(s[i-1]) || s[i-1] == '.') {
			continue
		}
		end := i
		for end < len(s) && (isWord(s[end]) || s[end] == '.') {
			end++
		}
		if numericQuad(strings.TrimRight(s[i:end], ".")) {
			return true
		}
		i = end
	}
	return false
}

// numericQuad says whether s is four numbers up to 255 of which one is hexadecimal or octal.
func numericQuad(s string) bool {
	parts, odd := 0, false
	for part := range strings.SplitSeq(s, ".") {
		if parts++; parts > 4 || part == "" {
			return false
		}
		base := 10
		if len(part) > 2 && part[0] == '0' && part[1]|0x20 == 'x' {
			part, base = part[2:], 16
		} else if len(part) > 1 && part[0] == '0' {
			base = 8
		}
		odd = odd || base != 10
		if n, err := strconv.ParseUint(part, base, 16); err != nil || n > 255 {
			return false
		}
	}
	return parts == 4 && odd
}

// findDashedIPv4 says whether s holds an IPv4 address with hyphens for dots, as host names have it: 203-0-113-7.
// Numbers with hyphens are common in ids, so two parts need three digits, or "ip" has to precede it, unless loose.
func findDashedIPv4(s string, loose bool) bool {
	for i := 0; i < len(s); i++ {
		if !isDigit(s[i]) || i > 0 && (isWord(s[i-1]) || s[i-1] == '.') {
			continue
		}
		end := i
		for end < len(s) && (isDigit(s[end]) || s[end] == '-') {
			end++
		}
		run := strings.TrimRight(s[i:end], "-")
		named := i > 2 && (s[i-1] == '-' || s[i-1] == '_' || s[i-1] == '=') && strings.EqualFold(s[i-3:i-1], "ip") &&
			(i == 3 || !isWord(s[i-4]))
		alone := i == 0 || s[i-1] != '-'
		if end == len(s) || !isWord(s[end]) {
			if long, padded, ok := quad(run, "-"); ok && !padded && (named || alone && (long >= 2 || loose)) {
				return true
			}
		}
		i = end
	}
	return false
}

// findIPv6 says whether s holds an IPv6 address. Unless loose, the address has to be in a range that is in use: cafe::1
// can be a name.
func findIPv6(s string, loose bool) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; hexValue[c]&hexBad != 0 && c != ':' || i > 0 && isWord(s[i-1]) {
			continue
		}
		const longest = 64 // more than any spelling of an address has
		end := i
		for end < len(s) && end-i < longest && (hexValue[s[end]]&hexBad == 0 || s[end] == ':' || s[end] == '.') {
			end++
		}
		if end-i == longest || end < len(s) && isWord(s[end]) {
			continue
		}
		run := strings.TrimRight(s[i:end], ".")
		if !strings.HasSuffix(run, "::") {
			run = strings.TrimRight(run, ":")
		}
		if strings.Count(run, ":") < 2 || len(run) > 45 {
			continue
		}
		if a, err := netip.ParseAddr(run); err == nil && a.Is6() && (loose || inUse(a)) {
			return true
		}
	}
	return false
}

// inUse says whether an IPv6 address is in a range from which hosts have addresses.
func inUse(a netip.Addr) bool {
	b := a.As16()
	return b[0]>>5 == 1 || b[0]&0xfe == 0xfc || a.IsLinkLocalUnicast() || a.IsLoopback() || a.Is4In6() ||
		b[0] == 0 && b[1] == 0x64 && b[2] == 0xff && b[3] == 0x9b
}

// findMAC says whether s holds a MAC address: six pairs of hex digits with colons or hyphens between
// them, or three groups of four with dots.
func findMAC(s string) bool {
	for i := 0; i < len(s); i++ {
		if hexValue[s[i]]&hexBad != 0 || i > 0 && isWord(s[i-1]) {
			continue
		}
		if hexGroups(s[i:], 2) == 6 && !followsGroup(s[:i], 2) || hexGroups(s[i:], 4) == 3 && !followsGroup(s[:i], 4) {
			return true
		}
	}
	return false
}

// followsGroup says whether s ends in a group of size hex digits and a separator: what follows is a part of
// something longer.
func followsGroup(s string, size int) bool {
	n := len(s) - 1 - size
	return n >= 0 && s[len(s)-1] != '=' && Hex(s[n:len(s)-1]).Valid() && (n == 0 || !isWord(s[n-1]))
}

// hexGroups counts the groups of size hex digits that s begins with, with the same separator between all of
// them; 0 if they do not end at the border of a word, or are decimal numbers with dots between.
func hexGroups(s string, size int) (n int) {
	var sep byte
	letters := false
	for i := 0; i+size <= len(s) && n <= 6; {
		for _, c := range []byte(s[i : i+size]) {
			if hexValue[c]&hexBad != 0 {
				return 0
			}
			letters = letters || isLetter(c)
		}
		n++
		i += size
		if i == len(s) {
			break
		}
		c := s[i]
		if isWord(c) {
			return 0
		}
		more := i+1 < len(s) && hexValue[s[i+1]]&hexBad == 0
		if !more || sep != 0 && c != sep {
			break
		}
		if sep = c; size == 2 && c != ':' && c != '-' || size == 4 && c != '.' {
			return 0
		}
		i++
	}
	if size == 4 && !letters {
		return 0
	}
	return n
}
