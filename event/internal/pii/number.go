package pii

import (
	"slices"
	"strings"
)

// maxGroups is the most groups of digits that any number we know is written in, and one to see that there
// are more.
const maxGroups = 7

// grouped is a number as people write it: groups of digits with separators between them.
type grouped struct {
	text    string // from the first digit to the last
	start   [maxGroups]int
	length  [maxGroups]int
	groups  int
	digits  int
	sep     byte // the separator if all are the same, else 0
	plus    bool // a + before it
	paren   bool // a group in parentheses
	spliced bool // letters touch it, or more groups than we read
}

// findNumber looks for phone, social security and card numbers. Digits without separators do
// not count: ids of orders and users, and times, are written that way. Nor do groups that letters touch,
// and these are passed over as a whole. A slash may also part a number from what is beside it, such as a month.
func findNumber(s string, loose bool) Finding {
	for i := 0; i < len(s); {
		if !isWord(s[i]) {
			i++
			continue
		}
		if isDigit(s[i]) { // no letter is before it: the loop below would have passed it
			end := groupsEnd(s, i)
			if end == len(s) || !isWord(s[end]) || extension(s[end:]) {
				g := readGroups(s, i)
				if f := g.find(loose); f != Nothing {
					return f
				}
				if g.sep != '/' && strings.IndexByte(g.text, '/') >= 0 {
					for part := range strings.SplitSeq(g.text, "/") {
						if f := findNumber(part, loose); f != Nothing {
							return f
						}
					}
				}
			}
			i = end
			continue
		}
		for i < len(s) && isWord(s[i]) {
			i++
		}
		if isDigit(s[i-1]) {
			i = groupsEnd(s, i-1)
		}
	}
	return Nothing
}

// groupsEnd is where groups of digits end of which one has a digit at s[i].
func groupsEnd(s string, i int) int {
	for {
		for i < len(s) && isDigit(s[i]) {
			i++
		}
		next := nextGroup(s, i)
		if next == i {
			return i
		}
		i = next
	}
}

// nextGroup is where digits go on behind up to three separators at s[i], or i if they do not.
func nextGroup(s string, i int) int {
	next := i
	for next < len(s) && next-i < 3 && separates(s[next]) {
		next++
	}
	if next == len(s) || !isDigit(s[next]) {
		return i
	}
	return next
}

// readGroups reads the number at s[i], a digit.
func readGroups(s string, i int) (g grouped) {
	before := i
	if before > 0 && s[before-1] == '(' {
		g.paren = true
		before--
	}
	for before > 0 && s[before-1] == ' ' && g.paren {
		before--
	}
	if before > 0 && s[before-1] == '+' {
		g.plus = true
		before--
	}
	attached := before > 0 && isWord(s[before-1])
	begin := i
	for {
		start := i
		for i < len(s) && isDigit(s[i]) {
			i++
		}
		if g.groups < maxGroups {
			g.start[g.groups], g.length[g.groups] = start-begin, i-start
			g.groups++
			g.digits += i - start
		} else {
			g.spliced = true
		}
		g.text = s[begin:i]
		next := nextGroup(s, i)
		if next == i {
			break
		}
		g.separate(s[i:next])
		i = next
	}
	// A + after a letter is usually part of base64 or of a tag, unless a long number follows.
	if attached && (!g.plus || g.length[0] < 10) ||
		i < len(s) && isWord(s[i]) && !(extension(s[i:]) && (g.plus && g.digits >= 10 || g.northAmerican())) {
		g.spliced = true
	}
	return g
}

// extensions are what stands between a phone number and what is dialled behind it.
var extensions = []string{"x", "ext", "ext.", "extension"}

// extension says whether s begins as what is dialled behind a phone number: x12, ext12.
func extension(s string) bool {
	return slices.ContainsFunc(extensions, func(word string) bool {
		n := len(word)
		return len(s) > n && isDigit(s[n]) && strings.EqualFold(s[:n], word)
	})
}

func separates(c byte) bool {
	return strings.IndexByte("-. ()/", c) >= 0
}

