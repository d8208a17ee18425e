package event

import (
	"unicode"

	"sluice/event/internal/pii"
)

// consentPlaces finds the place of a consent name by its folded form.
var consentPlaces = func() map[string]string {
	places := map[string]string{}
	for _, group := range consentTable {
		for _, name := range group.names {
			folded, ok := foldName(nil, name)
			if !ok {
				panic("consent name " + name + " does not fold")
			}
			places[string(folded)] = group.place
		}
	}
	return places
}()

// consentStarts has the first two letters of every consent name. Most words begin with none of them.
var consentStarts = func() (starts [1 << 16]bool) {
	for name := range consentPlaces {
		starts[int(name[0])<<8|int(name[1])] = true
	}
	return starts
}()

// documents are pairs of words that speak of a text and not of a person's choice. They are no part of a consent name.
var documents = map[string]bool{
	"privacypolicy": true, "privacypolicies": true, "consentform": true, "consentforms": true,
}

// IsConsentName reports whether a member name means a consent signal, in any style of writing it. docs/privacy.md lists
// the names.
func IsConsentName(name string) bool {
	_, known := consentPlace(name)
	return known
}

// consentPlace says whether a name is a consent name, and which place that name has. It is one if the whole name
// without its separators is, or a run of its whole words. Of several runs the longest has the place; mmt_only, which is
// the sender's own choice, has it only where there is no other.
func consentPlace(name string) (place string, known bool) {
	var letters [64]byte
	var bounds [16]int
	text, ends := splitName(letters[:0], bounds[:0], name)
	if place, known = consentPlaces[string(text)]; known {
		return place, true
	}
	best, start := 0, 0
	for i := range ends {
		if start+1 < len(text) && consentStarts[int(text[start])<<8|int(text[start+1])] {
			from := start
			for j := i; j < len(ends) && ends[j]-start <= maxName; j++ {
				if j+1 < len(ends) && documents[string(text[from:ends[j+1]])] {
					break
				}
				from = ends[j]
				found, ok := consentPlaces[string(text[start:ends[j]])]
				weight := ends[j] - start
				if found == placeMmtOnly {
					weight = 1
				}
				if ok && weight > best {
					best, place = weight, found
				}
			}
		}
		start = ends[i]
	}
	return place, best > 0
}

// splitName appends the letters and digits of a name in lower case to text, and to ends where each word ends.
// Separators and a capital behind a small letter begin a word. Where several capitals come before a small letter, the
// last of them belongs to either side (USPrivacy, GPPstring), so it is a word of its own: a run has it with both.
func splitName(text []byte, ends []int, name string) ([]byte, []int) {
	end := func() {
		if n := len(text); n > 0 && (len(ends) == 0 || ends[len(ends)-1] < n) {
			ends = append(ends, n)
		}
	}
	capitals, small := 0, false // how many capitals came last; whether a small letter or digit did
	for _, r := range name {
		switch {
		case isSeparator(r):
			end()
			capitals, small = 0, false
			continue
		case r >= 'A' && r <= 'Z':
			if small {
				end()
			}
			capitals, small = capitals+1, false
			r += 'a' - 'A'
		default:
			if capitals > 1 {
				ends = append(ends, len(text)-1, len(text))
			}
			capitals, small = 0, true
		}
		if r < 0x80 {
			text = append(text, byte(r))
		} else {
			text = append(text, 0xff) // a letter that no consent name has
		}
	}
	end()
	return text, ends
}

// isSeparator says whether a character separates words of a name.
func isSeparator(r rune) bool {
	switch r {
	case '_', '-', '.', ' ', ':', '/', '$':
		return true
	}
	return (r < ' ' || r > '~') && (unicode.IsSpace(r) || pii.Invisible(r))
}
