package pii

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// findEmail says whether a complete e-mail address, with a dotted domain, is anywhere in s. It reads s as it
// is; HoldsEmail reads the decoded views too.
func findEmail(s string) bool {
	for i := 0; ; i++ {
		n := strings.IndexByte(s[i:], '@')
		if n < 0 {
			return false
		}
		i += n
		if localPartEnds(s[:i]) && domainBegins(s[i+1:]) {
			return true
		}
	}
}

// localPartEnds says whether s ends in what can precede the @ of an address. A slash cannot: paths of
// social networks have handles, /@name.
func localPartEnds(s string) bool {
	if s == "" {
		return false
	}
	c := s[len(s)-1]
	if c >= 0x80 {
		r, _ := utf8.DecodeLastRuneInString(s)
		return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)
	}
	if c == '"' {
		if len(s) > 66 {
			s = s[len(s)-66:] // 64 octets is the longest local part of RFC 5321
		}
		open := strings.IndexByte(s, '"')
		return open < len(s)-2
	}
	return isLetter(c) || isDigit(c) || strings.IndexByte("_+-.'~!$*#^|}", c) >= 0
}

// domainBegins says whether s begins with a domain of at least two labels whose last is no number and no
// file extension, or with an address literal in brackets.
func domainBegins(s string) bool {
	if strings.HasPrefix(s, "[") {
		end := strings.IndexByte(s, ']')
		return end > 3 && end < 64 && (strings.IndexByte(s[:end], '.') > 0 || strings.IndexByte(s[:end], ':') > 0)
	}
	end := domainLength(s)
	first := strings.IndexByte(s[:end], '.')
	if first <= 0 {
		return false
	}
	domain := strings.TrimRight(s[:end], ".-")
	// 2x.de and 163.com are domains like any other; 2x.min.js is the end of a file's name, and so is the version
	// 3.6.0.min.js.
	if pixelDensity(s[:first]) || allDigits(s[:first]) && versionGoesOn(s[first+1:end]) {
		last, _, _ := strings.Cut(domain[strings.LastIndexByte(domain, '.')+1:], "-")
		if assets.has(last) {
			return false
		}
	}
	for {
		dot := strings.LastIndexByte(domain, '.')
		if dot < 0 {
			return false
		}
		label := domain[dot+1:]
		switch {
		case fileExtension(label):
		case topLevel(label):
			return true
		case !allDigits(label) || !topLevels.has(domain[strings.LastIndexByte(domain[:dot], '.')+1:dot]):
			return false
		}
		domain = domain[:dot]
	}
}