func (g *grouped) separate(sep string) {
	g.paren = g.paren || strings.ContainsAny(sep, "()")
	if g.groups == 1 && len(sep) == 1 {
		g.sep = sep[0]
	} else if len(sep) != 1 || sep[0] != g.sep {
		g.sep = 0
	}
}

func (g *grouped) find(loose bool) Finding {
	if g.spliced {
		return Nothing
	}
	if g.plus && g.international() {
		return Phone
	}
	switch {
	case g.shape(3, 2, 4):
		if g.sep != '/' && g.socialSecurity() {
			return SSN
		}
	case g.northAmerican():
		return Phone
	case g.shape(4, 4, 4, 4), g.shape(4, 6, 5), g.shape(4, 6, 4), g.shape(4, 4, 4, 4, 3):
		if g.text[0] >= '2' && g.text[0] <= '6' && luhn(g.text) {
			return Card
		}
	}
	if g.trunk() || loose && g.dialled() {
		return Phone
	}
	return Nothing
}

func (g *grouped) shape(lengths ...int) bool {
	return slices.Equal(g.length[:g.groups], lengths)
}

// international says whether the first groups after the + make a number of E.164: no leading zero, at most
// 15 digits. Seven is the fewest that any country dials, with its code.
func (g *grouped) international() bool {
	if g.text[0] == '0' {
		return false
	}
	n := 0
	for i := range g.groups {
		if n += g.length[i]; n >= 7 && n <= 15 {
			return true
		}
	}
	return false
}

// northAmerican says whether the groups are a number of the North American plan, with or without its country code.
func (g *grouped) northAmerican() bool {
	switch {
	case g.shape(3, 3, 4):
		return g.areaCode(0)
	case g.shape(1, 3, 3, 4):
		return g.text[0] == '1' && g.areaCode(1)
	case g.shape(3, 7):
		return g.paren && g.areaCode(0)
	}
	return false
}

// areaCode says whether a group and the next are an area code and an exchange of the North American plan: both begin
// with 2 to 9 and are no service code such as 911, and no area code has 9 second.
func (g *grouped) areaCode(group int) bool {
	area, exchange := g.text[g.start[group]:], g.text[g.start[group+1]:]
	service := func(s string) bool { return s[1] == '1' && s[2] == '1' }
	return area[0] >= '2' && area[1] != '9' && !service(area) && exchange[0] >= '2' && !service(exchange)
}

// socialSecurity says whether 3-2-4 digits could have been issued as a US social security number.
func (g *grouped) socialSecurity() bool {
	area, group, serial := g.text[:3], g.text[g.start[1]:g.start[1]+2], g.text[g.start[2]:]
	return area != "000" && area != "666" && area[0] != '9' && group != "00" && serial != "0000"
}

// trunk says whether the number begins with a trunk zero, in one of the groupings that numbers are printed
// in outside North America: five pairs, or 3-4-4, 4-3-4, 4-3-3, 5-3-3, and 5-6 for mobile numbers.
func (g *grouped) trunk() bool {
	if g.digits < 10 || g.text[0] != '0' || g.text[1] == '0' || g.sep == 0 && !g.paren {
		return false
	}
	return g.shape(2, 2, 2, 2, 2) || g.shape(3, 4, 4) || g.shape(4, 3, 4) || g.shape(4, 3, 3) || g.shape(5, 3, 3) ||
		g.shape(5, 6) && g.text[1] == '7'
}

// dialled says whether a number that is rejected anyway is more likely a phone number than anything else.
func (g *grouped) dialled() bool {
	return g.digits >= 9 && g.digits <= 15 && g.groups > 1 && g.sep != '.' && (g.text[0] == '0' || g.paren)
}

// luhn says whether the digits of s have the check digit that card numbers have.
func luhn(s string) bool {
	sum, double := 0, false
	for i := len(s) - 1; i >= 0; i-- {
		c := s[i]
		if !isDigit(c) {
			continue
		}
		d := int(c - '0')
		if double {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
		double = !double
	}
	return sum%10 == 0
}
