package gpp

import mathbits "math/bits"

// alphabet is the URL-safe base64 order. Every character carries six bits and there is no grouping into bytes, so
// encoding/base64, which drops the tail of a 5-, 9- or 13-character text, cannot read it.
const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// What a byte may be, beside a value from 0 to 63.
const (
	delimiter = 64  // "." or "~"
	foreign   = 255 // outside the alphabet
)

// sextet maps a byte to its six bits, delimiter or foreign.
var sextet = func() (t [256]uint8) {
	for i := range t {
		t[i] = foreign
	}
	for i := range len(alphabet) {
		t[alphabet[i]] = uint8(i)
	}
	t['.'], t['~'] = delimiter, delimiter
	return t
}()

// bits reads a text of the alphabet bit by bit. Reading past the end yields zeros and sets short, so a reader of
// many fields checks once, at the end.
type bits struct {
	s     string
	next  int    // index of the next character to take in
	acc   uint64 // its low n bits are taken in, not yet read
	n     uint
	short bool
}

// bitsAt is a reader of s that starts at bit pos.
func bitsAt(s string, pos int) bits {
	b := bits{s: s, next: pos / 6}
	b.read(uint(pos % 6))
	return b
}

// pos is the number of bits read so far.
func (b *bits) pos() int { return b.next*6 - int(b.n) }

// left is the number of bits not read yet.
func (b *bits) left() int { return (len(b.s)-b.next)*6 + int(b.n) }

// fill takes in characters until k bits are there, k up to 58, and reports whether they are. Five characters at a
// time are twice as fast as one, which matters to strings of a thousand vendors.
func (b *bits) fill(k uint) bool {
	for b.n < k {
		if b.n <= 34 && b.next+5 <= len(b.s) {
			c := b.s[b.next : b.next+5]
			b.acc = b.acc<<30 | uint64(sextet[c[0]])<<24 | uint64(sextet[c[1]])<<18 | uint64(sextet[c[2]])<<12 |
				uint64(sextet[c[3]])<<6 | uint64(sextet[c[4]])
			b.next += 5
			b.n += 30
			continue
		}
		if b.next >= len(b.s) {
			return false
		}
		b.acc = b.acc<<6 | uint64(sextet[b.s[b.next]])
		b.next++
		b.n += 6
	}
	return true
}

// read is the next k bits as an unsigned integer, k up to 58.
func (b *bits) read(k uint) uint64 {
	if b.n < k && !b.fill(k) {
		b.fail()
		return 0
	}
	b.n -= k
	return b.acc >> b.n & (1<<k - 1)
}

// wide is the next k bits as an unsigned integer, k up to 64.
func (b *bits) wide(k uint) (v uint64) {
	for k > 0 {
		some := min(k, 32)
		v = v<<some | b.read(some)
		k -= some
	}
	return v
}

func (b *bits) bool() bool { return b.read(1) == 1 }

// skip passes over k bits without looking at them.
func (b *bits) skip(k int) {
	switch {
	case k <= int(b.n):
		b.n -= uint(k)
	case k <= b.left():
		k -= int(b.n)
		b.next += k / 6
		b.n = 0
		b.read(uint(k % 6))
	default:
		b.fail()
	}
}

// fail ends the reading: nothing is left.
func (b *bits) fail() {
	b.short = true
	b.next, b.n = len(b.s), 0
}

// maxFibonacci is the longest Fibonacci code, in bits, that can stand for a number up to 65,535. Anything longer
// is over every bound we have, whatever it says.
const maxFibonacci = 24

// fibonacciWeights are the weights of a code's bits, first bit first.
var fibonacciWeights = func() (w [maxFibonacci]uint32) {
	w[0], w[1] = 1, 2
	for i := 2; i < len(w); i++ {
		w[i] = w[i-1] + w[i-2]
	}
	return w
}()

// fibonacci reads one Fibonacci-coded integer, which is never 0. The answer 0 means that the code is too long or
// that the text ends inside it (then short is set as well).
func (b *bits) fibonacci() int {
	const window, top = maxFibonacci, uint64(1) << 63
	b.fill(window) // fewer bits at the end of the text are fine
	have := min(b.n, window)
	x := b.acc >> (b.n - have) << (64 - have) // the next bits, from the top
	end := mathbits.LeadingZeros64(x & (x << 1))
	if end+2 > int(have) {
		b.short = have < window
		return 0
	}
	b.n -= uint(end) + 2
	var v uint32
	for ones := x &^ (top>>end - 1); ones != 0; {
		i := mathbits.LeadingZeros64(ones)
		v += fibonacciWeights[i]
		ones &^= top >> i
	}
	return int(v)
}

// maxPadding is the number of zero bits from which the rest of a text is no padding any more: every encoder pads
// to 6, 8 or 24 bits.
const maxPadding = 24

// padding returns why what is left of the text is no padding, or "" if it is. TCF strings carry any number of
// zeros, so the length is checked only when limited.
func (b *bits) padding(limited bool) string {
	if limited && b.left() >= maxPadding {
		return "more bits after the last field than padding explains"
	}
	if b.n > 0 && b.acc<<(64-b.n) != 0 {
		return nonZeroPadding
	}
	for i := b.next; i < len(b.s); i++ {
		if sextet[b.s[i]] != 0 {
			return nonZeroPadding
		}
	}
	return ""
}

const nonZeroPadding = "non-zero bits after the last field"
