package pii

import "strings"

// quotedAt says whether s holds an address whose @ is written as quoted-printable text has it: jane=40example.com.
func quotedAt(s string) bool {
	return strings.Contains(s, "=40") && findEmail(strings.ReplaceAll(s, "=40", "@"))
}

// base32Bad marks a byte that is not in the alphabet of base32.
const base32Bad = 0xff

// base32Value maps a byte to its value in RFC 4648 base32. The two cases of letters are different bytes here, because
// no encoder mixes them.
var base32Value = func() (t [256]uint8) {
	for i := range t {
		t[i] = base32Bad
	}
	for i := range 26 {
		t['A'+i], t['a'+i] = uint8(i), uint8(i)
	}
	for i := range 6 {
		t['2'+i] = uint8(26 + i)
	}
	return t
}()

// minBase32 is the shortest run that is decoded as base32: ten bytes. Shorter addresses are not worth the false alarms
// in short ids.
const minBase32 = 16

// scanBase32 decodes every run of base32 in s and looks for personal data in what comes out, if that is text.
func scanBase32(s string, loose bool) Finding {
	run := 0
	for i := 0; i <= len(s); i++ {
		if i < len(s) && base32Value[s[i]] != base32Bad {
			run++
			continue
		}
		if run >= minBase32 {
			if f := scanBase32Token(s[i-run:i], loose); f != Nothing {
				return f
			}
		}
		run = 0
	}
	return Nothing
}

func scanBase32Token(token string, loose bool) Finding {
	small, large := false, false
	for i := 0; i < len(token); i++ {
		small = small || isLower(token[i])
		large = large || isLetter(token[i]) && !isLower(token[i])
	}
	if small && large {
		return Nothing
	}
	b, ok := decodedText(token, &base32Value, 5)
	if !ok {
		return Nothing
	}
	return scanDecoded(b, 1, loose)
}

// base64Email says whether a run of base64 in s decodes to a text with a complete e-mail address. It is for text
// outside of identifiers, so only addresses count.
func base64Email(s string) bool {
	run := 0
	for i := 0; i <= len(s); i++ {
		if i < len(s) && base64Value[s[i]] != base64Bad {
			run++
			continue
		}
		if run >= minToken && base64Address(s[i-run:i]) {
			return true
		}
		run = 0
	}
	return false
}

// base64Address looks at one run. In a path a run goes on over slashes, and a prefix may end in a hyphen or underscore;
// so the parts between these are tried too, each alone and with all that follows it.
func base64Address(token string) bool {
	address := func(s string) bool {
		if len(s) < minToken {
			return false
		}
		b, ok := base64Text(s)
		return ok && findEmail(string(b))
	}
	if address(token) {
		return true
	}
	start, parts := 0, 0
	for i := 0; i < len(token) && parts < maxParts; i++ {
		if isWord(token[i]) {
			continue
		}
		if address(token[start:i]) || address(token[i+1:min(len(token), i+1+maxTail)]) {
			return true
		}
		start = i + 1
		parts++
	}
	return start > 0 && address(token[start:min(len(token), start+maxTail)])
}

// maxTail bounds what is decoded after a separator: more than an address in a small object has.
const maxTail = 4096

// maxParts bounds the parts of one run that are tried, so that the cost does not grow with the square of the length;
// arbitrary, and more than most paths have.
const maxParts = 12

// upper reports whether one of the eight ASCII bytes of w is a capital letter. Base64 of an @ always has one: its bits
// are 0100 0000, which is Q, or A to D, or A, in the three places that it can have.
func upper(w uint64) bool {
	return (w+(0x80-'A')*each)&^(w+(0x80-'Z'-1)*each)&highs != 0
}

// findDialled looks for a telephone URI: tel: or sms: and a number of seven to fifteen digits, with or without a plus.
func findDialled(s string) bool {
	for i := 0; ; {
		n := strings.IndexByte(s[i:], ':')
		if n < 0 {
			return false
		}
		i += n + 1
		if i < 4 || !strings.EqualFold(s[i-4:i-1], "tel") && !strings.EqualFold(s[i-4:i-1], "sms") || i > 4 &&
			isWord(s[i-5]) {
			continue
		}
		digits := 0
		for j := i; j < len(s) && (isDigit(s[j]) || strings.IndexByte("+-. ()/", s[j]) >= 0); j++ {
			if isDigit(s[j]) {
				digits++
			}
		}
		if digits >= 7 && digits <= 15 {
			return true
		}
	}
}

// bareNumber names a number without separators. It is for values that are rejected in any case: keys of customers are
// often such numbers, and one in ten passes the check of card numbers by chance.
func bareNumber(s string) Finding {
	if cardPrefix(s) && luhn(s) {
		return Card
	}
	if len(s) == 11 && s[0] == '1' && s[1] >= '2' && s[4] >= '2' || len(s) >= 11 && len(s) <= 13 && countryCode(s[:2]) {
		return Phone
	}
	return Nothing
}