// domainLength is the length of the run of letters, digits, hyphens and dots that s begins with.
func domainLength(s string) int {
	for i := 0; i < len(s); {
		c := s[i]
		if c < 0x80 {
			if !isLetter(c) && !isDigit(c) && c != '-' && c != '.' || c == '.' && strings.HasPrefix(s[i:], "..") {
				return i
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) {
			return i
		}
		i += n
	}
	return len(s)
}

// topLevel says whether a label can be the last of a domain: two letters or more, up to a hyphen.
func topLevel(label string) bool {
	if strings.HasPrefix(label, "xn--") || strings.HasPrefix(label, "XN--") {
		return true
	}
	if n := strings.IndexByte(label, '-'); n >= 0 {
		label = label[:n]
	}
	letters := 0
	for _, r := range label {
		if !unicode.IsLetter(r) && !unicode.IsMark(r) {
			return false
		}
		letters++
	}
	return letters >= 2
}

// topLevels are domains under which many people have their mail. They are asked where the rest of the evidence is weak.
var topLevels = setOf(`com net org edu gov mil int info biz name io ai app dev me tv cc mail email online site shop
	store xyz club live pro tech cloud asia test example invalid us uk de fr es it nl be ch at
	se no dk fi is pl cz sk hu ro bg gr pt ie lu li ee lv lt ru ua by tr il ae sa eg za ng ke ma
	ca mx br ar cl co pe ve au nz jp cn kr tw hk sg my th vn ph id in pk eu`)

// assets are the endings of images, and of scripts and styles that come with them; pages are those of other files of a
// web site. None is a top-level domain.
var (
	assets = setOf("png jpg jpeg gif svg webp avif ico bmp tiff css js mjs map")
	pages  = setOf("json htm html php asp aspx jsp xml pdf mp3 mp4 webm woff woff2 ttf txt csv wasm")
)

// fileExtension says whether a label ends the name of a file, as in logo@2x.png.
func fileExtension(label string) bool { return assets.has(label) || pages.has(label) }

// pixelDensity says whether a label is the 2x of logo@2x.png.
func pixelDensity(label string) bool {
	n := len(label) - 1
	return n > 0 && (label[n] == 'x' || label[n] == 'X') && allDigits(label[:n])
}

// versionGoesOn says whether the label behind a number is one of a version, or ends the name of a file: 6.0.js, min.js.
func versionGoesOn(labels string) bool {
	label, _, _ := strings.Cut(labels, ".")
	label, _, _ = strings.Cut(label, "-")
	return allDigits(label) || label == "min" || assets.has(label)
}

// findSpelledAt says whether an address with its @ spelled out is in s: jane_at_example.com, jane(at)example.com,
// jane [at] example [dot] com, jane#at#example.com. Between underscores, hyphens or spaces the word is common, so there
// the domain has to end in a well-known top-level domain.
func findSpelledAt(s string) bool {
	for i := 2; i+4 < len(s); i++ {
		if s[i]|0x20 != 'a' || s[i+1]|0x20 != 't' {
			continue
		}
		strong, ok := delimited(s[i-1], s[i+2])
		if !ok {
			continue
		}
		local := strings.TrimRight(s[:i-1], " ")
		if local != "" && (isLetter(local[len(local)-1]) || isDigit(local[len(local)-1])) &&
			spelledDomain(strings.TrimLeft(s[i+3:], " "), strong) {
			return true
		}
	}
	return false
}

// delimited says whether the bytes around a word set it apart, and whether they are strong: brackets and the like.
func delimited(before, after byte) (strong, ok bool) {
	if i := strings.IndexByte("([{<", before); i >= 0 {
		return true, after == ")]}>"[i]
	}
	strong = strings.IndexByte("#*|~", before) >= 0
	return strong, after == before && (strong || strings.IndexByte("_- ", before) >= 0)
}

// spelledDomain says whether s begins with a domain in which a dot may be spelled out.
func spelledDomain(s string, strong bool) bool {
	const maxLabels, maxLabel = 8, 63 // of RFC 1035 the latter; the former keeps the cost in bounds
	for labels := 1; labels <= maxLabels; labels++ {
		n := 0
		for n < len(s) && n <= maxLabel && (isLetter(s[n]) || isDigit(s[n]) || s[n] == '-' && n+1 < len(s) &&
			isLetter(s[n+1]) && !spelledDot(s[n:])) {
			n++
		}
		if n == 0 {
			return false
		}
		label, rest := s[:n], s[n:]
		dot := dotLength(rest)
		if dot == 0 {
			return labels > 1 && (topLevels.has(label) || strong && topLevel(label) && !fileExtension(label))
		}
		if labels > 1 && rest[dot:] == "" {
			return topLevels.has(label)
		}
		s = rest[dot:]
	}
	return false
}

func spelledDot(s string) bool {
	if len(s) < 5 || !strings.EqualFold(s[1:4], "dot") {
		return false
	}
	_, ok := delimited(s[0], s[4])
	return ok
}

// dotLength is the length of the dot, as such or spelled out, that s begins with.
func dotLength(s string) int {
	if s != "" && s[0] == '.' {
		return 1
	}
	t := strings.TrimLeft(s, " ")
	if len(t) > 0 && len(t) < len(s) && !spelledDot(t) {
		t = s[len(s)-len(t)-1:] // the space itself may be the delimiter
	}
	if !spelledDot(t) {
		return 0
	}
	t = strings.TrimLeft(t[5:], " ")
	return len(s) - len(t)
}