// cardPrefix says whether a number has a prefix of a card issuer and the length of its cards.
func cardPrefix(s string) bool {
	switch len(s) {
	case 15:
		return s[:2] == "34" || s[:2] == "37"
	case 14:
		return s[:2] == "36" || s[:2] == "38" || s[:3] >= "300" && s[:3] <= "305"
	case 16:
		return s[0] == '4' || s[:2] >= "51" && s[:2] <= "55" || s[:4] >= "2221" && s[:4] <= "2720" || s[:4] == "6011" ||
			s[:3] >= "644" && s[:3] <= "659" || s[:4] >= "3528" && s[:4] <= "3589" || s[:2] == "62"
	}
	return false
}

// countryCode says whether two digits are a country calling code, or begin with the one of Russia and Kazakhstan.
func countryCode(s string) bool { return s[0] == '7' || countryCodes[s] }

var countryCodes = setOf(`20 27 30 31 32 33 34 36 39 40 41 43 44 45 46 47 48 49 51 52 53 54 55 56 57 58 60 61 62 63 64
	65 66 81 82 84 86 90 91 92 93 94 95 98`)

// joinedName says whether s is a given name and another word, both with a capital, joined by underscores: Jane_Doe. One
// of the words has to be a common given name that is not also an ordinary word: Blue_Shoes is no person, nor is
// Rose_Gold.
func joinedName(s string) bool {
	if s == "" || isLower(s[0]) || !isLower(s[len(s)-1]) {
		return false
	}
	words, given := 0, false
	for word := range strings.SplitSeq(s, "_") {
		if len(word) < 2 || isLower(word[0]) || !isLetter(word[0]) {
			return false
		}
		for i := 1; i < len(word); i++ {
			if !isLower(word[i]) {
				return false
			}
		}
		words++
		given = given || givenNames[word]
	}
	return given && words >= 2 && words <= 3
}

// givenNames are common given names of several languages, in the spelling of joinedName. Names that are ordinary words,
// months, places or brands are left out.
var givenNames = setOf(`
	Aaron Abdul Adam Adrian Agnieszka Ahmed Akira Alejandro Alessandro Alex Alexander Alexandra Ali Alice Alicia Amanda
	Amelia Amy Ana Anastasia Andrea Andreas Andrew Andrzej Angela Anna Anne Annette Anthony Antonio Arjun Ashley Barbara
	Benjamin Bernd Beth Brandon Brenda Brian Bruno Carla Carlos Carol Caroline Catherine Charles Charlotte Chloe Chris
	Christian Christina Christine Christopher Claire Claudia Cynthia Daniel Daniela David Deborah Deepak Denise Dennis
	Diego Dmitri Dominik Donald Dorothy Edward Elena Elisabeth Elizabeth Emily Emma Eric Erika Eva Evelyn Fatima Felipe
	Fernando Florian Francesca Francesco Francisco Frederic Gabriel Gabriela George Gerhard Giovanni Giulia Giuseppe Greg
	Gregory Guillaume Hannah Hans Harry Heather Heinz Helen Helga Henry Hiroshi Hugo Ibrahim Ingrid Irina Isabel Isabella
	Ivan Jacob Jacqueline James Jan Jane Janet Jason Javier Jean Jeffrey Jennifer Jessica Joan Joao Johan Johann Johanna
	John Jonas Jonathan Jorge Jose Joseph Joshua Juan Julia Julie Justin Karen Karin Karl Katarzyna Kate Katherine
	Kathleen Kathy Kenneth Kevin Kimberly Klaus Laura Lauren Leon Liam Linda Lisa Louise Lucas Lucia Luis Luisa Lukas
	Magdalena Manuel Marcel Marco Margaret Maria Mariana Marie Mario Markus Marta Martha Martin Mary Mateusz Matteo
	Matthew Matthias Maurice Megan Melissa Michael Michel Michelle Miguel Mikhail Mohamed Mohammed Monica Monika Muhammad
	Nancy Natalia Natalie Nathan Nicholas Nicolas Nicole Nina Noah Oliver Olivia Omar Pablo Pamela Patricia Patrick Paul
	Paula Pedro Peter Petra Philip Philippe Pierre Priya Rachel Rafael Rahul Ralf Ravi Rebecca Renate Ricardo Richard
	Robert Roberto Roger Ronald Ruth Ryan Sabine Sakura Samantha Samuel Sandra Sanjay Sara Sarah Scott Sean Sebastian
	Sergei Sergio Sharon Silvia Simon Sofia Sophia Sophie Stefan Stefanie Stephanie Stephen Steven Sunita Susan Susanne
	Svetlana Sylvia Tamara Tatiana Teresa Theresa Thomas Timothy Tobias Tomasz Ulrich Ursula Uwe Valentina Vanessa
	Veronica Victoria Vijay Vincent Virginia Vladimir Walter Wei Wilhelm William Wolfgang Xavier Yusuf Yuki Yvonne Zoe`)
